#include "engine/cli/refused_points.h"

#include <algorithm>

namespace versieve::cli {

void RefusedPoints::add(const PointMeasurement& point) {
  if (point.status == PointStatus::kOk) {
    return;
  }
  const auto known = std::find_if(kinds_.begin(), kinds_.end(), [&](const Kind& kind) {
    return kind.workload == point.key.workload && kind.status == point.status &&
           kind.reason == point.reason;
  });
  Kind& kind = known != kinds_.end()
                   ? *known
                   : kinds_.emplace_back(Kind{point.key.workload, point.status, point.reason});
  ++kind.points;
}

std::vector<std::string> RefusedPoints::lines() const {
  std::vector<std::string> out;
  for (const Kind& kind : kinds_) {
    out.push_back(std::to_string(kind.points) + " " + name_of(kind.workload) +
                  (kind.points == 1 ? " point " : " points ") + name_of(kind.status) + ": " +
                  kind.reason);
  }
  return out;
}

nlohmann::ordered_json RefusedPoints::json() const {
  nlohmann::ordered_json out = nlohmann::ordered_json::array();
  for (const Kind& kind : kinds_) {
    out.push_back({{"workload", name_of(kind.workload)},
                   {"status", name_of(kind.status)},
                   {"points", kind.points},
                   {"reason", kind.reason}});
  }
  return out;
}

}  // namespace versieve::cli
