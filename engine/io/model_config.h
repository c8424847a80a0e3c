// A model directory's config.json as the geometry the engine works with. Every family that is
// read, and how it differs, is a row of the table in this folder's README.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "model/words/llm_shape.h"

namespace versieve::engine {

// Whose tensor names and config keys a checkpoint uses.
enum class ModelFamily {
  kVersieveNsa,  // this project's trained pairs: Llama names and an "nsa" block
  kLlama,        // dense, as the next four
  kMistral,      // windows
  kQwen2,        // biases of queries, keys and values
  kQwen3,        // norms of queries and keys
  kSmolLm3,      // layers without rotary
  kLlamaNsa,     // Llama names, mean pooling after rotary (NSA-1B)
  kFlaNsa,       // the flash-linear-attention project's names, the same semantics
  kToyNsa,       // ToyNSALlama: weighted or mean pooling before rotary
};

struct SpecialTokens {
  std::int32_t bos = -1;          // -1: none
  std::vector<std::int32_t> eos;  // any of them ends generation
  std::int32_t pad = -1;
};

struct TargetConfig {
  ModelFamily family = ModelFamily::kVersieveNsa;
  // "dense", or how compressed tokens are formed: "compress_before_rope", "compress_after_rope".
  std::string semantics;
  LlmShape shape;
  SpecialTokens special;
};

struct DraftConfig {
  DraftShape shape;
  bool has_vocab_map = false;  // the draft's vocabulary is smaller than the target's: d2t, t2d
};

// Throw Error(kBadInput): a missing, wrong or inconsistent field, or a feature that this engine
// does not compute (it is never ignored).
// `positions_if_absent`: max_position_embeddings of a Llama's config that leaves it out; what its
// configuration class has if none is given.
TargetConfig read_target_config(const std::filesystem::path& folder,
                                std::int64_t positions_if_absent = 2048);
// The same of a config.json that was kept elsewhere (`origin`, for errors); the shape has no name.
TargetConfig target_config_of(const nlohmann::json& document, const std::string& origin,
                              std::int64_t positions_if_absent = 2048);
// Whether a draft's folder holds a model of its own, to be read as a target, and not a head on the
// target's streams: architectures names a dense model's class and no key is an EAGLE head's
// (released heads name one too), or, without architectures, the weights have no fc.
bool is_draft_model(const std::filesystem::path& folder);
// By the configuration alone: a model's class is named and no key is a head's.
bool is_draft_model_config(const nlohmann::json& document, const std::string& origin);
// A draft model's shape: dense, of the target's vocabulary, and of its positions where its own are
// left out.
LlmShape read_draft_model(const std::filesystem::path& folder, const LlmShape& target);
LlmShape draft_model_of(const nlohmann::json& document, const std::string& origin,
                        const LlmShape& target);
DraftConfig read_draft_config(const std::filesystem::path& folder, const LlmShape& target);
DraftConfig draft_config_of(const nlohmann::json& document, const std::string& origin,
                            const LlmShape& target);

}  // namespace versieve::engine
