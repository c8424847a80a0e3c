// The draft head's entries and nodes when their lists are in device memory: static sizes, padded
// rows, nothing asked of the host. The sums are those of draft.cpp, row by row.
#include <algorithm>

#include "engine/run/model/draft.h"
#include "model/words/assert.h"

namespace versieve::engine {

template <class T>
void Draft<T>::reserve_device(std::int64_t positions, std::int64_t rows, std::int64_t slots) {
  reserve(positions);
  ensure_rows(rows);
  ensure_slots(slots);
  ensure_count(*ops_, logits_, rows * shape_.vocab);
}

// Attention over the committed entries before the newest and over the slots.
template <class T>
kernels::TreeAttentionParams<T> Draft<T>::attention_over(const DeviceSlots& slots) const {
  return {.counts = slots.counts,
          .num_heads = shape_.num_heads,
          .num_kv_heads = shape_.num_kv_heads,
          .head_dim = shape_.head_dim,
          .context_len = slots.max_context,
          .first_position = 1,
          .window = shape_.window,
          .parent = slots.parent,
          .position = slots.position,
          .q = query_.data(),
          .k = k_.data(),
          .v = v_.data(),
          .k_tree = k_tree_.data(),
          .v_tree = v_tree_.data(),
          .out = attention_.data(),
          .cache_term = TrafficTerm::kDraft};
}

// The entries' keys and values go to the cache and to the first slots, whose own rows follow later;
// slot 0 keeps the newest entry's.
template <class T>
void Draft<T>::keep_device(const DeviceEntries& entries, const T* captured) {
  VERSIEVE_ASSERT(entries.rows >= 1 && entries.rows <= rows_ && entries.rows <= slot_capacity_,
                  "rows were reserved");
  ops_->copy_rows({.rows = entries.rows,
                   .width = 3 * shape_.hidden,
                   .src_row = entries.row,
                   .src = captured,
                   .dst = captured_.data(),
                   .term = TrafficTerm::kDraft});
  linear(entries.rows, captured_.data(), weights_.fuse.data(), 3 * shape_.hidden, shape_.hidden,
         feature_.data());
  embed(entries.rows, entries.token, entries.position);
  project(entries.rows);
  take_apart(entries.rows, k_tree_.data(), v_tree_.data(), entries.position, k_.data(), v_.data());
}

template <class T>
void Draft<T>::extend_device(const DeviceSlots& slots, const DeviceEntries& entries,
                             const T* captured) {
  keep_device(entries, captured);
  kernels::TreeAttentionParams<T> attention = attention_over(slots);
  attention.num_queries = 1;
  attention.num_nodes = 1;
  attention.position = entries.position;
  ops_->tree_attention(attention);
  finish(1, feature_.data(), output_.data());
}

template <class T>
void Draft<T>::step_device(const DeviceSlots& slots, std::int64_t first, std::int64_t count,
                           const std::int32_t* token) {
  VERSIEVE_ASSERT(count <= rows_ && first + count <= slot_capacity_, "slots were reserved");
  embed(count, token, slots.position + first, slots.parent + first);
  project(count);
  kernels::TreeAttentionParams<T> attention = attention_over(slots);
  attention.num_queries = count;
  attention.num_nodes = first + count;
  attention.query_node = slots.identity + first;
  attention.joint = joint_queries();
  ops_->tree_attention(attention);
  finish(count, feature_.data(), output_.data() + first * shape_.hidden);
}

template <class T>
bool Draft<T>::try_grow_device(const DeviceGrowth& growth, const DeviceEntries& entries,
                               const T* captured, std::int64_t target_vocab) {
  const LayerWeights<T>& w = weights_.layer;
  kernels::DraftLevelsParams<T> p{.shape = shape_,
                                  .choice = growth.choice,
                                  .scores_by_rank = growth.scores_by_rank,
                                  .target_vocab = target_vocab,
                                  .embedding = embedding_,
                                  .input_norm = w.input_norm.data(),
                                  .hidden_norm = weights_.hidden_norm.data(),
                                  .fuse = weights_.fuse.data(),
                                  .joint = w.joint.data(),
                                  .output = w.output.data(),
                                  .post_norm = w.post_norm.data(),
                                  .gate_up = w.mlp_gate_up.data(),
                                  .down = w.mlp_down.data(),
                                  .norm = weights_.norm.data(),
                                  .head = weights_.head.data(),
                                  .target_token = growth.target_token,
                                  .entries = entries.rows,
                                  .captured = captured,
                                  .entry_token = entries.token,
                                  .entry_row = entries.row,
                                  .entry_position = entries.position,
                                  .context_len = growth.max_context,
                                  .k = k_.data(),
                                  .v = v_.data(),
                                  .state = growth.state};
  if (!ops_->draft_levels_takes(p)) {
    return false;
  }
  if (token_rows_.data() == nullptr) {
    token_rows_ = {*ops_, target_vocab * shape_.joint_rows()};
    ops_->draft_token_rows(p, token_rows_.data());
  }
  p.token_rows = token_rows_.data();
  ops_->draft_levels(p);
  return true;
}

template bool Draft<double>::try_grow_device(const DeviceGrowth&, const DeviceEntries&,
                                             const double*, std::int64_t);
template bool Draft<float>::try_grow_device(const DeviceGrowth&, const DeviceEntries&, const float*,
                                            std::int64_t);
template bool Draft<Bf16>::try_grow_device(const DeviceGrowth&, const DeviceEntries&, const Bf16*,
                                           std::int64_t);
template void Draft<double>::reserve_device(std::int64_t, std::int64_t, std::int64_t);
template void Draft<float>::reserve_device(std::int64_t, std::int64_t, std::int64_t);
template void Draft<Bf16>::reserve_device(std::int64_t, std::int64_t, std::int64_t);
template void Draft<double>::keep_device(const DeviceEntries&, const double*);
template void Draft<float>::keep_device(const DeviceEntries&, const float*);
template void Draft<Bf16>::keep_device(const DeviceEntries&, const Bf16*);
template void Draft<double>::extend_device(const DeviceSlots&, const DeviceEntries&, const double*);
template void Draft<float>::extend_device(const DeviceSlots&, const DeviceEntries&, const float*);
template void Draft<Bf16>::extend_device(const DeviceSlots&, const DeviceEntries&, const Bf16*);
template void Draft<double>::step_device(const DeviceSlots&, std::int64_t, std::int64_t,
                                         const std::int32_t*);
template void Draft<float>::step_device(const DeviceSlots&, std::int64_t, std::int64_t,
                                        const std::int32_t*);
template void Draft<Bf16>::step_device(const DeviceSlots&, std::int64_t, std::int64_t,
                                       const std::int32_t*);

}  // namespace versieve::engine
