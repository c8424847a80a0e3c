// A checkpoint ready for the engine: geometry, semantics and every weight under one canonical
// name, whatever the family called it. Missing names are errors, and unknown ones that are not
// buffers.
//
// Canonical names, target: model.embed_tokens.weight, model.norm.weight, lm_head.weight (only if
// not tied), model.layers.<i>.{input_layernorm, post_attention_layernorm}.weight,
// .self_attn.{q,k,v,o}_proj.weight, .mlp.{gate,up,down}_proj.weight, where the family has them
// .self_attn.{q,k,v}_proj.bias and .self_attn.{q,k}_norm.weight, and, for NSA,
// .self_attn.g_proj.weight [3H, hidden] (row h*3 + branch), .self_attn.compress_key,
// .compress_value [G, l] (weighted pooling only), .intra_block_pe [G, l, d] (optional under mean
// pooling).
// Draft: fc.weight, midlayer.*, norm.weight, optional lm_head.weight and embed_tokens.weight (the
// target's without).
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "engine/io/model_config.h"
#include "engine/io/safetensors.h"

namespace versieve::engine {

// Weights by canonical name, shapes already checked.
class WeightTable {
 public:
  WeightTable() = default;
  WeightTable(std::vector<SafetensorsFile> files, std::map<std::string, TensorView> tensors)
      : files_(std::move(files)), tensors_(std::move(tensors)) {}

  bool has(const std::string& name) const { return tensors_.count(name) != 0; }
  // REQUIRES: has(name).
  const TensorView& tensor(const std::string& name) const;
  // The weight converted to T = double, float or Bf16.
  template <class T>
  std::vector<T> values(const std::string& name) const {
    return values_as<T>(tensor(name), name);
  }
  const std::map<std::string, TensorView>& tensors() const { return tensors_; }
  // The float type that most of their elements are stored in.
  StorageType main_type() const;

 private:
  std::vector<SafetensorsFile> files_;
  std::map<std::string, TensorView> tensors_;
};

struct Checkpoint {
  LlmShape shape;
  std::string semantics;
  SpecialTokens special;
  WeightTable weights;
  std::vector<std::string> remarks;  // what was odd and did no harm, a sentence each
};

struct DraftCheckpoint {
  DraftShape shape;
  WeightTable weights;
  // Target id of draft id i is i + d2t[i]; empty: the vocabularies are the same.
  std::vector<std::int64_t> d2t;  // [draft vocabulary]
  std::vector<std::string> remarks;
};

// "model.layers.3.self_attn.q_proj.weight" from (3, "self_attn.q_proj.weight").
std::string layer_name(std::int64_t layer, const std::string& rest);

// Throw Error(kBadInput) with one sentence that names the file or the tensor.
Checkpoint load_target(const std::filesystem::path& folder);
// A draft that is a model of its own (is_draft_model), made for that target: the same vocabulary.
// Fewer positions than the target's are a limit on drafting.
Checkpoint load_draft_model(const std::filesystem::path& folder, const LlmShape& target);
// `folder`: the draft's own, usually <target>/draft.
DraftCheckpoint load_draft(const std::filesystem::path& folder, const LlmShape& target);

}  // namespace versieve::engine
