// How long does a prompt take to be read (the model's share of the time to the first token), by its
// length and by how many of its tokens go through in one forward?
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "profiler/sample_statistics.h"

namespace versieve::engine {

struct PrefillBenchOptions {
  std::string geometry = "nsa-1b";  // a target's, with random weights and random tokens
  bool dense = false;               // with dense attention in its place
  std::vector<std::int64_t> prompts = {1024, 4096, 16384};  // tokens
  // Tokens in one forward; 0: chains of 256 one after the other, each node its own group, as a
  // step's trees are verified.
  std::vector<std::int64_t> rows = {0, 256, 512, 2048};
  std::int64_t samples = 7;
  std::uint64_t seed = 1;
  bool on_gpu = true;
  int threads = 1;
  std::string measured_utc, revision;  // that the answer bears
};

struct PrefillRow {
  std::int64_t prompt = 0, rows = 0;
  profiler::SampleSummary time;  // ms
  double linear_flops = 0.0;     // of the matrix products alone, the head's one row counted

  double tokens_per_second() const { return 1e3 * static_cast<double>(prompt) / time.median; }
  // What the matrix products would take alone, were everything else free.
  double linear_tflops() const { return 1e-9 * linear_flops / time.median; }
};

struct PrefillBench {
  std::string device, backend, dtype;
  PrefillBenchOptions options;
  std::vector<PrefillRow> results;
};

// Throws Error(kUsage) for options that nothing can be measured with.
void check_prefill_bench(const PrefillBenchOptions& options);
// REQUIRES: check_prefill_bench(). Throws Error(kEnvironment) without a GPU when one is asked for.
PrefillBench bench_prefill(const PrefillBenchOptions& options,
                           const std::function<void(const PrefillRow&)>& on_row);

std::string prefill_bench_json(const PrefillBench& bench);
std::string prefill_bench_text(const PrefillBench& bench);

}  // namespace versieve::engine
