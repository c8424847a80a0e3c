// One measured (or simulated) point of a sweep: what was run, and everything that came back.
// Results leave the engine as this type, the database stores it, the fit and the app read it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/words/block_sharing.h"
#include "model/words/point_words.h"
#include "model/words/traffic.h"

namespace versieve {

// A ratio says nothing about a point of fewer DRAM bytes than this: they are read in 0.2 us on an
// H200, and what the driver and the collection itself move is of their size.
inline constexpr double kLeastJudgedBytes = 1e6;

// attention: one NSA layer's attention at a geometry, synthetic tensors. step: a whole verification
// step of a geometry with synthetic weights (target, draft, acceptance). acceptance: a trained pair
// on real text. Times come from the first two, acceptance and overlap from the third; they are
// never mixed. decode: one layer's attention over a dense cache (dense, ReSA, SpecAttn); rectify:
// ReSA's dense pass of f queries over it. rectified_step: f whole steps of ReSA and the pass that
// ends their period, a step's share. batch: a step of many requests at once (batch_point.h). topk, sampling: those kernels alone; machine: copies, matrix
// products and empty launches: what a GPU gives. Points of these three are named by kernel_case.h.
enum class WorkloadKind {
  kAttention,
  kStep,
  kAcceptance,
  kDecode,
  kTopk,
  kSampling,
  kMachine,
  kRectify,
  kRectifiedStep,
  kBatch
};
inline constexpr int kWorkloadKindCount = 10;
const char* name_of(WorkloadKind kind);               // "attention", "step", "acceptance", ...
WorkloadKind workload_kind(const std::string& name);  // throws Error(kBadInput)

// The identity of a point within a run; all fields together are the key.
struct PointKey {
  WorkloadKind workload = WorkloadKind::kAttention;
  std::string model;     // geometry ("nsa-1b") or trained pair ("demo-nsa"); "kernel"
  std::string pair;      // PairId::sha256 of the pair whose weights ran; empty: of none, or unknown
  std::string regime;    // chat, plan, prose, code; "synthetic" without text
  std::string split;     // calibration, test; empty without text
  std::string strategy;  // canonical text; of a kernel: kernel_case.h
  Dtype dtype = Dtype::kUnstated;
  Backend backend = Backend::kCuda;
  CacheState cache_state = CacheState::kAsIs;
  LaunchMode launch = LaunchMode::kUnstated;
  std::int64_t context_len = 0;   // L; of a kernel: scores or logits a row; of a batch the mean
  std::int64_t num_queries = 0;   // N; of a kernel: rows; of a batch: nodes of all its requests
  std::optional<double> overlap;  // declared overlap of synthetic queries, an axis of the sweep
  double temperature = 0.0;       // that an acceptance point's texts are sampled at; 0: greedily

  bool operator==(const PointKey&) const = default;
};

struct CounterValue {
  std::string metric;           // CUPTI's name, or the simulator's value under the same name
  std::optional<double> value;  // none: see status
  CounterStatus status = CounterStatus::kOk;
};

// One kind of launch within a point, all its launches of one repetition together.
struct RangeMeasurement {
  std::string path;  // the kernel's root word, as in NVTX and CUPTI ranges
  std::int64_t launches = 0;
  Traffic predicted;
  std::vector<double>
      gpu_time_ns;  // per repetition, from the activity trace or events; may be empty
  std::vector<CounterValue> counters;  // median over repetitions, each repetition one pass
};

// The steps of one strategy along one real text: each drafts from the true prefix and moves on by
// what it yielded, so that the first step of a walk stands at position 0 of the continuation and
// every other where the one before it ended.
struct AcceptanceWalk {
  std::string text;                  // file and first byte; the same for all strategies
  std::vector<std::int64_t> yields;  // of each step, bonus counted
};

// One request: the text that the pair went on with from a prompt, step by step as decoding does.
struct TextYield {
  std::string text;         // the prompt: file and first token; the same for all strategies
  std::int64_t steps = 0;   // at least one
  std::int64_t tokens = 0;  // that they yielded, bonus counted, also what a stop cut off
  bool looping = false;     // what was generated repeats itself
};

struct AcceptanceMeasurement {
  std::int64_t steps = 0;
  std::int64_t generated_tokens = 0;
  std::vector<std::int64_t> accepted_histogram;  // [a] = steps that emitted a tokens, bonus counted
  double accepted_per_step = 0.0;                // mean, bonus counted
  bool looping = false;                          // every text's greedy output fell into a loop
  std::optional<double> teacher_forced;          // the same mean along the real text
  std::vector<AcceptanceWalk> walks;  // its steps, text by text; none where nobody recorded them
  // The generated steps by text, of which the sums above are made; none where nobody counted so,
  // and then looping texts are not among the sums unless every text's is.
  std::vector<TextYield> texts;

  // Its mean says nothing of how texts are decoded: loops alone, where texts were not counted.
  bool only_loops() const { return looping && texts.empty(); }
};

struct PointMeasurement {
  PointKey key;
  PointStatus status = PointStatus::kOk;
  // One sentence when status is not ok; of an imported point what its source leaves open, or "".
  std::string reason;
  std::vector<double> time_ns;  // every sample of the whole point
  std::string stop_reason;      // target, stalled, timeout, fixed
  Reliability reliability = Reliability::kOk;
  // Why the clock was held down while the times were taken, in NVML's words; empty: not asked. Kept
  // as the run's diagnostics, where it changes (engine/measure/sweep/clock_log.h).
  std::string clock_events;
  std::optional<double>
      adjacent_overlap;  // measured rho: |I(q) and I(q+1)| / n, mean over layers and KV heads
  std::optional<double>
      unique_blocks;  // distinct selected blocks over all queries, mean over layers, KV heads
  std::vector<RangeMeasurement> ranges;
  std::optional<AcceptanceMeasurement> acceptance;
  std::vector<BlockSharing>
      sharing;  // of acceptance points, by layer; none where nobody recorded it
};

// Taken from another program's record: how it was measured is that program's word. Such points are
// kept and shown; nothing is fitted to them.
inline constexpr const char* kImportedKind = "imported: ";  // a run's kind: and the format
inline bool is_imported(const PointMeasurement& point) {
  return point.key.backend == Backend::kImported;
}

// Counted by the simulator: kept and shown; nothing is fitted to a prediction.
inline constexpr const char* kSimulatorDevice =
    "simulator: ";  // a run's device: and a machine's key
inline bool is_simulated(const PointMeasurement& point) {
  return point.key.backend == Backend::kSimulator;
}

// Where and with what a run was made.
struct RunRecord {
  std::string uuid;
  std::string kind;    // the sweep's name; or kImportedKind and a format
  std::string device;  // "NVIDIA H200", the CPU's name, or "simulator: h200-sxm"
  std::string device_uuid_hash;
  CounterState counter_access = CounterState::kUnstated;
  std::string counter_detail;                                 // the sentence behind it
  SelfCheckVerdict self_check = SelfCheckVerdict::kUnstated;  // with the figures in environment
  std::string started_utc;                                    // ISO 8601
  std::string finished_utc;
  RunStatus status = RunStatus::kRunning;
  std::string configuration;  // full resolved configuration, JSON text
  // Its counters were taken after uncounted runs of the same work, as every sweep does now. Read
  // from the configuration, which older sweeps' does not say.
  bool counted_warm = true;
  std::string environment;  // driver, toolkit, clocks, ECC, compiler, commit; JSON text
  std::string revision;     // commit of the code, "+dirty" if changed
  std::uint64_t seed = 0;
};

// Every point of such a run is_imported, is_simulated.
inline bool is_imported(const RunRecord& run) {
  return run.kind.starts_with(kImportedKind);
}
inline bool is_simulated(const RunRecord& run) {
  return run.device.starts_with(kSimulatorDevice);
}

}  // namespace versieve
