// A target layer's attention: NSA with what it selects and compresses, dense with chosen tokens,
// ReSA over block keys.
#include "engine/run/model/target.h"
#include "model/words/assert.h"

namespace versieve::engine {

template <class T>
kernels::CompressParams<T> Target<T>::compressed_tokens(const LayerWeights<T>& w,
                                                        std::int64_t layer) {
  if (compressed_rows_ == 0) {
    return {};
  }
  const bool before_rope = cache_.keeps_raw_keys();
  return {.counts = counts_,
          .older_lists = layer > 0,  // a routing launch lies between
          .rows = compressed_rows_,
          .num_kv_heads = shape_.num_kv_heads,
          .head_dim = shape_.head_dim,
          .cmp_block = shape_.nsa.cmp_block,
          .cmp_stride = shape_.nsa.cmp_stride,
          .rotate = before_rope,
          .theta = shape_.rope_theta,
          .source = sources_,
          .block = blocks_,
          .k_cache = before_rope ? cache_.k_raw(layer) : cache_.k(layer),
          .v_cache = cache_.v(layer),
          .k_tree = tree_row(before_rope ? k_raw_tree_ : k_tree_, layer),
          .v_tree = tree_row(v_tree_, layer),
          .compress_key = w.compress_key.data(),
          .compress_value = w.compress_value.data(),
          .intra_block_pe = w.intra_block_pe.data(),
          .k_cmp = tree_row(k_cmp_tree_, layer),
          .v_cmp = tree_row(v_cmp_tree_, layer)};
}

// Null: the layer routes, and the reuse layers after it take its blocks.
template <class T>
const std::int32_t* Target<T>::reused_blocks(std::int64_t layer) {
  if (!options_.schedule.empty() && options_.schedule[static_cast<std::size_t>(layer)] == 'R') {
    return blocks_of(refresh_layer_);
  }
  refresh_layer_ = layer;
  return nullptr;
}

template <class T>
void Target<T>::attend_sparse(std::int64_t layer) {
  ops_->nsa_verify({.nsa = shape_.nsa,
                    .form = options_.form,
                    .group_mode = options_.group_mode,
                    .group_size = options_.group_size,
                    .counts = counts_,
                    .num_heads = shape_.num_heads,
                    .num_kv_heads = shape_.num_kv_heads,
                    .head_dim = shape_.head_dim,
                    .context_len = context_len_,
                    .num_queries = tree_.size(),
                    .num_compressed = compressed_count(shape_.nsa, context_len_),
                    .num_tree_compressed = options_.hide_tree_compressed ? 0 : compressed_rows_,
                    .num_blocks = newest_position_ / shape_.nsa.sel_block + 1,
                    .q = query_.data(),
                    .k = cache_.k(layer),
                    .v = cache_.v(layer),
                    .k_cmp = cache_.k_cmp(layer),
                    .v_cmp = cache_.v_cmp(layer),
                    .k_tree = tree_row(k_tree_, layer),
                    .v_tree = tree_row(v_tree_, layer),
                    .k_cmp_tree = tree_row(k_cmp_tree_, layer),
                    .v_cmp_tree = tree_row(v_cmp_tree_, layer),
                    .gates = gates_.data(),
                    .parent = parents_,
                    .position = positions_,
                    .cmp_tree_owner = owners_,
                    .indices_in = reused_blocks(layer),
                    .older_lists = layer > 0,                    // a routing launch lies between
                    .older_blocks = layer > refresh_layer_ + 1,  // another reuse layer does
                    .topk = options_.topk,
                    .hint = hint_of(layer),
                    .out = attention_.data(),
                    .indices = blocks_of(layer)});
}

template <class T>
void Target<T>::attend_dense(std::int64_t layer) {
  VERSIEVE_ASSERT(
      counts_ == nullptr || (selector_ == nullptr && attention_capture_.weights == nullptr),
      "selection and capture are led by the host");
  kernels::SelectedTokens selected;
  if (selector_ != nullptr) {
    selected = selector_->select({.layer = layer,
                                  .num_queries = tree_.size(),
                                  .num_kv_heads = shape_.num_kv_heads,
                                  .context_len = context_len_,
                                  .q = query_.data(),
                                  .k = cache_.k(layer)});
  }
  kernels::TreeAttentionParams<T> p{.selected = selected,
                                    .counts = counts_,
                                    .num_heads = shape_.num_heads,
                                    .num_kv_heads = shape_.num_kv_heads,
                                    .head_dim = shape_.head_dim,
                                    .context_len = context_len_,
                                    .num_queries = tree_.size(),
                                    .num_nodes = tree_.size(),
                                    .parent = parents_,
                                    .position = positions_,
                                    .q = query_.data(),
                                    .k = cache_.k(layer),
                                    .v = cache_.v(layer),
                                    .k_tree = tree_row(k_tree_, layer),
                                    .v_tree = tree_row(v_tree_, layer),
                                    .out = attention_.data(),
                                    .splits_chain = options_.splits_chain || chain_};
  if (attention_capture_.weights != nullptr && layer >= attention_capture_.first_layer) {
    p.weights = attention_capture_.weights + layer * attention_capture_.layer_stride;
  }
  if (p.weights != nullptr && selected.token != nullptr) {  // of all tokens, chosen or not
    ops_->attention_weights(kernels::weights_of(p));
    p.weights = nullptr;
  }
  ops_->tree_attention(p);
}

template <class T>
void Target<T>::attend_blocks(std::int64_t layer) {
  VERSIEVE_ASSERT(
      tree_.size() == 1 && block_keys_ && block_keys_->key_block() == options_.resa->key_block,
      "one query selects among kept block keys");
  VERSIEVE_ASSERT(options_.resa->n_local >= 1, "the block that is being filled is attended");
  kernels::ResaDecodeParams<T> p{.selection = *options_.resa,
                                 .counts = counts_,
                                 .num_heads = shape_.num_heads,
                                 .num_kv_heads = shape_.num_kv_heads,
                                 .head_dim = shape_.head_dim,
                                 .context_len = context_len_,
                                 .q = query_.data(),
                                 .k = cache_.k(layer),
                                 .v = cache_.v(layer),
                                 .k_new = tree_row(k_tree_, layer),
                                 .v_new = tree_row(v_tree_, layer),
                                 .kmin = block_keys_->kmin(layer),
                                 .kmax = block_keys_->kmax(layer),
                                 .out = attention_.data()};
  const std::int64_t indices = shape_.num_kv_heads * p.active_count();
  ensure_count(*ops_, active_, shape_.layers * indices);
  p.indices = active_.data() + layer * indices;
  ops_->resa_decode(p);
}

// In the layer's blocks of the step before, which this one overwrites when it has chosen.
template <class T>
const std::int32_t* Target<T>::hint_of(std::int64_t layer) const {
  const std::int64_t row = shape_.num_kv_heads * shape_.nsa.sel_count;
  return hint_row_ < 0 ? nullptr : indices_.data() + (layer * rows_ + hint_row_) * row;
}

template <class T>
std::vector<std::int32_t> Target<T>::hinted_blocks(std::int64_t layer) const {
  std::vector<std::int32_t> values;
  if (hint_of(layer) != nullptr) {
    values.resize(static_cast<std::size_t>(shape_.num_kv_heads * shape_.nsa.sel_count));
    ops_->download(values.data(), hint_of(layer), values.size() * sizeof(std::int32_t));
  }
  return values;
}

template <class T>
std::vector<std::int32_t> Target<T>::selected_blocks(std::int64_t layer) const {
  const std::int64_t row = shape_.num_kv_heads * shape_.nsa.sel_count;
  std::vector<std::int32_t> values(static_cast<std::size_t>(tree_.size() * row));
  ops_->download(values.data(), blocks_of(layer), values.size() * sizeof(std::int32_t));
  return values;
}

template kernels::CompressParams<double> Target<double>::compressed_tokens(
    const LayerWeights<double>&, std::int64_t);
template kernels::CompressParams<float> Target<float>::compressed_tokens(const LayerWeights<float>&,
                                                                         std::int64_t);
template kernels::CompressParams<Bf16> Target<Bf16>::compressed_tokens(const LayerWeights<Bf16>&,
                                                                       std::int64_t);
template const std::int32_t* Target<double>::reused_blocks(std::int64_t);
template const std::int32_t* Target<float>::reused_blocks(std::int64_t);
template const std::int32_t* Target<Bf16>::reused_blocks(std::int64_t);
template void Target<double>::attend_sparse(std::int64_t);
template void Target<float>::attend_sparse(std::int64_t);
template void Target<Bf16>::attend_sparse(std::int64_t);
template void Target<double>::attend_dense(std::int64_t);
template void Target<float>::attend_dense(std::int64_t);
template void Target<Bf16>::attend_dense(std::int64_t);
template void Target<double>::attend_blocks(std::int64_t);
template void Target<float>::attend_blocks(std::int64_t);
template void Target<Bf16>::attend_blocks(std::int64_t);
template std::vector<std::int32_t> Target<double>::hinted_blocks(std::int64_t) const;
template std::vector<std::int32_t> Target<float>::hinted_blocks(std::int64_t) const;
template std::vector<std::int32_t> Target<Bf16>::hinted_blocks(std::int64_t) const;
template std::vector<std::int32_t> Target<double>::selected_blocks(std::int64_t) const;
template std::vector<std::int32_t> Target<float>::selected_blocks(std::int64_t) const;
template std::vector<std::int32_t> Target<Bf16>::selected_blocks(std::int64_t) const;

}  // namespace versieve::engine
