// The launches of kernels that are measured alone: top-k and the samplers.
#pragma once

#include "engine/analyse/sim/simulated_run.h"
#include "model/words/kernel_case.h"

namespace versieve::engine {

struct TopkLaunch {
  std::int64_t rows = 1, length = 0, k = 1;
  std::int64_t element_bytes = 4;
  std::uint64_t scores = 0;               // [R, length]
  std::uint64_t hint = 0;                 // [R, k] int32, 0: none
  std::uint64_t indices = 0, values = 0;  // [R, k]
  std::uint64_t scratch = 0;              // sort: keys and indices, twice
};
void append_topk(const TopkLaunch& launch, TopkAlgorithm algorithm, LaunchSequence& out);

// Scores of a token-level indexer: index keys in, a score a query and position out.
struct IndexScoresLaunch {
  std::int64_t rows = 1, length = 0, dim = 0;
  std::int64_t element_bytes = 2;
  std::uint64_t keys = 0;    // [length, dim]
  std::uint64_t scores = 0;  // [rows, length]
};
std::unique_ptr<LaunchTrace> trace_index_scores(const IndexScoresLaunch& launch);

// A chain's rows: target [N, V], then draft [N - 1, V]; a tree's: [N, V].
struct SamplingLaunch {
  std::int64_t nodes = 2;  // N
  std::int64_t vocab = 0;  // V
  std::int64_t element_bytes = 2;
  std::uint64_t logits = 0;
  std::uint64_t laws = 0;     // the baseline's rows, float: p [N, V], q [N - 1, V], max(0, p - q)
  std::uint64_t results = 0;  // statistics, verdicts and tokens
};
void append_sampling(const SamplingLaunch& launch, const SamplingCase& wanted, LaunchSequence& out);

}  // namespace versieve::engine
