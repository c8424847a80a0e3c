// ReSA's block keys of a target's cache, all layers in one buffer a kind: built once from the keys,
// then kept up to date with the tokens that are appended or rewritten.
#pragma once

#include <cstdint>

#include "engine/run/model/kv_cache.h"
#include "kernels/ops.h"

namespace versieve::engine {

template <class T>
class BlockKeyCache {
 public:
  BlockKeyCache(kernels::Ops<T>& ops, const LlmShape& shape, std::int64_t key_block);

  std::int64_t key_block() const { return key_block_; }
  // Device memory of the keys of a cache with room for so many tokens.
  static std::int64_t bytes(const LlmShape& shape, std::int64_t key_block, std::int64_t capacity) {
    return 2 * shape.layers * kernels::key_block_count(capacity, key_block) * shape.kv_width() *
           static_cast<std::int64_t>(sizeof(T));
  }
  // Rebuilds the blocks that hold a token of [first_token, cache.length()). A cache that has grown
  // gets all its blocks built anew.
  void update(const KvCache<T>& cache, std::int64_t first_token) {
    ops_->block_keys(update_call(cache, first_token));
  }
  // The call that does so, for several in one launch.
  kernels::BlockKeysParams<T> update_call(const KvCache<T>& cache, std::int64_t first_token);
  // Enqueues the same for the newest `tokens` tokens of a length in device memory. REQUIRES: an
  // update since the cache last grew.
  void update_device(const KvCache<T>& cache, const kernels::StepCounts* counts,
                     std::int64_t tokens);

  const T* kmin(std::int64_t layer) const { return kmin_.data() + layer * rows_ * width_; }
  const T* kmax(std::int64_t layer) const { return kmax_.data() + layer * rows_ * width_; }

 private:
  kernels::BlockKeysParams<T> params(const KvCache<T>& cache) const;

  kernels::Ops<T>* ops_;
  std::int64_t layers_;
  std::int64_t num_kv_heads_;
  std::int64_t head_dim_;
  std::int64_t width_;  // G d
  std::int64_t key_block_;
  std::int64_t capacity_ = 0;  // of the cache, in tokens
  std::int64_t rows_ = 0;      // block rows of a layer
  kernels::OpsBuffer<T> kmin_, kmax_;
};

}  // namespace versieve::engine
