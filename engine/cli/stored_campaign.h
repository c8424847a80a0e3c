// A campaign's run in the database: its points with what was noticed of them, closed as aborted if
// an exception leaves it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "db/step_details.h"
#include "db/store.h"
#include "engine/cli/refused_points.h"
#include "engine/measure/sweep/clock_log.h"
#include "model/words/measurement.h"
#include "model/words/step_trace.h"

namespace versieve::cli {

class StoredCampaign {
 public:
  StoredCampaign(db::Store& store, const RunRecord& record);
  ~StoredCampaign();
  StoredCampaign(const StoredCampaign&) = delete;
  StoredCampaign& operator=(const StoredCampaign&) = delete;

  // Throws Error(kEnvironment) where the database does not take it.
  void add(const PointMeasurement& point);
  // Of the point that add() stored last.
  void add_detail(const StepDetail& detail);
  const engine::ClockLog& clocks() const { return clocks_; }
  const RefusedPoints& refused() const { return refused_; }
  std::int64_t traces() const { return traces_; }  // stored
  // Throws Error(kEnvironment) where the database does not take it.
  void complete();
  std::string uuid() const;

 private:
  db::Store& store_;
  std::int64_t id_ = 0;
  bool open_ = true;
  std::int64_t last_point_ = 0;
  std::int64_t traces_ = 0;
  std::optional<db::StepDetails> details_;  // opened for the first
  engine::ClockLog clocks_;
  RefusedPoints refused_;
};

}  // namespace versieve::cli
