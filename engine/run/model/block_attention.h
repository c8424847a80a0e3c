// ReSA's attention of a dense target's layers: one query selects among the block keys of the cache
// and attends what it selected.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "engine/run/model/attention_step.h"
#include "engine/run/model/block_key_cache.h"
#include "kernels/ops.h"
#include "model/words/llm_shape.h"

namespace versieve::engine {

template <class T>
class BlockAttention {
 public:
  BlockAttention(kernels::Ops<T>& ops, const LlmShape& shape) : ops_(&ops), shape_(shape) {}

  // Builds the block keys of the committed tokens; from then on they are kept with every commit.
  void keep(const KvCache<T>& cache, std::int64_t key_block);
  void drop() { keys_.reset(); }
  const BlockKeyCache<T>& keys() const { return *keys_; }
  // After the cache got tokens from `first_token` on; nothing if no keys are kept.
  void update(const KvCache<T>& cache, std::int64_t first_token);
  // Enqueues the same for the newest `tokens` of a length in device memory.
  void update_device(const KvCache<T>& cache, const kernels::StepCounts* counts,
                     std::int64_t tokens);
  // Of sequences of the step. REQUIRES: one node each, keys of the selection's block size, kept
  // here or the step's own.
  void attend(std::span<const AttentionStep<T>> steps, std::int64_t layer);
  // [G, n], ascending: what that layer attended last, sequence after sequence. Waits.
  std::vector<std::int32_t> selected_blocks(std::int64_t layer) const;

 private:
  kernels::ResaDecodeParams<T> params_of(const AttentionStep<T>& step, std::int64_t layer) const;

  kernels::Ops<T>* ops_;
  LlmShape shape_;
  std::optional<BlockKeyCache<T>> keys_;
  kernels::OpsBuffer<T, std::int32_t> active_;  // [layers, G, count of each]: attended blocks
  std::int64_t selected_ = 0;                   // G times count, of the last attention
};

}  // namespace versieve::engine
