// Whole steps of a geometry with synthetic weights: plain decoding and verification by strategy.
// What does a step take, how far is that from moving its bytes once, and what does it yield?
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "model/words/hardware.h"
#include "model/words/measurement.h"
#include "model/words/strategy.h"
#include "profiler/sample_statistics.h"

namespace versieve::engine {

struct StepBenchOptions {
  std::string geometry = "nsa-1b";
  std::vector<std::int64_t> contexts = {16384};
  std::vector<std::string> strategies = {"nsa/ar", "nsa/d6k8n64/bfs/c1/F*",
                                         "nsa/d6k8n64/bfs/c8e/F*", "nsa/d6k8n64/bfs/c8e/(FRRR)*"};
  std::int64_t samples = 31;
  std::uint64_t seed = 1;
  bool on_gpu = true;
  int threads = 1;
};

struct StepRow {
  Strategy strategy;
  std::int64_t context_len = 0;
  LaunchMode launch = LaunchMode::kStream;  // graph: recorded steps; stream: led by the host
  std::string refused_because;              // empty: measured
  profiler::SampleSummary time;             // us
  // Without draft: verification, acceptance and commit, us, launched as `launch` says. Recorded:
  // steps of their own that verify one full tree. Led by the host: those phases by its clock.
  profiler::SampleSummary verification;
  std::optional<double> verification_over_ar;
  double step_bytes = 0.0;         // what it must read
  std::optional<double> bound_us;  // those bytes at the rate of this machine's longest read
  double tokens = 1.0;             // committed a step, whatever the untrained target says
  std::optional<double> over_ar;   // step time / that of plain decoding at the same context
};

struct StepBench {
  std::string device;
  std::string backend;
  std::string dtype;
  StepBenchOptions options;
  std::vector<ReadTime> cold_reads;  // measured in this run, before the rows
  std::vector<StepRow> rows;
};

// What one step must read: weights and cached terms once, the draft's weights once a pass.
double step_bytes(const Strategy& strategy, const std::string& geometry, std::int64_t context_len,
                  std::int64_t element_bytes);

// Throws Error(kEnvironment) without a GPU when one is asked for, Error(kUsage) for a strategy or
// geometry that is none. A strategy that cannot run is a row with its reason.
StepBench bench_steps(const StepBenchOptions& options,
                      const std::function<void(const StepRow&)>& on_row);

std::string step_bench_json(const StepBench& bench);
std::string step_bench_text(const StepBench& bench);

}  // namespace versieve::engine
