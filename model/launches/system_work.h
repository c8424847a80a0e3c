// What the other systems launch: attention over a dense cache (dense, ReSA, SpecAttn; seeds 003 and
// 004), top-k (Guess-Verify-Refine top-k) and samplers (Optimized Speculative Sampling), alone or
// as parts of a step. Bytes are those of the kernels' own traffic functions.
#pragma once

#include <cstdint>

#include "model/launches/launch_work.h"
#include "model/words/kernel_case.h"

namespace versieve {

// Keys of a chunk whose partial result is merged with the others' (kernels/flash_decode): 128 up to
// 16,384 keys, then a power of two of them; and the chunks of a row.
double flash_chunk_keys(double keys);
double flash_chunks(double keys);
// Its launch for that many queries of the target.
LaunchKind flash_kind(const LlmShape& target, std::int64_t queries);
// Blocks of ReSA that a KV head attends to (Rectified Sparse Attention, equation 4, as
// kernels/resa_decode counts).
std::int64_t resa_active_blocks(std::int64_t context_len, std::int64_t key_block,
                                double active_ratio);

// Attention of `layers` layers of a dense target as `shape.dense` says, with what selects.
void add_dense_attention(const StepShape& shape, double layers, StepWork& out);
// `rows` rows of `length` scores. `cold`: nobody wrote them shortly before.
void add_topk(const TopkCase& c, std::int64_t length, std::int64_t rows, std::int64_t element_bytes,
              bool cold, StepWork& out);
// Chains: `nodes` - 1 drafted tokens; trees: `nodes` nodes.
void add_sampling(const SamplingCase& c, std::int64_t vocab, std::int64_t nodes,
                  std::int64_t element_bytes, bool cold, StepWork& out);

}  // namespace versieve
