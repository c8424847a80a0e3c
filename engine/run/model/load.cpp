#include "engine/run/model/load.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

namespace versieve::engine {
namespace {

template <class T>
class Uploader {
 public:
  Uploader(kernels::Ops<T>& ops, const WeightTable& table) : ops_(&ops), table_(&table) {}

  kernels::OpsBuffer<T> operator()(const std::string& name) const {
    return {*ops_, table_->values<T>(name)};
  }
  // Their rows under each other, then zeros up to `least` elements.
  kernels::OpsBuffer<T> stacked(const std::vector<std::string>& names,
                                std::int64_t least = 0) const {
    std::vector<T> rows;
    for (const std::string& name : names) {
      const std::vector<T> values = table_->values<T>(name);
      rows.insert(rows.end(), values.begin(), values.end());
    }
    rows.resize(std::max(rows.size(), static_cast<std::size_t>(least)), T{});
    return {*ops_, rows};
  }
  // An empty buffer where the checkpoint has no such weight.
  kernels::OpsBuffer<T> optional(const std::string& name) const {
    return table_->has(name) ? (*this)(name) : kernels::OpsBuffer<T>();
  }

 private:
  kernels::Ops<T>* ops_;
  const WeightTable* table_;
};

// Matrices and norms that a target layer and the draft's layer share; `prefix` ends with a dot.
// `gated`: a layer of NSA. `joint_elements`: of the joint matrix at least.
template <class T>
LayerWeights<T> decoder_layer(const Uploader<T>& upload, const std::string& prefix, bool gated,
                              std::int64_t joint_elements = 0) {
  LayerWeights<T> w;
  w.input_norm = upload(prefix + "input_layernorm.weight");
  std::vector<std::string> joint;
  for (const char* part : {"q_proj", "k_proj", "v_proj"}) {
    joint.push_back(prefix + "self_attn." + part + ".weight");
  }
  if (gated) {
    joint.push_back(prefix + "self_attn.g_proj.weight");
  }
  w.joint = upload.stacked(joint, joint_elements);
  w.q_norm = upload.optional(prefix + "self_attn.q_norm.weight");
  w.k_norm = upload.optional(prefix + "self_attn.k_norm.weight");
  w.output = upload(prefix + "self_attn.o_proj.weight");
  w.post_norm = upload(prefix + "post_attention_layernorm.weight");
  w.mlp_gate_up = upload.stacked({prefix + "mlp.gate_proj.weight", prefix + "mlp.up_proj.weight"});
  w.mlp_down = upload(prefix + "mlp.down_proj.weight");
  return w;
}

// A draft's own token embedding, where it is not the target's once more, as it mostly is.
template <class T>
kernels::OpsBuffer<T> own_embedding(kernels::Ops<T>& ops, const DraftCheckpoint& checkpoint,
                                    const Target<T>& target) {
  constexpr const char* kName = "embed_tokens.weight";
  if (!checkpoint.weights.has(kName)) {
    return {};
  }
  const std::vector<T> own = checkpoint.weights.values<T>(kName);
  std::vector<T> targets(own.size());
  ops.download(targets.data(), target.embedding(), targets.size() * sizeof(T));
  if (std::memcmp(own.data(), targets.data(), own.size() * sizeof(T)) == 0) {
    return {};
  }
  return {ops, own};
}

// A draft's output rows: its own, or without any those of the target for the tokens it proposes.
template <class T>
kernels::OpsBuffer<T> output_rows(kernels::Ops<T>& ops, const Uploader<T>& upload,
                                  const DraftCheckpoint& checkpoint, const Target<T>& target,
                                  const std::vector<std::int32_t>& target_token) {
  if (checkpoint.weights.has("lm_head.weight")) {
    return upload("lm_head.weight");
  }
  const std::int64_t hidden = checkpoint.shape.hidden;
  kernels::OpsBuffer<T> rows(ops, checkpoint.shape.vocab * hidden);
  const kernels::OpsBuffer<T, std::int32_t> tokens =
      target_token.empty() ? kernels::OpsBuffer<T, std::int32_t>()
                           : kernels::OpsBuffer<T, std::int32_t>(ops, target_token);
  ops.copy_rows({.rows = checkpoint.shape.vocab,
                 .width = hidden,
                 .src_row = tokens.data(),
                 .src = target.head(),
                 .dst = rows.data(),
                 .term = TrafficTerm::kDraft});
  ops.synchronize();
  return rows;
}

// Mean pooling is weights 1/l.
template <class T>
kernels::OpsBuffer<T> mean_pooling(kernels::Ops<T>& ops, const LlmShape& shape) {
  const double weight = 1.0 / static_cast<double>(shape.nsa.cmp_block);
  std::vector<T> values(static_cast<std::size_t>(shape.num_kv_heads * shape.nsa.cmp_block));
  for (T& value : values) {
    if constexpr (std::is_same_v<T, Bf16>) {
      value = to_bf16(weight);
    } else {
      value = static_cast<T>(weight);
    }
  }
  return {ops, values};
}

template <class T>
void add_sparse_weights(kernels::Ops<T>& ops, const Uploader<T>& upload, const LlmShape& shape,
                        std::int64_t layer, LayerWeights<T>& w) {
  const auto name = [&](const char* rest) {
    return layer_name(layer, std::string("self_attn.") + rest);
  };
  w.intra_block_pe = upload.optional(name("intra_block_pe"));
  if (shape.pooling == CompressPooling::kMean) {
    w.compress_key = mean_pooling(ops, shape);
    w.compress_value = mean_pooling(ops, shape);
  } else {
    w.compress_key = upload(name("compress_key"));
    w.compress_value = upload(name("compress_value"));
  }
}

}  // namespace

UsualDtype usual_dtype(Backend backend, const WeightTable& weights) {
  const StorageType stored = weights.main_type();
  if (backend != Backend::kCuda || (stored != StorageType::kBf16 && stored != StorageType::kF16)) {
    return {};
  }
  return {.dtype = Dtype::kBf16,
          .remark = stored == StorageType::kF16
                        ? "the weights are F16 and run as bf16, three bits of each rounded away; "
                          "--dtype f32 keeps them"
                        : ""};
}

template <class T>
Target<T> make_target(kernels::Ops<T>& ops, const Checkpoint& checkpoint,
                      const DraftCheckpoint* draft) {
  return make_target(ops, checkpoint, checkpoint.shape, draft);
}

template <class T>
Target<T> make_target(kernels::Ops<T>& ops, const Checkpoint& checkpoint, const LlmShape& shape,
                      const DraftCheckpoint* draft) {
  const Uploader<T> upload(ops, checkpoint.weights);
  TargetWeights<T> weights;
  weights.embedding = upload("model.embed_tokens.weight");
  weights.norm = upload("model.norm.weight");
  if (!shape.tied_embeddings) {
    weights.head = upload("lm_head.weight");
  }
  for (std::int64_t layer = 0; layer < shape.layers; ++layer) {
    const bool sparse = shape.attention == AttentionKind::kNsa;
    LayerWeights<T> w =
        decoder_layer(upload, layer_name(layer, ""), sparse, joint_rows(shape) * shape.hidden);
    if (shape.qkv_bias) {
      w.bias = upload.stacked({layer_name(layer, "self_attn.q_proj.bias"),
                               layer_name(layer, "self_attn.k_proj.bias"),
                               layer_name(layer, "self_attn.v_proj.bias")});
    }
    if (sparse) {
      add_sparse_weights(ops, upload, shape, layer, w);
    }
    weights.layers.push_back(std::move(w));
  }
  std::vector<std::int64_t> capture;
  if (draft != nullptr) {
    capture.assign(std::begin(draft->shape.capture_layers), std::end(draft->shape.capture_layers));
  }
  return {ops, shape, std::move(weights), std::move(capture)};
}

template <class T>
Draft<T> make_draft(kernels::Ops<T>& ops, const DraftCheckpoint& checkpoint,
                    const Target<T>& target) {
  const Uploader<T> upload(ops, checkpoint.weights);
  DraftWeights<T> weights;
  weights.fuse = upload("fc.weight");
  weights.hidden_norm = upload("midlayer.hidden_norm.weight");
  weights.layer = decoder_layer(upload, "midlayer.", false);
  weights.norm = upload("norm.weight");
  weights.embedding = own_embedding(ops, checkpoint, target);
  for (std::size_t i = 0; i < checkpoint.d2t.size(); ++i) {
    weights.target_token.push_back(
        static_cast<std::int32_t>(static_cast<std::int64_t>(i) + checkpoint.d2t[i]));
  }
  weights.head = output_rows(ops, upload, checkpoint, target, weights.target_token);
  return {ops, checkpoint.shape, std::move(weights), target.embedding()};
}

template Target<double> make_target(kernels::Ops<double>&, const Checkpoint&,
                                    const DraftCheckpoint*);
template Target<float> make_target(kernels::Ops<float>&, const Checkpoint&, const DraftCheckpoint*);
template Target<Bf16> make_target(kernels::Ops<Bf16>&, const Checkpoint&, const DraftCheckpoint*);
template Target<double> make_target(kernels::Ops<double>&, const Checkpoint&, const LlmShape&,
                                    const DraftCheckpoint*);
template Target<float> make_target(kernels::Ops<float>&, const Checkpoint&, const LlmShape&,
                                   const DraftCheckpoint*);
template Target<Bf16> make_target(kernels::Ops<Bf16>&, const Checkpoint&, const LlmShape&,
                                  const DraftCheckpoint*);
template Draft<double> make_draft(kernels::Ops<double>&, const DraftCheckpoint&,
                                  const Target<double>&);
template Draft<float> make_draft(kernels::Ops<float>&, const DraftCheckpoint&,
                                 const Target<float>&);
template Draft<Bf16> make_draft(kernels::Ops<Bf16>&, const DraftCheckpoint&, const Target<Bf16>&);

}  // namespace versieve::engine
