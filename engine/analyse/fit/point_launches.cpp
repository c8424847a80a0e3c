#include "engine/analyse/fit/point_launches.h"

namespace versieve::engine {

PointLaunches launches_of(const FitPoint& point, double growth) {
  const PointWork work = work_of(point, growth, /*known=*/true);
  PointLaunches out;
  out.timed.assign(work.timed.begin(), work.timed.end());
  out.host_trips = work.timed.host_trips;
  out.led_trips = work.timed.led_trips;
  if (point.key.workload == WorkloadKind::kStep ||
      point.key.workload == WorkloadKind::kRectifiedStep) {
    out.observed.assign(work.observed.begin(), work.observed.end());
  }
  return out;
}

const std::vector<PointLaunches>& AllLaunches::at(double growth) {
  const bool first = launches_.empty();
  if (first || growth != growth_) {
    launches_.resize(points_.size());
    for (std::size_t i = 0; i < points_.size(); ++i) {
      if (first || !points_[i]->unique_blocks) {
        launches_[i] = launches_of(*points_[i], growth);
      }
    }
    growth_ = growth;
  }
  return launches_;
}

}  // namespace versieve::engine
