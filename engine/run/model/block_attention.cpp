#include "engine/run/model/block_attention.h"

#include "kernels/choose_together.h"
#include "model/words/assert.h"

namespace versieve::engine {

template <class T>
void BlockAttention<T>::keep(const KvCache<T>& cache, std::int64_t key_block) {
  VERSIEVE_ASSERT(shape_.attention != AttentionKind::kNsa, "block keys are for dense targets");
  if (!keys_ || keys_->key_block() != key_block) {
    keys_.emplace(*ops_, shape_, key_block);
  }
  keys_->update(cache, 0);
}

template <class T>
void BlockAttention<T>::update(const KvCache<T>& cache, std::int64_t first_token) {
  if (keys_) {
    keys_->update(cache, first_token);
  }
}

template <class T>
void BlockAttention<T>::update_device(const KvCache<T>& cache, const kernels::StepCounts* counts,
                                      std::int64_t tokens) {
  if (keys_) {
    keys_->update_device(cache, counts, tokens);
  }
}

template <class T>
kernels::ResaDecodeParams<T> BlockAttention<T>::params_of(const AttentionStep<T>& step,
                                                          std::int64_t layer) const {
  VERSIEVE_ASSERT(step.block_keys != nullptr || keys_, "block keys are kept");
  const BlockKeyCache<T>& keys = step.block_keys != nullptr ? *step.block_keys : *keys_;
  VERSIEVE_ASSERT(step.nodes.count == 1 && keys.key_block() == step.options.resa->key_block,
                  "one query selects among kept block keys");
  VERSIEVE_ASSERT(step.options.resa->n_local >= 1, "the block that is being filled is attended");
  return {.selection = *step.options.resa,
          .counts = step.nodes.counts,
          .num_heads = shape_.num_heads,
          .num_kv_heads = shape_.num_kv_heads,
          .head_dim = shape_.head_dim,
          .context_len = step.nodes.context_len,
          .vanilla = step.options.form == NsaForm::kVanilla,
          .q = step.q,
          .pages = step.cache.pages(),
          .k = step.cache.k(layer),
          .v = step.cache.v(layer),
          .k_new = step.tree.k(layer),
          .v_new = step.tree.v(layer),
          .kmin = keys.kmin(layer),
          .kmax = keys.kmax(layer),
          .out = step.out};
}

template <class T>
void BlockAttention<T>::attend(std::span<const AttentionStep<T>> steps, std::int64_t layer) {
  std::vector<kernels::ResaDecodeParams<T>> calls;
  selected_ = 0;
  for (const AttentionStep<T>& step : steps) {
    calls.push_back(params_of(step, layer));
    selected_ += shape_.num_kv_heads * calls.back().active_count();
  }
  ensure_count(*ops_, active_, shape_.layers * selected_);
  std::int32_t* indices = active_.data() + layer * selected_;
  for (kernels::ResaDecodeParams<T>& call : calls) {
    call.indices = indices;
    indices += shape_.num_kv_heads * call.active_count();
  }
  kernels::resa_decode_together<T>(*ops_, calls);
}

template <class T>
std::vector<std::int32_t> BlockAttention<T>::selected_blocks(std::int64_t layer) const {
  std::vector<std::int32_t> blocks(static_cast<std::size_t>(selected_));
  ops_->download(blocks.data(), active_.data() + layer * selected_,
                 blocks.size() * sizeof(std::int32_t));
  return blocks;
}

template class BlockAttention<double>;
template class BlockAttention<float>;
template class BlockAttention<Bf16>;

}  // namespace versieve::engine
