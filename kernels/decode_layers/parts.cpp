#include "kernels/decode_layers/parts.h"

#include "model/words/assert.h"
#include "model/words/joint_rows.h"

namespace versieve::kernels {
namespace {

// The step's activations and the lists of a tree of one node.
template <class T>
class Parts {
 public:
  Parts(Ops<T>& ops, const DecodeLayersParams<T>& p)
      : ops_(&ops),
        p_(&p),
        joint_(ops, joint_width()),
        query_(ops, p.shape.q_width()),
        gates_(ops, 3 * p.shape.num_heads),
        attention_(ops, p.shape.q_width()),
        mlp_(ops, p.shape.intermediate),
        squares_{{ops, 1}, {ops, 1}},
        lists_(ops, {-1, position(), 0}) {}

  void run() {
    const SquareSum* entering = p_->squares;
    for (const DecodeLayer<T>& layer : p_->layers) {
      project(layer, entering);
      attend(layer);
      add_to_stream(attention_.data(), layer.output, p_->shape.q_width(), layer.post_norm, 0);
      linear_of_norm({.m = p_->shape.intermediate,
                      .swiglu = true,
                      .w = layer.gate_up,
                      .y = mlp_.data(),
                      .norm = {.x_squares = squares_[0].data(), .cleared = squares_[1].data()}});
      add_to_stream(mlp_.data(), layer.down, p_->shape.intermediate, layer.next_norm, 1);
      entering = squares_[1].data();
      if (layer.captured != nullptr) {
        ops_->copy_rows({.rows = 1,
                         .width = p_->shape.hidden,
                         .src = p_->hidden,
                         .dst = layer.captured,
                         .term = TrafficTerm::kDraft});
      }
    }
    SquareSum leaving = 0;
    ops_->download(&leaving, entering, sizeof leaving);
    ops_->upload(p_->out_squares, &leaving, sizeof leaving);
  }

 private:
  std::int64_t joint_width() const { return joint_rows(p_->shape); }
  std::int32_t position() const {
    StepCounts counts{.context_len = static_cast<std::int32_t>(p_->context_len)};
    if (p_->counts != nullptr) {
      ops_->download(&counts, p_->counts, sizeof counts);
    }
    return counts.context_len;
  }

  void linear_of_norm(LinearParams<T> linear) {
    linear.n = 1;
    linear.k = p_->shape.hidden;
    linear.x = p_->weighted;
    linear.norm.eps = p_->shape.norm_eps;
    ops_->linear(linear);
  }
  // Into squares_[turn], which was cleared.
  void add_to_stream(const T* x, const T* w, std::int64_t k, const T* norm, int turn) {
    ops_->linear(
        {.n = 1,
         .k = k,
         .m = p_->shape.hidden,
         .x = x,
         .w = w,
         .residual = p_->hidden,
         .y = p_->hidden,
         .norm = {
             .y_weight = norm, .y_weighted = p_->weighted, .y_squares = squares_[turn].data()}});
  }

  void project(const DecodeLayer<T>& layer, const SquareSum* entering) {
    const LlmShape& s = p_->shape;
    linear_of_norm({.m = joint_width(),
                    .w = layer.joint,
                    .y = joint_.data(),
                    .norm = {.x_squares = entering, .cleared = squares_[0].data()}});
    ops_->rope_append({.n = 1,
                       .num_heads = s.num_heads,
                       .num_kv_heads = s.num_kv_heads,
                       .head_dim = s.head_dim,
                       .gate_count = 3 * s.num_heads,
                       .x_stride = joint_width(),
                       .x = joint_.data(),
                       .cosine = p_->cosine,
                       .sine = p_->sine,
                       .q = query_.data(),
                       .k_raw = layer.k_raw_tree,
                       .k = layer.k_tree,
                       .v = layer.v_tree,
                       .gates = gates_.data(),
                       .compress = compressed_tokens(layer)});
  }

  CompressParams<T> compressed_tokens(const DecodeLayer<T>& layer) const {
    const LlmShape& s = p_->shape;
    if (p_->tree_compressed == 0) {
      return {};
    }
    const bool raw = layer.k_raw_tree != nullptr;
    return {.counts = p_->counts,
            .rows = p_->tree_compressed,
            .num_kv_heads = s.num_kv_heads,
            .head_dim = s.head_dim,
            .cmp_block = s.nsa.cmp_block,
            .cmp_stride = s.nsa.cmp_stride,
            .rotate = raw,
            .theta = s.rope_theta,
            .source = p_->source,
            .block = p_->block,
            .k_cache = raw ? layer.k_raw : layer.k,
            .v_cache = layer.v,
            .k_tree = raw ? layer.k_raw_tree : layer.k_tree,
            .v_tree = layer.v_tree,
            .compress_key = layer.compress_key,
            .compress_value = layer.compress_value,
            .intra_block_pe = layer.intra_block_pe,
            .k_cmp = layer.k_cmp_tree,
            .v_cmp = layer.v_cmp_tree};
  }

  void attend(const DecodeLayer<T>& layer) {
    const LlmShape& s = p_->shape;
    ops_->nsa_verify({.nsa = s.nsa,
                      .counts = p_->counts,
                      .num_heads = s.num_heads,
                      .num_kv_heads = s.num_kv_heads,
                      .head_dim = s.head_dim,
                      .context_len = p_->context_len,
                      .num_queries = 1,
                      .num_compressed = compressed_count(s.nsa, p_->context_len),
                      .num_tree_compressed = p_->tree_compressed,
                      .num_blocks = p_->context_len / s.nsa.sel_block + 1,
                      .q = query_.data(),
                      .pages = p_->pages,
                      .compressed_pages = p_->compressed_pages,
                      .k = layer.k,
                      .v = layer.v,
                      .k_cmp = layer.k_cmp,
                      .v_cmp = layer.v_cmp,
                      .k_tree = layer.k_tree,
                      .v_tree = layer.v_tree,
                      .k_cmp_tree = layer.k_cmp_tree,
                      .v_cmp_tree = layer.v_cmp_tree,
                      .gates = gates_.data(),
                      .parent = lists_.data(),
                      .position = lists_.data() + 1,
                      .cmp_tree_owner = lists_.data() + 2,
                      .indices_in = layer.indices_in,
                      .out = attention_.data(),
                      .indices = layer.indices});
  }

  Ops<T>* ops_;
  const DecodeLayersParams<T>* p_;
  OpsBuffer<T> joint_;      // [joint_rows]
  OpsBuffer<T> query_;      // [H, d]
  OpsBuffer<T> gates_;      // [H, 3]
  OpsBuffer<T> attention_;  // [H, d]
  OpsBuffer<T> mlp_;        // [intermediate]
  OpsBuffer<T, SquareSum> squares_[2];
  OpsBuffer<T, std::int32_t> lists_;  // [3]: parent, position, owner
};

}  // namespace

template <class T>
void decode_layers_in_parts(Ops<T>& ops, const DecodeLayersParams<T>& p) {
  VERSIEVE_ASSERT(static_cast<std::int64_t>(p.layers.size()) == p.shape.layers,
                  "every layer has its pointers");
  VERSIEVE_ASSERT(p.shape.is_plain(), "nothing comes before rotary but the projection");
  VERSIEVE_ASSERT(p.tree_compressed == 0 || p.tree_compressed == 1,
                  "one node completes one compressed token");
  Parts<T>(ops, p).run();
}

template void decode_layers_in_parts(Ops<double>&, const DecodeLayersParams<double>&);
template void decode_layers_in_parts(Ops<float>&, const DecodeLayersParams<float>&);
template void decode_layers_in_parts(Ops<Bf16>&, const DecodeLayersParams<Bf16>&);

}  // namespace versieve::kernels
