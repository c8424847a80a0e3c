#include "db/evidence.h"

#include <algorithm>

namespace versieve::db {
namespace {

bool has_counters(const PointMeasurement& point) {
  return std::any_of(point.ranges.begin(), point.ranges.end(),
                     [](const RangeMeasurement& range) { return !range.counters.empty(); });
}

}  // namespace

Evidence evidence_of(const Store& store, const std::string& device) {
  Evidence out{.device = device};
  for (const StoredRun& run : store.runs()) {
    if (run.record.device != device) {
      continue;
    }
    if (!is_imported(run.record)) {
      out.runs.push_back(run.record.uuid);
    }
    for (const WorkloadKind kind : kFittedWorkloads) {
      for (PointMeasurement& point : store.points({.run_id = run.id, .workload = kind})) {
        if (!run.record.counted_warm && has_counters(point)) {
          out.left_out[kCountedCold] += 1;
        } else {
          out.points.push_back(std::move(point));
        }
      }
    }
  }
  std::vector<PointMeasurement> acceptance = acceptance_points(store);
  std::move(acceptance.begin(), acceptance.end(), std::back_inserter(out.points));
  return out;
}

std::vector<PointMeasurement> acceptance_points(const Store& store) {
  return store.points({.workload = WorkloadKind::kAcceptance, .only_ok = true});
}

std::string left_out_text(const std::map<std::string, std::int64_t>& left_out) {
  std::string text;
  for (const auto& [reason, points] : left_out) {
    text += "; left out: " + std::to_string(points) + " points, " + reason;
  }
  return text;
}

}  // namespace versieve::db
