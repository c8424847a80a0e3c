#include "engine/run/model/nsa_attention.h"

#include <utility>

#include "model/words/assert.h"

namespace versieve::engine {
namespace {

// A prompt's rows, which lie behind the committed ones. In pages they are found by the table.
template <class T>
kernels::NsaVerifyParams<T> in_cache(kernels::NsaVerifyParams<T> p) {
  if (p.pages.page != nullptr) {
    return p;
  }
  const std::int64_t width = p.num_kv_heads * p.head_dim;
  p.k_tree = p.k + p.context_len * width;
  p.v_tree = p.v + p.context_len * width;
  p.k_cmp_tree = p.k_cmp + p.num_compressed * width;
  p.v_cmp_tree = p.v_cmp + p.num_compressed * width;
  return p;
}

}  // namespace

template <class T>
void NsaAttention<T>::ensure_rows(std::int64_t rows) {
  rows_ = rows;
  ensure_count(*ops_, indices_, shape_.layers * rows * row());
  hint_row_ = -1;
}

template <class T>
kernels::CompressParams<T> NsaAttention<T>::compressed_tokens(const AttentionStep<T>& step,
                                                              const LayerWeights<T>& w,
                                                              std::int64_t layer) const {
  if (step.nodes.compressed_rows == 0) {
    return {};
  }
  const bool before_rope = step.cache.keeps_raw_keys();
  return {.counts = step.nodes.counts,
          .older_lists = layer > 0 && !step.keeps_rows_first,  // a routing launch lies between
          .rows = step.nodes.compressed_rows,
          .num_kv_heads = shape_.num_kv_heads,
          .head_dim = shape_.head_dim,
          .cmp_block = shape_.nsa.cmp_block,
          .cmp_stride = shape_.nsa.cmp_stride,
          .rotate = before_rope,
          .theta = shape_.rope_theta,
          .frequency = step.frequency,
          .scale = shape_.rope.attention_factor,
          .source = step.nodes.source,
          .block = step.nodes.block,
          .k_cache = before_rope ? step.cache.k_raw(layer) : step.cache.k(layer),
          .v_cache = step.cache.v(layer),
          .k_tree = before_rope ? step.tree.k_raw(layer) : step.tree.k(layer),
          .v_tree = step.tree.v(layer),
          .compress_key = w.compress_key.data(),
          .compress_value = w.compress_value.data(),
          .intra_block_pe = w.intra_block_pe.data(),
          .k_cmp = step.tree.k_cmp(layer),
          .v_cmp = step.tree.v_cmp(layer)};
}

template <class T>
const std::int32_t* NsaAttention<T>::reused_blocks(const VerifyOptions& options, std::int64_t layer,
                                                   std::int64_t first_row) const {
  const std::int64_t refresh = kernels::refresh_layer(options.schedule, layer);
  return refresh == layer ? nullptr : blocks_of(refresh, first_row);
}

template <class T>
kernels::NsaVerifyParams<T> NsaAttention<T>::params_of(const AttentionStep<T>& step,
                                                       std::int64_t layer) const {
  return {.nsa = shape_.nsa,
          .form = step.options.form,
          .group_mode = step.options.group_mode,
          .group_size = step.options.group_size,
          .counts = step.nodes.counts,
          .num_heads = shape_.num_heads,
          .num_kv_heads = shape_.num_kv_heads,
          .head_dim = shape_.head_dim,
          .context_len = step.nodes.context_len,
          .num_queries = step.nodes.count,
          .num_compressed = compressed_count(shape_.nsa, step.nodes.context_len),
          .num_tree_compressed = step.options.hide_tree_compressed ? 0 : step.nodes.compressed_rows,
          .num_blocks = step.nodes.newest_position / shape_.nsa.sel_block + 1,
          .q = step.q,
          .pages = step.cache.pages(),
          .compressed_pages = step.cache.compressed_pages(),
          .k = step.cache.k(layer),
          .v = step.cache.v(layer),
          .k_cmp = step.cache.k_cmp(layer),
          .v_cmp = step.cache.v_cmp(layer),
          .k_tree = step.tree.k(layer),
          .v_tree = step.tree.v(layer),
          .k_cmp_tree = step.tree.k_cmp(layer),
          .v_cmp_tree = step.tree.v_cmp(layer),
          .gates = step.gates,
          .parent = step.nodes.parent,
          .position = step.nodes.position,
          .cmp_tree_owner = step.nodes.owner,
          .indices_in = reused_blocks(step.options, layer, step.first_row),
          .older_lists = layer > 0,  // a routing launch lies between
          .older_blocks = layer > kernels::refresh_layer(step.options.schedule, layer) +
                                      1,  // another reuse layer does
          .topk = step.options.topk,
          .hint = hint_of(layer),
          .out = step.out,
          .indices = blocks_of(layer, step.first_row)};
}

template <class T>
void NsaAttention<T>::attend(const AttentionStep<T>& step, std::int64_t layer) {
  if (step.keeps_rows_first) {
    kernels::nsa_prompt(*ops_, in_cache(params_of(step, layer)));
  } else {
    ops_->nsa_verify(params_of(step, layer));
  }
}

template <class T>
kernels::StepShape NsaAttention<T>::prepare(std::span<const AttentionStep<T>> steps) {
  if (steps.empty()) {
    together_.calls.clear();
    return {};
  }
  const KvRows<T>& rows = steps.front().cache.rows();
  const TreeKv<T>& tree = steps.front().tree.all();
  together_ = {.layers = shape_.layers,
               .cache_rows = rows.layer_rows,
               .compressed_rows = rows.cmp_layer_rows,
               .tree_rows = tree.rows(),
               .k = rows.k,
               .v = rows.v,
               .k_cmp = rows.k_cmp,
               .v_cmp = rows.v_cmp,
               .k_tree = tree.k(0),
               .v_tree = tree.v(0),
               .k_cmp_tree = tree.k_cmp(0),
               .v_cmp_tree = tree.v_cmp(0),
               .indices_stride = rows_ * row(),
               .keeps_rows_first = steps.front().keeps_rows_first,
               .calls = std::move(together_.calls)};
  together_.calls.clear();
  for (const AttentionStep<T>& step : steps) {
    VERSIEVE_ASSERT(step.cache.rows().k == together_.k, "caches of one pool");
    together_.calls.push_back({params_of(step, 0), step.options.schedule});
  }
  return kernels::prepare_nsa_step<T>(*ops_, together_);
}

// In the layer's blocks of the step before, which this one overwrites when it has chosen.
template <class T>
const std::int32_t* NsaAttention<T>::hint_of(std::int64_t layer) const {
  return hint_row_ < 0 ? nullptr : indices_.data() + (layer * rows_ + hint_row_) * row();
}

template <class T>
std::vector<std::int32_t> NsaAttention<T>::read(const std::int32_t* from,
                                                std::int64_t count) const {
  std::vector<std::int32_t> values(static_cast<std::size_t>(count));
  ops_->download(values.data(), from, values.size() * sizeof(std::int32_t));
  return values;
}

template <class T>
std::vector<std::int32_t> NsaAttention<T>::selected_blocks(std::int64_t layer, std::int64_t nodes,
                                                           std::int64_t first_row) const {
  return read(blocks_of(layer, first_row), nodes * row());
}

template <class T>
std::vector<std::int32_t> NsaAttention<T>::hinted_blocks(std::int64_t layer) const {
  const std::int32_t* const hint = hint_of(layer);
  return hint == nullptr ? std::vector<std::int32_t>() : read(hint, row());
}

template class NsaAttention<double>;
template class NsaAttention<float>;
template class NsaAttention<Bf16>;

}  // namespace versieve::engine
