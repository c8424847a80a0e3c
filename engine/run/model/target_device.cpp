// The target's forward and commit when tree, lists and lengths are in device memory: sizes are
// bounds, nothing is asked of the host. The forward itself is target.cpp's.
#include "engine/run/model/target.h"
#include "model/words/assert.h"

namespace versieve::engine {
namespace {

bool is_nsa(const LlmShape& shape) {
  return shape.attention == AttentionKind::kNsa;
}

}  // namespace

template <class T>
void Target<T>::verify_device(const DeviceTree& tree, const VerifyOptions& options) {
  VERSIEVE_ASSERT(tree.counts != nullptr, "a step of a device tree");
  VERSIEVE_ASSERT(tree.chain || !options.last_logits_only, "a tree's last node says nothing");
  VERSIEVE_ASSERT(!tree.keeps_rows || !is_nsa(shape_), "compressed tokens are committed");
  VERSIEVE_ASSERT(cache_.capacity() > tree.max_context + tree.max_depth, "the cache has room");
  ensure_rows(tree.nodes);
  nodes_ = {.count = tree.nodes,
            .chain = tree.chain || tree.nodes == 1,
            .keeps_rows = tree.keeps_rows,
            .counts = tree.counts,
            .context_len = tree.max_context,
            .compressed_rows = is_nsa(shape_) ? tree.nodes : 0,
            .newest_position = tree.max_context + tree.max_depth,
            .token = tree.token,
            .parent = tree.parent,
            .position = tree.position,
            .owner = tree.owner,
            .block = tree.block,
            .source = tree.source};
  together_ = false;
  alone_ = false;
  kept_rows_ = {};
  parts_.clear();
  parts_.push_back({.tree = {},
                    .layout = {},
                    .options = options,
                    .cache = &cache_,
                    .nodes = nodes_,
                    .first_row = 0});
  run_nodes();
}

template <class T>
bool Target<T>::can_verify_device(const DeviceTree& tree, const VerifyOptions& options) const {
  kernels::NsaVerifyParams<T> p{.nsa = shape_.nsa,
                                .form = options.form,
                                .group_mode = options.group_mode,
                                .group_size = options.group_size,
                                .counts = tree.counts,
                                .num_heads = shape_.num_heads,
                                .num_kv_heads = shape_.num_kv_heads,
                                .head_dim = shape_.head_dim,
                                .context_len = tree.max_context,
                                .num_queries = tree.nodes};
  p.num_compressed = compressed_count(shape_.nsa, tree.max_context);
  p.num_tree_compressed = tree.nodes;
  p.num_blocks = (tree.max_context + tree.max_depth) / shape_.nsa.sel_block + 1;
  return !is_nsa(shape_) || ops_->reads_counts(p);
}

template <class T>
void Target<T>::commit_device(const kernels::StepState* state, std::int64_t max_path) {
  const bool keeps_raw = cache_.keeps_raw_keys();
  ops_->commit_path({.max_path = max_path,
                     .layers = shape_.layers,
                     .width = shape_.kv_width(),
                     .tree_rows = rows_,
                     .cache_rows = cache_.capacity(),
                     .compressed_rows = cache_.compressed_capacity(),
                     .state = state,
                     .k_tree = tree_kv_.k(0),
                     .v_tree = tree_kv_.v(0),
                     .k_raw_tree = tree_kv_.k_raw(0),
                     .k_cmp_tree = tree_kv_.k_cmp(0),
                     .v_cmp_tree = tree_kv_.v_cmp(0),
                     .k = cache_.k(0),
                     .v = cache_.v(0),
                     .k_raw = keeps_raw ? cache_.k_raw(0) : nullptr,
                     .k_cmp = is_nsa(shape_) ? cache_.k_cmp(0) : nullptr,
                     .v_cmp = is_nsa(shape_) ? cache_.v_cmp(0) : nullptr});
  blocks_.update_device(cache_, &state->counts, max_path);
  indexer_.update_device(cache_, &state->counts, max_path);
}

template <class T>
T* Target<T>::reserve_captured(std::int64_t nodes) {
  VERSIEVE_ASSERT(!capture_layers_.empty(), "this target captures no streams");
  ensure_rows(nodes);
  return captured_.data();
}

template void Target<double>::verify_device(const DeviceTree&, const VerifyOptions&);
template void Target<float>::verify_device(const DeviceTree&, const VerifyOptions&);
template void Target<Bf16>::verify_device(const DeviceTree&, const VerifyOptions&);
template bool Target<double>::can_verify_device(const DeviceTree&, const VerifyOptions&) const;
template bool Target<float>::can_verify_device(const DeviceTree&, const VerifyOptions&) const;
template bool Target<Bf16>::can_verify_device(const DeviceTree&, const VerifyOptions&) const;
template void Target<double>::commit_device(const kernels::StepState*, std::int64_t);
template void Target<float>::commit_device(const kernels::StepState*, std::int64_t);
template void Target<Bf16>::commit_device(const kernels::StepState*, std::int64_t);
template double* Target<double>::reserve_captured(std::int64_t);
template float* Target<float>::reserve_captured(std::int64_t);
template Bf16* Target<Bf16>::reserve_captured(std::int64_t);

}  // namespace versieve::engine
