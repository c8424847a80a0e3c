// Models of other code and other forms: what they ask for beyond the families that are read is
// refused by its key, and what is given in a folder's place by what it is.
#include <catch2/catch.hpp>
#include <fstream>
#include <nlohmann/json.hpp>

#include "engine/io/atomic_file.h"
#include "engine/io/checkpoint.h"
#include "engine/io/model_config.h"
#include "engine/io/pair_identity.h"
#include "tests/support/errors.h"
#include "tests/support/temp_folder.h"

using namespace versieve;
using namespace versieve::engine;
using namespace versieve::test;
using nlohmann::json;

namespace {

json llama() {
  return json::parse(R"({"model_type": "llama", "hidden_size": 64, "intermediate_size": 96,
    "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 300, "rms_norm_eps": 1e-5,
    "max_position_embeddings": 512})");
}

json with(const char* key, const json& value) {
  json config = llama();
  config[key] = value;
  return config;
}

void check_taken(const json& config) {
  CAPTURE(config.dump());
  CHECK_NOTHROW(target_config_of(config, "config.json", 0));
}

std::string refusal(const json& config) {
  const Error error = error_of([&] { target_config_of(config, "config.json", 0); });
  CHECK(error.code() == ExitCode::kBadInput);
  return error.what();
}

std::string refusal_of(const std::filesystem::path& path) {
  const Error error = error_of([&] { load_target(path); });
  CHECK(error.code() == ExitCode::kBadInput);
  CHECK(error_of([&] { pair_identity(path); }).what() == std::string(error.what()));
  return error.what();
}

}  // namespace

TEST_CASE("what models of other code cap, scale, route or pack is refused by its key") {
  check_taken(llama());
  const std::vector<std::pair<const char*, json>> asked = {
      {"attn_logit_softcapping", 50.0},
      {"final_logit_softcapping", 30},
      {"logit_softcap", 15.0},
      {"clip_qkv", 8.0},
      {"attention_chunk_size", 8192},
      {"embedding_multiplier", 12.0},
      {"residual_multiplier", 0.22},
      {"logits_scaling", 8.0},
      {"logit_scale", 0.0625},
      {"scale_emb", 12},
      {"num_experts", 128},
      {"num_local_experts", 8},
      {"n_routed_experts", 64},
      {"kv_lora_rank", 512},
      {"q_lora_rank", 1536},
      {"use_bidirectional_attention", true},
      {"quantization", {{"bits", 4}}},
      {"compression_config", {{"format", "int-quantized"}}}};
  for (const auto& [key, value] : asked) {
    CAPTURE(key);
    const std::string sentence = refusal(with(key, value));
    CHECK(contains(sentence, std::string(key) + " is "));
    CHECK(contains(sentence, "not supported"));
    check_taken(with(key, nullptr));
    check_taken(with(key, false));
  }
  for (const char* key : {"embedding_multiplier", "residual_multiplier", "logits_scaling"}) {
    check_taken(with(key, 1.0));
    check_taken(with(key, 1));
  }
  check_taken(with("num_experts", 0));
  CHECK(contains(refusal(with("is_causal", false)), "is_causal"));
  check_taken(with("is_causal", true));
  CHECK(contains(refusal(with("hidden_activation", "gelu_pytorch_tanh")), "hidden_activation"));
  check_taken(with("hidden_activation", "silu"));
}

TEST_CASE("scores that are scaled otherwise than by the width of a head are refused") {
  check_taken(with("query_pre_attn_scalar", 16));
  CHECK(contains(refusal(with("query_pre_attn_scalar", 144)), "root of head_dim, 16"));
  check_taken(with("attention_multiplier", 0.25));
  CHECK(contains(refusal(with("attention_multiplier", 0.0078125)), "attention_multiplier"));
}

TEST_CASE("what is given in a model's place is named by what it is") {
  const TempFolder folder;
  write_file_atomically(folder / "a.gguf", "GGUF and more");
  CHECK(contains(refusal_of(folder / "a.gguf"), "it is a GGUF file"));
  write_file_atomically(folder / "model.safetensors", "x");
  CHECK(contains(refusal_of(folder / "model.safetensors"), "give the folder that holds it"));
  CHECK(contains(refusal_of(folder / "none"), "none is not a model directory"));
  CHECK(contains(refusal_of("/dev/null"), "is not a model directory"));
  const auto holding = [&](const std::string& name, const std::string& file,
                           const char* text = "{}") {
    std::filesystem::create_directory(folder / name);
    write_file_atomically(folder / name / file, text);
    return refusal_of(folder / name);
  };
  CHECK(contains(holding("lora", "adapter_config.json"), "an adapter, which has to be merged"));
  CHECK(contains(holding("original", "params.json"), "params.json"));
  CHECK(contains(holding("gguf", "some-Q4_K_M.gguf", "GGUF"), "the GGUF file some-Q4_K_M.gguf"));
  CHECK(contains(holding("other", "notes.txt"), "it holds no config.json"));
}
