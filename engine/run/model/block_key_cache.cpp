#include "engine/run/model/block_key_cache.h"

#include "model/words/assert.h"

namespace versieve::engine {

template <class T>
BlockKeyCache<T>::BlockKeyCache(kernels::Ops<T>& ops, const LlmShape& shape, std::int64_t key_block)
    : ops_(&ops),
      layers_(shape.layers),
      num_kv_heads_(shape.num_kv_heads),
      head_dim_(shape.head_dim),
      width_(shape.kv_width()),
      key_block_(key_block) {
  VERSIEVE_ASSERT(key_block >= 1, "a block holds a token");
}

template <class T>
kernels::BlockKeysParams<T> BlockKeyCache<T>::params(const KvCache<T>& cache) const {
  return {.layers = layers_,
          .num_kv_heads = num_kv_heads_,
          .head_dim = head_dim_,
          .key_block = key_block_,
          .k_layer_rows = cache.rows().layer_rows,
          .key_layer_rows = rows_,
          .pages = cache.pages(),
          .k = cache.k(0),
          .kmin = kmin_.data(),
          .kmax = kmax_.data()};
}

template <class T>
kernels::BlockKeysParams<T> BlockKeyCache<T>::update_call(const KvCache<T>& cache,
                                                          std::int64_t first_token) {
  if (capacity_ != cache.capacity()) {
    capacity_ = cache.capacity();
    rows_ = kernels::key_block_count(capacity_, key_block_);
    kmin_ = kernels::OpsBuffer<T>();  // frees first: the two need not fit together
    kmax_ = kernels::OpsBuffer<T>();
    kmin_ = kernels::OpsBuffer<T>(*ops_, layers_ * rows_ * width_);
    kmax_ = kernels::OpsBuffer<T>(*ops_, layers_ * rows_ * width_);
    first_token = 0;
  }
  kernels::BlockKeysParams<T> p = params(cache);
  p.first_token = first_token;
  p.length = cache.length();
  return p;
}

template <class T>
void BlockKeyCache<T>::update_device(const KvCache<T>& cache, const kernels::StepCounts* counts,
                                     std::int64_t tokens) {
  VERSIEVE_ASSERT(capacity_ == cache.capacity(), "the block keys are those of this cache");
  kernels::BlockKeysParams<T> p = params(cache);
  p.counts = counts;
  p.length = tokens;
  ops_->block_keys(p);
}

template class BlockKeyCache<double>;
template class BlockKeyCache<float>;
template class BlockKeyCache<Bf16>;

}  // namespace versieve::engine
