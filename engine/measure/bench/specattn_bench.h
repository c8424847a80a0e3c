// Recorded steps of a geometry's target, whose weights and context are random, with a real draft
// model on a real text: what the draft attends to, and so what SpecAttn reads, is a trained
// model's. Acceptance is given, the same for all, so that times alone differ.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "model/words/strategy.h"
#include "profiler/sample_statistics.h"

namespace versieve::engine {

struct SpecAttnBenchOptions {
  std::string geometry = "dense-1b";         // with the draft's vocabulary
  std::filesystem::path draft;               // of a draft model, or of a model with one in draft/
  std::vector<std::filesystem::path> texts;  // read one after another, again from the first on
  std::vector<std::int64_t> contexts = {16384};
  std::vector<std::string> strategies = {"dense/ar",
                                         "dense/d7k1n8/bfs/c1/F*",
                                         "specattn:p0.9/d7k1n8/bfs/c1/F*",
                                         "specattn:p0.95/d7k1n8/bfs/c1/F*",
                                         "specattn:p0.97/d7k1n8/bfs/c1/F*",
                                         "specattn:p0.99/d7k1n8/bfs/c1/F*"};
  // Tokens of a step with a draft; without it four, or all that a shorter chain can.
  std::optional<std::int64_t> yield;
  // Beside each of SpecAttn's strategies the same chain over the first and newest tokens
  // (StreamingLLM), and plain decoding over pages of 16 tokens that each KV head chooses by their
  // keys in each step (Quest; ReSA's launch without rectification), reading as much; and SpecAttn
  // with its choice in line, not beside the target's first layers.
  bool others = false;
  std::int64_t samples = 31;
  std::uint64_t seed = 1;
  bool on_gpu = true;
  int threads = 1;
};

struct SpecAttnRow {
  std::string method;  // "streaming", "quest", "in line", or empty: what the strategy says
  Strategy strategy;
  std::int64_t context_len = 0;  // at the first step
  profiler::SampleSummary step;  // us, from one step's end to the next
  std::int64_t tokens = 1;       // a step
  double reads_saved = 0.0;      // of all layers
  double tokens_per_second() const { return 1e6 * static_cast<double>(tokens) / step.median; }
};

struct SpecAttnBench {
  std::string device, backend, dtype;
  SpecAttnBenchOptions options;
  std::vector<std::int32_t> layer_map;  // draft layers by target layers
  std::vector<SpecAttnRow> rows;
};

// Throws Error: kUsage for options that contradict each other, kAnswerNo for a strategy that such
// steps do not run, kBadInput for model or text files, kEnvironment without a GPU that was asked
// for.
SpecAttnBench bench_specattn(const SpecAttnBenchOptions& options,
                             const std::function<void(const SpecAttnRow&)>& on_row);

std::string specattn_bench_json(const SpecAttnBench& bench);
std::string specattn_bench_text(const SpecAttnBench& bench);

}  // namespace versieve::engine
