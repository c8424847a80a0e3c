// Rectification's attention over a dense cache (kernels/dense_pass): a chain of many queries, a
// launch for splits of the keys and one that merges them.
#pragma once

#include <cstdint>

#include "model/launches/launch_work.h"
#include "model/words/llm_shape.h"

namespace versieve {

struct StepShape;  // model/launches/step_shape.h

inline constexpr std::int64_t kPassRows = 128;          // query rows of a block, two warpgroups'
inline constexpr std::int64_t kPassKeys = 128;          // keys of a tile
inline constexpr std::int64_t kPassSplits = 64;         // of a row's keys, at most
inline constexpr std::int64_t kPassBlocksWanted = 132;  // one for each SM of an H200
inline constexpr std::int64_t kPassFewRows = 64;        // a KV head: flash_decode takes so many
inline constexpr std::int64_t kPassElementBytes = 2;    // bf16 alone

// Whether the pass is dense_pass's, asked by the launch and by the price; else flash_decode takes
// the chain.
bool takes_dense_pass(std::int64_t num_heads, std::int64_t num_kv_heads, std::int64_t head_dim,
                      std::int64_t queries, std::int64_t element_bytes);

// How a pass is cut: blocks of query rows a KV head, splits of the keys.
struct DensePassCut {
  std::int64_t row_blocks = 1;
  std::int64_t splits = 1;
};
// The most splits that a pass of so many queries has, whatever its keys: scratch is for those.
std::int64_t most_pass_splits(std::int64_t num_heads, std::int64_t num_kv_heads,
                              std::int64_t queries);
// `keys`: committed ones (their bound, where a device knows the count) and the chain's.
DensePassCut dense_pass_cut(std::int64_t num_heads, std::int64_t num_kv_heads, std::int64_t queries,
                            std::int64_t keys);

namespace traffic {

// Partial results of `splits` of each row, written or read.
Traffic dense_pass_partials(std::int64_t rows, std::int64_t splits, std::int64_t head_dim,
                            bool written);

}  // namespace traffic

// REQUIRES: takes_dense_pass of the step.
bool takes_dense_pass(const StepShape& shape);
void add_dense_pass(const StepShape& shape, double layers, StepWork& out);

}  // namespace versieve
