// The points that ship with the project, as a fit takes them.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "db/store.h"
#include "engine/analyse/fit/fit_points.h"
#include "tests/support/paths.h"

namespace versieve::test {

// Acceptance of any machine, and all else that `device` measured, of db/measured/`file`.
inline std::vector<PointMeasurement> shipped_points(const std::string& file,
                                                    const std::string& device) {
  const db::Store store = db::Store::open(std::string(VERSIEVE_SOURCE_DIR "/db/measured/") + file,
                                          db::OpenMode::kReadOnly);
  std::vector<PointMeasurement> out =
      store.points({.workload = WorkloadKind::kAcceptance, .only_ok = true});
  for (const db::StoredRun& run : store.runs()) {
    if (run.record.device != device) {
      continue;
    }
    for (const WorkloadKind kind : engine::kFittedWorkloads) {
      for (PointMeasurement& m : store.points({.run_id = run.id, .workload = kind})) {
        m.opened_share = engine::opened_share(run.record.configuration);
        m.counters_warmed_up = engine::counters_warmed_up(run.record.configuration);
        out.push_back(std::move(m));
      }
    }
  }
  return out;
}

}  // namespace versieve::test
