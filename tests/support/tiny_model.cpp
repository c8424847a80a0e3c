#include "tests/support/tiny_model.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "engine/io/atomic_file.h"
#include "engine/io/checkpoint.h"
#include "model/words/assert.h"
#include "tests/support/random_source.h"

namespace versieve::test {
namespace {

namespace fs = std::filesystem;
using engine::Shape;
using engine::StorageType;
using engine::Tensor;
using engine::TensorSet;
using nlohmann::json;

class WeightSource {
 public:
  WeightSource(std::uint64_t seed, StorageType storage) : random_(seed), storage_(storage) {}

  // Uniform in center +- spread.
  Tensor tensor(Shape shape, double center, double spread) {
    std::int64_t count = 1;
    for (const std::int64_t extent : shape) {
      count *= extent;
    }
    std::vector<double> values(static_cast<std::size_t>(count));
    for (double& value : values) {
      value = center + spread * (2.0 * random_.uniform() - 1.0);
    }
    return stored(values, std::move(shape));
  }
  // A projection [m, k] that keeps the size of its input, times `gain`.
  Tensor projection(std::int64_t m, std::int64_t k, double gain = 1.0) {
    return tensor({m, k}, 0.0, gain * std::sqrt(3.0 / static_cast<double>(k)));
  }
  Tensor norm(std::int64_t width) { return tensor({width}, 1.0, 0.25); }

 private:
  Tensor stored(const std::vector<double>& values, Shape shape) const {
    if (storage_ == StorageType::kF64) {
      return engine::tensor_of(values, std::move(shape));
    }
    if (storage_ == StorageType::kF32) {
      return engine::tensor_of(std::vector<float>(values.begin(), values.end()), std::move(shape));
    }
    std::vector<Bf16> rounded;
    for (const double value : values) {
      rounded.push_back(to_bf16(value));
    }
    return engine::tensor_of(rounded, std::move(shape));
  }

  Random random_;
  StorageType storage_;
};

void add_mlp(TensorSet& set, WeightSource& source, const std::string& prefix, std::int64_t hidden,
             std::int64_t intermediate) {
  set.tensors[prefix + "mlp.gate_proj.weight"] = source.projection(intermediate, hidden);
  set.tensors[prefix + "mlp.up_proj.weight"] = source.projection(intermediate, hidden);
  set.tensors[prefix + "mlp.down_proj.weight"] = source.projection(hidden, intermediate);
}

void add_compression(TensorSet& set, WeightSource& source, const std::string& attention,
                     const LlmShape& shape) {
  const std::int64_t l = shape.nsa.cmp_block;
  const double mean = 1.0 / static_cast<double>(l);
  set.tensors[attention + "g_proj.weight"] = source.projection(3 * shape.num_heads, shape.hidden);
  set.tensors[attention + "compress_key"] = source.tensor({shape.num_kv_heads, l}, mean, mean);
  set.tensors[attention + "compress_value"] = source.tensor({shape.num_kv_heads, l}, mean, mean);
  set.tensors[attention + "intra_block_pe"] =
      source.tensor({shape.num_kv_heads, l, shape.head_dim}, 0.0, 0.2);
}

json llama_fields(std::int64_t hidden, std::int64_t intermediate, std::int64_t heads,
                  std::int64_t kv_heads, std::int64_t head_dim) {
  return {{"hidden_size", hidden},        {"intermediate_size", intermediate},
          {"num_attention_heads", heads}, {"num_key_value_heads", kv_heads},
          {"head_dim", head_dim},         {"hidden_act", "silu"},
          {"attention_bias", false},      {"mlp_bias", false},
          {"bos_token_id", 256},          {"eos_token_id", 257},
          {"pad_token_id", 258}};
}

json target_config(const LlmShape& shape) {
  json config = llama_fields(shape.hidden, shape.intermediate, shape.num_heads, shape.num_kv_heads,
                             shape.head_dim);
  const bool nsa = shape.attention == AttentionKind::kNsa;
  config["model_type"] = nsa ? "versieve-nsa" : "llama";
  config["num_hidden_layers"] = shape.layers;
  config["vocab_size"] = shape.vocab;
  config["rms_norm_eps"] = shape.norm_eps;
  config["rope_theta"] = shape.rope_theta;
  config["max_position_embeddings"] = shape.max_position;
  config["tie_word_embeddings"] = shape.tied_embeddings;
  if (nsa) {
    config["nsa"] = {{"semantics", "compress_before_rope"},
                     {"pooling", "weighted"},
                     {"cmp_block", shape.nsa.cmp_block},
                     {"cmp_stride", shape.nsa.cmp_stride},
                     {"sel_block", shape.nsa.sel_block},
                     {"sel_count", shape.nsa.sel_count},
                     {"init_blocks", shape.nsa.init_blocks},
                     {"local_blocks", shape.nsa.local_blocks},
                     {"window", shape.nsa.window}};
  }
  return config;
}

json draft_config(const TinyModel& model) {
  const DraftShape& shape = model.draft;
  json config = llama_fields(shape.hidden, shape.intermediate, shape.num_heads, shape.num_kv_heads,
                             shape.head_dim);
  config["architectures"] = {"LlamaForCausalLMEagle3"};
  config["model_type"] = "llama";
  config["num_hidden_layers"] = 1;
  config["vocab_size"] = model.target.vocab;
  config["draft_vocab_size"] = shape.vocab;
  config["rms_norm_eps"] = shape.norm_eps;
  config["rope_theta"] = shape.rope_theta;
  config["sliding_window"] = shape.window;
  config["max_position_embeddings"] = model.target.max_position;
  config["eagle_config"] = {{"eagle_aux_hidden_state_layer_ids", shape.capture_layers},
                            {"use_aux_hidden_state", true},
                            {"id_semantics", "entering_layer"}};
  return config;
}

void write_json(const fs::path& path, const json& document) {
  engine::write_file_atomically(path, document.dump(1) + "\n");
}

// Tensor number i goes to shard i mod n.
void write_shards(const fs::path& folder, const TensorSet& set, int shards) {
  std::vector<TensorSet> parts(static_cast<std::size_t>(shards));
  json map = json::object();
  std::size_t bytes = 0;
  std::size_t i = 0;
  for (const auto& [name, tensor] : set.tensors) {
    const std::size_t part = i++ % parts.size();
    parts[part].tensors[name] = tensor;
    map[name] = "model-" + std::to_string(part + 1) + ".safetensors";
    bytes += tensor.bytes.size();
  }
  for (std::size_t part = 0; part < parts.size(); ++part) {
    engine::write_safetensors(folder / ("model-" + std::to_string(part + 1) + ".safetensors"),
                              parts[part]);
  }
  write_json(folder / "model.safetensors.index.json",
             {{"metadata", {{"total_size", bytes}}}, {"weight_map", map}});
}

// Draft id i stands for the target id i * step: d2t holds the offsets.
void add_vocab_map(TensorSet& set, std::int64_t draft_vocab, std::int64_t target_vocab) {
  const std::int64_t step = target_vocab / draft_vocab;
  std::vector<std::int64_t> d2t;
  Tensor t2d{.type = StorageType::kBool, .shape = {target_vocab}, .bytes = {}};
  t2d.bytes.resize(static_cast<std::size_t>(target_vocab), std::byte{0});
  for (std::int64_t id = 0; id < draft_vocab; ++id) {
    d2t.push_back(id * step - id);
    t2d.bytes[static_cast<std::size_t>(id * step)] = std::byte{1};
  }
  set.tensors["d2t"] = engine::tensor_of(d2t, {draft_vocab});
  set.tensors["t2d"] = std::move(t2d);
}

}  // namespace

TensorSet tiny_target_weights(const TinyModel& model) {
  const LlmShape& shape = model.target;
  WeightSource source(model.seed, model.storage);
  TensorSet set;
  set.tensors["model.embed_tokens.weight"] = source.tensor({shape.vocab, shape.hidden}, 0.0, 1.0);
  set.tensors["model.norm.weight"] = source.norm(shape.hidden);
  if (!shape.tied_embeddings) {
    set.tensors["lm_head.weight"] = source.projection(shape.vocab, shape.hidden);
  }
  for (std::int64_t layer = 0; layer < shape.layers; ++layer) {
    const std::string prefix = engine::layer_name(layer, "");
    const std::string attention = prefix + "self_attn.";
    set.tensors[prefix + "input_layernorm.weight"] = source.norm(shape.hidden);
    set.tensors[prefix + "post_attention_layernorm.weight"] = source.norm(shape.hidden);
    set.tensors[attention + "q_proj.weight"] =
        source.projection(shape.q_width(), shape.hidden, model.sharpness);
    set.tensors[attention + "k_proj.weight"] = source.projection(shape.kv_width(), shape.hidden);
    set.tensors[attention + "v_proj.weight"] = source.projection(shape.kv_width(), shape.hidden);
    set.tensors[attention + "o_proj.weight"] = source.projection(shape.hidden, shape.q_width());
    add_mlp(set, source, prefix, shape.hidden, shape.intermediate);
    if (shape.attention == AttentionKind::kNsa) {
      add_compression(set, source, attention, shape);
    }
  }
  return set;
}

TensorSet tiny_draft_weights(const TinyModel& model) {
  const DraftShape& shape = model.draft;
  const std::int64_t hidden = shape.hidden;
  WeightSource source(model.seed + 0x9e3779b97f4a7c15, model.storage);
  TensorSet set;
  set.tensors["fc.weight"] = source.projection(hidden, 3 * model.target.hidden);
  for (const char* norm : {"input_layernorm", "hidden_norm", "post_attention_layernorm"}) {
    set.tensors[std::string("midlayer.") + norm + ".weight"] = source.norm(hidden);
  }
  const std::string attention = "midlayer.self_attn.";
  const std::int64_t q_width = shape.num_heads * shape.head_dim;
  const std::int64_t kv_width = shape.num_kv_heads * shape.head_dim;
  set.tensors[attention + "q_proj.weight"] = source.projection(q_width, 2 * hidden);
  set.tensors[attention + "k_proj.weight"] = source.projection(kv_width, 2 * hidden);
  set.tensors[attention + "v_proj.weight"] = source.projection(kv_width, 2 * hidden);
  set.tensors[attention + "o_proj.weight"] = source.projection(hidden, q_width);
  add_mlp(set, source, "midlayer.", hidden, shape.intermediate);
  set.tensors["norm.weight"] = source.norm(hidden);
  set.tensors["lm_head.weight"] = source.projection(shape.vocab, hidden);
  if (shape.vocab != model.target.vocab) {
    add_vocab_map(set, shape.vocab, model.target.vocab);
  }
  return set;
}

void write_tiny_target(const fs::path& folder, const TinyModel& model) {
  fs::create_directories(folder);
  write_json(folder / "config.json", target_config(model.target));
  write_json(folder / "tokenizer.json",
             {{"type", "bytes"},
              {"vocab_size", model.target.vocab},
              {"specials", {{"<bos>", 256}, {"<eos>", 257}, {"<pad>", 258}}}});
  const TensorSet weights = tiny_target_weights(model);
  if (model.shards > 1) {
    write_shards(folder, weights, model.shards);
  } else {
    engine::write_safetensors(folder / "model.safetensors", weights);
  }
}

void write_tiny_draft(const fs::path& folder, const TinyModel& model) {
  fs::create_directories(folder);
  write_json(folder / "config.json", draft_config(model));
  engine::write_safetensors(folder / "model.safetensors", tiny_draft_weights(model));
}

void write_tiny_pair(const fs::path& folder, const TinyModel& model) {
  write_tiny_target(folder, model);
  write_tiny_draft(folder / "draft", model);
}

void write_tiny_dense_pair(const fs::path& folder, const TinyModel& model,
                           std::int64_t draft_layers) {
  VERSIEVE_ASSERT(model.target.attention == AttentionKind::kDense && draft_layers > 0 &&
                      draft_layers < model.target.layers,
                  "a draft is cut from a dense target with more layers");
  write_tiny_target(folder, model);
  LlmShape shape = model.target;
  shape.layers = draft_layers;
  TensorSet weights = tiny_target_weights(model);
  for (std::int64_t layer = draft_layers; layer < model.target.layers; ++layer) {
    std::erase_if(weights.tensors, [&](const auto& named) {
      return named.first.rfind(engine::layer_name(layer, ""), 0) == 0;
    });
  }
  fs::create_directories(folder / "draft");
  write_json(folder / "draft" / "config.json", target_config(shape));
  engine::write_safetensors(folder / "draft" / "model.safetensors", weights);
}

}  // namespace versieve::test
