// Snapshots of any size, made in memory, and a database of any size, made within SQLite; made-up
// numbers, the same each time.
#pragma once

#include <cmath>
#include <memory>
#include <string>

#include "db/sqlite.h"
#include "gui/models/snapshot.h"
#include "tests/gui/made_up_sweep.h"

namespace versieve::gui {

inline double made_up_share(std::uint64_t number) {
  number = (number + 1) * 0x9E3779B97F4A7C15ULL;
  number ^= number >> 29;
  number *= 0xBF58476D1CE4E5B9ULL;
  return static_cast<double>(number >> 11) * 0x1.0p-53;
}

// Contexts, queries and strategies as of a campaign; times, bytes, overlaps and yields that follow
// from them, each with a spread.
inline std::shared_ptr<Snapshot> many_points(int count) {
  const auto snapshot = std::make_shared<Snapshot>();
  snapshot->path = QString("made-up-%1.db").arg(count);
  snapshot->state.size = 1;
  for (std::int64_t id = 1; id <= 5; ++id) {
    db::StoredRun run;
    run.id = id;
    run.record = test::sample_run("made-up-run-" + std::to_string(id));
    snapshot->runs.push_back(run);
    snapshot->diagnostics.emplace_back();
  }
  db::Overview& overview = snapshot->overview;
  overview.words = {"",     "nsa-1b",    "smollm2-nsa", "chat",  "code",     "calibration", "bf16",
                    "cuda", "simulator", "cold",        "graph", "reliable", "ok"};
  const std::int32_t first_strategy = static_cast<std::int32_t>(overview.words.size());
  for (const int nodes : {8, 16, 24, 32, 48, 64}) {
    for (const char* form : {"nsa/d6k8n", "dense/d6k8n", "specattn/d4k4n"}) {
      overview.words.push_back(form + std::to_string(nodes) + "/dfs/c1/F*");
    }
  }
  for (int i = 0; i < count; ++i) {
    const auto share = [i](int of) {
      return made_up_share(static_cast<std::uint64_t>(i) * 16 + static_cast<std::uint64_t>(of));
    };
    db::PointOverview point;
    point.id = i + 1;
    point.run_id = 1 + i % 5;
    point.workload = i % 7 == 0 ? WorkloadKind::kStep : WorkloadKind::kAttention;
    point.model = 1 + i % 2;
    point.regime = 3 + i % 2;
    point.split = 5;
    point.strategy = first_strategy + static_cast<std::int32_t>(18.0 * share(0));
    point.dtype = 6;
    point.backend = share(1) < 0.9 ? 7 : 8;
    point.cache_state = 9;
    point.launch = 10;
    point.reliability = 11;
    point.status = 12;
    point.context_len = 1024LL << static_cast<int>(9.0 * share(2));
    point.num_queries = 1LL << static_cast<int>(8.0 * share(3));
    point.adjacent_overlap = 0.3 + 0.7 * share(4);
    const double megabytes =
        0.4 + 1.3e-4 * static_cast<double>(point.context_len) +
        0.2 * static_cast<double>(point.num_queries) * (1.1 - *point.adjacent_overlap);
    point.dram_bytes = 1e6 * megabytes * (0.9 + 0.2 * share(5));
    point.predicted_dram_bytes = 1e6 * megabytes;
    point.median_ns = 1e3 * (8.0 + megabytes / 2.4) * (0.8 + 0.6 * share(6) * share(7));
    point.median_low_ns = 0.99 * *point.median_ns;
    point.median_high_ns = 1.01 * *point.median_ns;
    if (i % 4 != 0) {
      point.accepted_per_step = 1.0 + 4.0 * share(8);
    }
    overview.points.push_back(point);
  }
  derive(*snapshot);
  return snapshot;
}

// A file of so many points at least.
inline void write_many_points(const std::string& path, int count) {
  test::write_made_up_sweep(path);
  db::Database database(path, db::Access::kWrite);
  database.execute("PRAGMA synchronous = OFF; PRAGMA journal_mode = MEMORY");
  const std::string same =
      "workload, model, regime, split, strategy, dtype, backend, cache_state, launch, context_len, "
      "num_queries, status, reason, stop_reason, reliability, unique_blocks, sample_count, pair";
  const std::string spread = "(0.6 + (i * 7919 + id * 104729) % 9973 / 9973.0)";
  database.execute(
      "WITH RECURSIVE turn(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM turn WHERE i < " +
      std::to_string(count / test::kMadeUpAttention + 1) + ") INSERT INTO point (run_id, " + same +
      ", overlap, adjacent_overlap, median_ns, median_low_ns, median_high_ns, dram_bytes, "
      "predicted_bytes, accepted) SELECT run_id, " +
      same + ", i * 1e-6, (i * 31 + id) % 97 / 97.0, median_ns * " + spread + ", median_low_ns * " +
      spread + ", median_high_ns * " + spread +
      ", dram_bytes * (0.9 + i % 89 / 400.0), "
      "predicted_bytes, accepted FROM point, turn WHERE median_ns IS NOT NULL AND id <= " +
      std::to_string(test::kMadeUpAttention));
}

}  // namespace versieve::gui
