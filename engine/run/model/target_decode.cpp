// An autoregressive step's layers of an NSA target as one launch (Ops::decode_layers), with the
// bits of the launches in target.cpp.
#include "engine/run/model/target.h"

namespace versieve::engine {

// False: this step is not of the kind, or the device has no such launch of it; nothing ran.
template <class T>
bool Target<T>::try_decode_layers() {
  const VerifyOptions& options = parts_[0].options;
  if (!options.one_launch || nodes_.count != 1 || shape_.attention != AttentionKind::kNsa ||
      options.form != NsaForm::kFused || options.topk != kernels::TopkVariant::kSort ||
      !shape_.is_plain() || options.hide_tree_compressed) {
    return false;
  }
  const kernels::DecodeLayersParams<T> p = decode_params();
  if (!ops_->decode_layers_takes(p)) {
    return false;
  }
  ops_->decode_layers(p);
  squares_turn_ = 1;
  return true;
}

template <class T>
kernels::DecodeLayersParams<T> Target<T>::decode_params() {
  const StepNodes& node = parts_[0].nodes;
  const KvCache<T>& cache = *parts_[0].cache;
  kernels::DecodeLayersParams<T> p{.shape = shape_,
                                   .counts = node.counts,
                                   .context_len = node.context_len,
                                   .tree_compressed = node.compressed_rows,
                                   .cache_rows = cache.rows().layer_rows,
                                   .compressed_rows = cache.rows().cmp_layer_rows,
                                   .pages = cache.pages(),
                                   .compressed_pages = cache.compressed_pages(),
                                   .source = node.source,
                                   .block = node.block,
                                   .cosine = cosine_.data(),
                                   .sine = sine_.data(),
                                   .hidden = hidden_.data(),
                                   .weighted = weighted_.data(),
                                   .squares = squares_[0].data(),
                                   .out_squares = squares_[1].data()};
  for (std::int64_t layer = 0; layer < shape_.layers; ++layer) {
    p.layers.push_back(decode_layer(layer));
  }
  return p;
}

template <class T>
kernels::DecodeLayer<T> Target<T>::decode_layer(std::int64_t layer) {
  const LayerWeights<T>& w = weights_.layers[static_cast<std::size_t>(layer)];
  const KvCache<T>& cache = *parts_[0].cache;
  const bool keeps_raw = cache.keeps_raw_keys();
  return {.joint = w.joint.data(),
          .output = w.output.data(),
          .gate_up = w.mlp_gate_up.data(),
          .down = w.mlp_down.data(),
          .post_norm = w.post_norm.data(),
          .next_norm = norm_after(layer).data(),
          .compress_key = w.compress_key.data(),
          .compress_value = w.compress_value.data(),
          .intra_block_pe = w.intra_block_pe.data(),
          .k = cache.k(layer),
          .v = cache.v(layer),
          .k_raw = keeps_raw ? cache.k_raw(layer) : nullptr,
          .k_cmp = cache.k_cmp(layer),
          .v_cmp = cache.v_cmp(layer),
          .k_tree = tree_kv_.k(layer),
          .v_tree = tree_kv_.v(layer),
          .k_raw_tree = tree_kv_.k_raw(layer),
          .k_cmp_tree = tree_kv_.k_cmp(layer),
          .v_cmp_tree = tree_kv_.v_cmp(layer),
          .indices_in = nsa_.reused_blocks(parts_[0].options, layer),
          .indices = nsa_.blocks_of(layer),
          .captured = captured_before(layer + 1)};
}

template bool Target<double>::try_decode_layers();
template bool Target<float>::try_decode_layers();
template bool Target<Bf16>::try_decode_layers();

}  // namespace versieve::engine
