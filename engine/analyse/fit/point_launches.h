// The launches of a fit's points, close together and composed once: a search prices them hundreds
// of times, and only the growth of distinct blocks composes any of them anew.
#pragma once

#include <span>
#include <vector>

#include "engine/analyse/fit/fit_points.h"

namespace versieve::engine {

struct PointLaunches {
  std::vector<LaunchWork> timed;
  std::vector<LaunchWork> observed;  // empty: `timed`, as of all but recorded steps
  double host_trips = 0.0;           // of `timed`
  double led_trips = 0.0;            // likewise

  std::span<const LaunchWork> watched() const { return observed.empty() ? timed : observed; }
};

// As work_of, with what was measured known.
PointLaunches launches_of(const FitPoint& point, double growth);

class AllLaunches {
 public:
  explicit AllLaunches(const std::vector<const FitPoint*>& points) : points_(points) {}

  // Composed at this growth; [points].
  const std::vector<PointLaunches>& at(double growth);
  // As the last call left them.
  const std::vector<PointLaunches>& composed() const { return launches_; }
  double growth() const { return growth_; }

 private:
  const std::vector<const FitPoint*>& points_;
  std::vector<PointLaunches> launches_;
  double growth_ = -1.0;
};

}  // namespace versieve::engine
