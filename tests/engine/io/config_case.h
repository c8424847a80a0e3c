// Configurations of models that are changed a key at a time, and what reading them says.
#pragma once

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "engine/io/atomic_file.h"
#include "engine/io/model_config.h"
#include "tests/support/errors.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_model.h"

namespace versieve::engine {

using namespace versieve::test;
using nlohmann::json;

inline json llama() {
  return json::parse(R"({"model_type": "llama", "hidden_size": 64, "intermediate_size": 96,
    "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 300,
    "rms_norm_eps": 1e-5, "rope_theta": 500000.0, "max_position_embeddings": 512,
    "tie_word_embeddings": true, "torch_dtype": "bfloat16", "hidden_act": "silu",
    "bos_token_id": 1, "eos_token_id": [2, 3]})");
}
inline json versieve_nsa() {
  json config = llama();
  config["model_type"] = "versieve-nsa";
  config["nsa"] = json::parse(R"({"semantics": "compress_before_rope", "pooling": "weighted",
    "cmp_block": 32, "cmp_stride": 16, "sel_block": 64, "sel_count": 16, "init_blocks": 1,
    "local_blocks": 2, "window": 512})");
  return config;
}

inline TargetConfig read(const json& config) {
  const TempFolder folder;
  write_file_atomically(folder / "config.json", config.dump());
  return read_target_config(folder.path());
}
inline std::string refusal(const json& config) {
  const Error error = error_of([&] { read(config); });
  CHECK(error.code() == ExitCode::kBadInput);
  return error.what();
}

inline LlmShape draft_target() {
  LlmShape shape = TinyModel().target;
  return shape;
}
inline json draft() {
  return json::parse(R"({"architectures": ["LlamaForCausalLMEagle3"], "model_type": "llama",
    "hidden_size": 32, "intermediate_size": 40, "num_attention_heads": 2, "num_key_value_heads": 1,
    "head_dim": 16, "num_hidden_layers": 1, "vocab_size": 272, "draft_vocab_size": 272,
    "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "sliding_window": 32,
    "max_position_embeddings": 4096, "eagle_config": {"eagle_aux_hidden_state_layer_ids": [0, 1, 3],
    "use_aux_hidden_state": true, "id_semantics": "entering_layer"}})");
}
inline DraftConfig read_draft(const json& config) {
  const TempFolder folder;
  write_file_atomically(folder / "config.json", config.dump());
  return read_draft_config(folder.path(), draft_target());
}
inline std::string draft_refusal(const json& config) {
  const Error error = error_of([&] { read_draft(config); });
  CHECK(error.code() == ExitCode::kBadInput);
  return error.what();
}

}  // namespace versieve::engine
