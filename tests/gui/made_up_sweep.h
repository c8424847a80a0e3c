// A database with the shape of a real campaign and made-up numbers, for tests of the app only.
#pragma once

#include <cmath>
#include <string>

#include "db/store.h"
#include "tests/db/sample_points.h"

namespace versieve::test {

inline PointMeasurement made_up_attention(std::int64_t context_len, std::int64_t num_queries,
                                          Backend backend) {
  PointMeasurement point = sample_point(0);
  point.acceptance.reset();
  point.key.workload = WorkloadKind::kAttention;
  point.key.model = "nsa-1b";
  point.key.regime = "synthetic";
  point.key.split = "";
  point.key.strategy =
      num_queries == 1 ? "nsa/ar" : "nsa/d6k8n" + std::to_string(num_queries) + "/dfs/c1/F*";
  point.key.backend = backend;
  point.key.context_len = context_len;
  point.key.num_queries = num_queries;
  const double megabytes = 0.4 + 1.3e-4 * static_cast<double>(context_len) +
                           0.13 * std::sqrt(static_cast<double>(num_queries));
  const double microseconds = 9.0 + megabytes / 2.4 + 0.3 * static_cast<double>(num_queries);
  for (std::size_t i = 0; i < point.time_ns.size(); ++i) {
    point.time_ns[i] = 1e3 * microseconds * (1.0 + 0.004 * static_cast<double>(i));
  }
  point.ranges.resize(1);
  point.ranges[0].predicted = {};
  point.ranges[0].predicted.read(TrafficTerm::kSelectedBlocks, megabytes * 0.95e6);
  point.ranges[0].counters = {{"dram__bytes_read.sum", megabytes * 0.97e6, CounterStatus::kOk},
                              {"dram__bytes_write.sum", megabytes * 0.05e6, CounterStatus::kOk}};
  return point;
}

inline PointMeasurement made_up_acceptance(std::int64_t context_len, const std::string& regime,
                                           std::int64_t nodes) {
  PointMeasurement point = sample_point(2);
  point.key.workload = WorkloadKind::kAcceptance;
  point.key.model = "demo-nsa";
  point.key.regime = regime;
  point.key.strategy = "nsa/d6k8n" + std::to_string(nodes) + "/dfs/c1/F*";
  point.key.dtype = Dtype::kF32;
  point.key.context_len = context_len;
  point.key.num_queries = nodes;
  point.key.overlap.reset();
  point.time_ns.clear();
  point.ranges.clear();
  point.acceptance->accepted_per_step = 2.5 + 0.4 * std::log2(static_cast<double>(nodes));
  return point;
}

// 7 contexts x 5 query counts measured, 5 simulated, 8 acceptance points, 1 refused.
inline constexpr int kMadeUpAttention = 35;
inline constexpr int kMadeUpSimulated = 5;
inline constexpr int kMadeUpAcceptance = 8;
inline constexpr int kMadeUpPoints = kMadeUpAttention + kMadeUpSimulated + kMadeUpAcceptance + 1;

inline void write_made_up_sweep(const std::string& path) {
  db::Store store = db::Store::open(path, db::OpenMode::kCreateOrOpen);
  const std::int64_t run = store.begin_run(sample_run("made-up-run-1"));
  for (std::int64_t context_len = 1024; context_len <= 65536; context_len *= 2) {
    for (const std::int64_t queries : {1, 4, 16, 64, 128}) {
      store.add_point(run, made_up_attention(context_len, queries, Backend::kCuda));
    }
  }
  for (const std::int64_t queries : {1, 4, 16, 64, 128}) {
    store.add_point(run, made_up_attention(16384, queries, Backend::kSimulator));
  }
  PointMeasurement refused = made_up_attention(131072, 64, Backend::kCuda);
  refused.status = PointStatus::kRefused;
  refused.reason = "the context is longer than the cache";
  refused.time_ns.clear();
  refused.ranges.clear();
  store.add_point(run, refused);
  store.add_diagnostic(run, "warning", "counters", "two ranges were dropped in one repetition");
  store.finish_run(run, RunStatus::kComplete);
  RunRecord text = sample_run("made-up-run-2");
  text.kind = "acceptance";
  text.counter_access = CounterState::kOff;
  const std::int64_t second = store.begin_run(text);
  for (const char* regime : {"chat", "plan", "prose", "code"}) {
    store.add_point(second, made_up_acceptance(4096, regime, 16));
    store.add_point(second, made_up_acceptance(4096, regime, 64));
  }
}

// A run that another program measured: acceptance, and a step's time.
inline void write_imported(const std::string& path) {
  db::Store store = db::Store::open(path, db::OpenMode::kCreateOrOpen);
  RunRecord record = sample_run("imported-run");
  record.kind = std::string(kImportedKind) + "csv";
  const std::int64_t run = store.begin_run(record);
  PointMeasurement accepted = made_up_acceptance(4096, "chat", 16);
  accepted.key.backend = Backend::kImported;
  PointMeasurement step = accepted;
  step.key.workload = WorkloadKind::kStep;
  step.acceptance.reset();
  step.time_ns = {1e6};
  store.add_point(run, accepted);
  store.add_point(run, step);
  store.finish_run(run, RunStatus::kComplete);
}

}  // namespace versieve::test
