// A campaign's run in the database: its points with what was noticed of them, closed as aborted if
// an exception leaves it.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

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

  // Of the point that add() stores next.
  void keep(StepDetail detail) { detail_ = std::move(detail); }
  // Throws Error(kEnvironment) where the database does not take it.
  void add(const PointMeasurement& point);
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
  StepDetail detail_;
  std::int64_t traces_ = 0;
  engine::ClockLog clocks_;
  RefusedPoints refused_;
};

}  // namespace versieve::cli
