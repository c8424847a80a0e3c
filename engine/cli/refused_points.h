// Points that a campaign could not measure, by why: one line a kind, so that nobody has to ask the
// database.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "model/words/measurement.h"

namespace versieve::cli {

class RefusedPoints {
 public:
  void add(const PointMeasurement& point);

  // "20 acceptance points refused: no prompt ...", as first met.
  std::vector<std::string> lines() const;
  nlohmann::ordered_json json() const;  // [{"workload", "status", "points", "reason"}]

 private:
  struct Kind {
    WorkloadKind workload;
    PointStatus status;
    std::string reason;
    std::int64_t points = 0;
  };
  std::vector<Kind> kinds_;
};

}  // namespace versieve::cli
