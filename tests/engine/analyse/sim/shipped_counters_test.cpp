// Simulated against counted on a few points of the shipped database. The whole comparison is
// `versieve simulate --check --db db/measured/h200.db`; its figures stand in
// engine/analyse/sim/MEASURED.md.
#include <algorithm>
#include <catch2/catch.hpp>

#include "db/store.h"
#include "engine/analyse/sim/simulate_point.h"
#include "engine/analyse/sim/validation.h"
#include "tests/support/paths.h"

using namespace versieve;
using namespace versieve::engine;

TEST_CASE("simulated bytes of shipped points are near the counted ones") {
  const db::Store store =
      db::Store::open(VERSIEVE_SOURCE_DIR "/db/measured/h200.db", db::OpenMode::kReadOnly);
  std::vector<Comparison> comparisons;
  for (const db::StoredRun& run : store.runs()) {
    if (run.record.kind != "h200-vanilla" && run.record.kind != "h200-fused") {
      continue;
    }
    const SimulationPlan plan{.machine = memory_machine(hardware_by_key("h200-sxm")),
                              .protocol = collection_warmed_up(),
                              .seed = run.record.seed};
    std::vector<PointMeasurement> points =
        store.points({.run_id = run.id, .workload = WorkloadKind::kAttention, .only_ok = true});
    // The small ones of the cold points: a test takes seconds.
    points.erase(std::remove_if(points.begin(), points.end(),
                                [](const PointMeasurement& p) {
                                  return p.key.cache_state == CacheState::kWarm ||
                                         p.key.num_queries > 16 || p.key.context_len > 16384;
                                }),
                 points.end());
    for (std::size_t i = 0; i < points.size(); i += 12) {
      const PointMeasurement simulated = simulate_point(
          points[i].key, {points[i].adjacent_overlap, points[i].unique_blocks}, plan);
      REQUIRE(simulated.status == PointStatus::kOk);
      CHECK(simulated.key.backend == Backend::kSimulator);
      for (const Comparison& c : compare(points[i], simulated)) {
        comparisons.push_back(c);
      }
    }
  }
  const SimulationErrors all = summarize(comparisons).front();
  INFO(summary_text(summarize(comparisons)));
  REQUIRE(all.what == "all");
  CHECK(all.count > 10);
  CHECK(all.read_median < 0.03);
  CHECK(all.bytes_median < 0.04);
  CHECK(all.hit_rate_median < 0.05);  // looks for announced parts: engine/analyse/sim/MEASURED.md
}
