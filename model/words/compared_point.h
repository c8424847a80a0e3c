// What a database brings to a comparison with another one: the good points of one of its devices,
// in the figures that are compared.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/words/measurement.h"

namespace versieve {

struct ComparedPoint {
  PointKey key;
  std::int64_t id = 0;  // in its database; so is the run's
  std::int64_t run_id = 0;
  std::string program;  // that measured it: the run's revision
  Reliability reliability = Reliability::kOk;
  std::optional<double> median_ns;      // of the point's time
  std::optional<double> median_low_ns;  // its 95 % interval
  std::optional<double> median_high_ns;
  std::optional<double> dram_bytes;         // read and written
  std::optional<double> accepted_per_step;  // bonus counted
};

struct ComparedSide {
  std::string database;                    // its path
  std::string device;                      // as the runs name it
  std::vector<std::string> other_devices;  // whose points are left out
  std::vector<RunRecord> runs;             // those with points here, oldest first
  std::vector<ComparedPoint> points;       // by id: of a tuple measured again the newest comes last
};

}  // namespace versieve
