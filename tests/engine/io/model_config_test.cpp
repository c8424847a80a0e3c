// config.json of every family, both rope dialects, and each way in which a config can be wrong.
#include <catch2/catch.hpp>

#include "tests/engine/io/config_case.h"

using namespace versieve;
using namespace versieve::engine;
using namespace versieve::test;

TEST_CASE("a dense Llama config gives its geometry") {
  const TargetConfig config = read(llama());
  CHECK(config.family == ModelFamily::kLlama);
  CHECK(config.semantics == "dense");
  CHECK(config.shape.attention == AttentionKind::kDense);
  CHECK(config.shape.head_dim == 16);
  CHECK(config.shape.rope_theta == 500000.0);
  CHECK(config.special.bos == 1);
  CHECK(config.special.eos == std::vector<std::int32_t>{2, 3});
  CHECK(config.special.pad == -1);
}

TEST_CASE("both rope dialects and both dtype keys are read") {
  json config = llama();
  config.erase("rope_theta");
  config.erase("torch_dtype");
  config["dtype"] = "float32";
  config["rope_parameters"] = {{"rope_theta", 1234.5}, {"rope_type", "default"}};
  CHECK(read(config).shape.rope_theta == 1234.5);
  config["rope_theta"] = 99.0;
  CHECK(contains(refusal(config), "disagree"));
  config = llama();
  config["rope_scaling"] = nullptr;
  CHECK(read(config).shape.rope_theta == 500000.0);
  config.erase("rope_theta");
  CHECK(read(config).shape.rope_theta == 10000.0);
}

TEST_CASE("every form of rotary parameters that says the same is read the same") {
  const json def = {{"rope_type", "default"}};
  const auto with = [&](const json& extra) {
    json config = llama();
    config.erase("rope_theta");
    config.update(extra);
    return read(config).shape.rope_theta;
  };
  const double theta = 500000.0;
  CHECK(with({{"rope_theta", 500000}}) == theta);
  CHECK(with({{"rope_theta", 5e5}, {"rope_scaling", nullptr}}) == theta);
  CHECK(with({{"rope_theta", theta}, {"rope_scaling", {{"type", "default"}}}}) == theta);
  CHECK(with({{"rope_theta", theta}, {"rope_scaling", json::object()}}) == theta);
  CHECK(with({{"rope_theta", theta}, {"rope_parameters", nullptr}}) == theta);
  CHECK(with({{"rope_theta", theta}, {"rope_parameters", def}}) == theta);
  CHECK(with({{"rope_theta", theta}, {"rope_parameters", {{"rope_theta", 500000}}}}) == theta);
  CHECK(with({{"rope_parameters", {{"rope_type", "default"}, {"rope_theta", 5e5}}}}) == theta);
  CHECK(with({{"rope_parameters", def}}) == 10000.0);
  CHECK(with(json::object()) == 10000.0);
}

TEST_CASE("rotary parameters that contradict each other are refused by both names") {
  json config = llama();
  config["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", 10000.0}};
  CHECK(contains(refusal(config), "rope_parameters.rope_theta 10000.0 and rope_theta 500000.0"));
  config = llama();
  config["rope_scaling"] = {{"rope_theta", 10000.0}};
  CHECK(contains(refusal(config), "rope_scaling.rope_theta 10000.0 and rope_theta 500000.0"));
  config = llama();
  config["rope_parameters"] = {{"rope_type", "default"}, {"type", "yarn"}};
  CHECK(contains(refusal(config), "rope_type 'default' and type 'yarn' disagree"));
  config["rope_parameters"] = {{"full_attention", {{"rope_theta", 10000.0}}}};
  CHECK(contains(refusal(config), "'full_attention' has parameters of its own"));
  config["rope_parameters"] = {{"rope_theta", "5e5"}};
  CHECK(contains(refusal(config), "rope_theta must be a positive number"));
}

TEST_CASE("what libraries write into a config in other words is read") {
  const json plain = llama();
  const LlmShape shape = read(plain).shape;
  const std::pair<const char*, json> harmless[] = {
      {"sliding_window", nullptr},
      {"sliding_window", false},
      {"sliding_window", 512},
      {"use_sliding_window", false},
      {"head_dim", nullptr},
      {"architectures", nullptr},
      {"torch_dtype", nullptr},
      {"torch_dtype", "torch.bfloat16"},
      {"dtype", "auto"},
      {"hidden_size", 64.0},
      {"num_attention_heads", 4.0},
      {"vocab_size", 3e2},
      {"pad_token_id", -1},
      {"pad_token_id", 300},
      {"eos_token_id", {2.0, 3}},
      {"layer_types", {"full_attention", "full_attention"}},
      {"quantization_config", nullptr},
      {"my_own_key", {{"a", 1}}}};
  for (const auto& [key, value] : harmless) {
    CAPTURE(key, value.dump());
    json config = plain;
    config[key] = value;
    const TargetConfig other = read(config);
    CHECK(other.shape.hidden == shape.hidden);
    CHECK(other.shape.head_dim == shape.head_dim);
    CHECK(other.shape.vocab == shape.vocab);
    CHECK(other.special.eos == std::vector<std::int32_t>{2, 3});
    CHECK(other.special.pad == -1);
  }
  json config = plain;
  config["sliding_window"] = 128;
  config["use_sliding_window"] = false;
  CHECK(read(config).shape.hidden == 64);
  config["use_sliding_window"] = true;
  CHECK(contains(refusal(config), "sliding_window 128 is not supported"));
  config = plain;
  config["layer_types"] = {"full_attention", "sliding_attention"};
  CHECK(contains(refusal(config), "layer_types holds \"sliding_attention\""));
  config = plain;
  config.erase("num_key_value_heads");
  CHECK(read(config).shape.num_kv_heads == 4);
  config.erase("max_position_embeddings");
  CHECK(read(config).shape.max_position == 2048);  // as the configuration class has it
  config["eos_token_id"] = nullptr;
  CHECK(read(config).special.eos.empty());
  for (const json& wrong : {json(-2), json(2.5), json({2, 2.5}), json({2, nullptr}), json("2")}) {
    config["eos_token_id"] = wrong;
    CHECK(contains(refusal(config), "eos_token_id"));
  }
}

TEST_CASE("rope scaling, biases and other features are refused, not ignored") {
  const std::pair<const char*, json> features[] = {
      {"rope_scaling", {{"rope_type", "dynamic"}, {"factor", 8.0}}},
      {"rope_scaling", {{"type", "longrope"}, {"factor", 8.0}}},
      {"rope_parameters", {{"rope_theta", 500000.0}, {"rope_type", "mrope"}}},
      {"rope_parameters", {{"rope_type", "yarn"}, {"factor", 2.0}, {"attn_factor", 0.5}}},
      {"no_rope_layers", {1, 0}},
      {"attention_bias", true},
      {"mlp_bias", true},
      {"sliding_window", 128},
      {"hidden_act", "gelu"},
      {"partial_rotary_factor", 0.5},
      {"torch_dtype", "int8"},
      {"quantization_config", {{"bits", 4}}}};
  for (const auto& [key, value] : features) {
    CAPTURE(key);
    json config = llama();
    config[key] = value;
    CHECK(contains(refusal(config), "not supported"));
  }
  json config = llama();
  config["quantization_config"] = {{"modules_to_not_convert", json(1000, "lm_head")}};
  const std::string shown = refusal(config);  // its beginning
  CHECK(contains(shown, "quantization_config is {\"modules_to_not_convert\":"));
  CHECK(shown.size() < 300);
}

TEST_CASE("every number of a config must be there, positive and consistent") {
  for (const char* key : {"hidden_size", "intermediate_size", "num_hidden_layers",
                          "num_attention_heads", "vocab_size"}) {
    CAPTURE(key);
    json config = llama();
    config.erase(key);
    CHECK(contains(refusal(config), std::string(key) + " is missing"));
    for (const json& wrong : {json(0), json(-4), json(2.5), json("64"), json(1e12), json(true)}) {
      config[key] = wrong;
      CHECK(contains(refusal(config), key));
    }
  }
  json config = llama();
  config["max_position_embeddings"] = 0;
  CHECK(contains(refusal(config), "max_position_embeddings"));
  config = versieve_nsa();
  config.erase("max_position_embeddings");
  CHECK(contains(refusal(config), "max_position_embeddings is missing"));
  config = llama();
  config["num_key_value_heads"] = 3;
  CHECK(contains(refusal(config), "must divide"));
  config = llama();
  config["hidden_size"] = 66;
  CHECK(contains(refusal(config), "no multiple"));
  config = llama();
  config["head_dim"] = 15;
  CHECK(contains(refusal(config), "even"));
  config = llama();
  config["rms_norm_eps"] = -1e-5;
  CHECK(contains(refusal(config), "rms_norm_eps"));
  config = llama();
  config["eos_token_id"] = 300;
  CHECK(contains(refusal(config), "not in the vocabulary"));
  config = llama();
  config["num_hidden_layers"] = 2000000000;
  CHECK(contains(refusal(config), "beyond any model"));
  config = llama();
  config["tie_word_embeddings"] = "yes";
  CHECK(contains(refusal(config), "true or false"));
  config = llama();
  config["model_type"] = "gpt2";
  CHECK(contains(refusal(config), "'gpt2' is not supported"));
}

TEST_CASE("this project's NSA config gives its geometry and refuses other semantics") {
  const TargetConfig config = read(versieve_nsa());
  CHECK(config.semantics == "compress_before_rope");
  CHECK(config.shape.nsa == NsaGeometry{});
  CHECK(config.shape.pooling == CompressPooling::kWeighted);
  json wrong = versieve_nsa();
  wrong["nsa"]["pooling"] = "linear";
  CHECK(contains(refusal(wrong), "'linear' is not supported"));
  wrong = versieve_nsa();
  wrong["nsa"]["semantics"] = "compress_after_rope";
  CHECK(contains(refusal(wrong), "not supported"));
  wrong = versieve_nsa();
  wrong["nsa"]["cmp_stride"] = 24;
  CHECK(contains(refusal(wrong), "cmp_stride must divide"));
  wrong = versieve_nsa();
  wrong["nsa"]["sel_count"] = 2;
  CHECK(contains(refusal(wrong), "sel_count"));
  wrong = versieve_nsa();
  wrong.erase("nsa");
  CHECK(contains(refusal(wrong), "nsa is missing"));
}

TEST_CASE("the llama-nsa family pools rotated keys in blocks that do not overlap") {
  json config = llama();
  config["model_type"] = "llama-nsa";
  config["block_size"] = 16;
  config["block_counts"] = 16;
  config["window_size"] = 128;
  const TargetConfig read_back = read(config);
  CHECK(read_back.semantics == "compress_after_rope");
  CHECK(read_back.shape.pooling == CompressPooling::kMean);
  CHECK(read_back.shape.compress_stage == CompressStage::kAfterRope);
  CHECK(read_back.shape.nsa == NsaGeometry{16, 16, 16, 16, 0, 1, 128});
  config["window_size"] = 0;  // no such branch
  CHECK(read(config).shape.nsa == NsaGeometry{16, 16, 16, 16, 0, 1, 0});
  config["window_size"] = -1;
  CHECK(contains(refusal(config), "window_size"));
}

TEST_CASE("rotary scalings are read in both spellings") {
  const json llama3 = {{"rope_type", "llama3"},
                       {"factor", 8.0},
                       {"low_freq_factor", 1.0},
                       {"high_freq_factor", 4.0},
                       {"original_max_position_embeddings", 8192}};
  const RopeScaling expected{
      .kind = RopeKind::kLlama3, .factor = 8.0, .original_positions = 8192.0};
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    CAPTURE(key);
    json config = llama();
    config[key] = llama3;
    CHECK(read(config).shape.rope == expected);
    CHECK(read(config).shape.rope_theta == 500000.0);
    config[key].erase("original_max_position_embeddings");
    CHECK(read(config).shape.rope.original_positions == 512.0);
    config["original_max_position_embeddings"] = 128;
    CHECK(read(config).shape.rope.original_positions == 128.0);
    config[key]["type"] = config[key]["rope_type"];
    config[key].erase("rope_type");
    CHECK(read(config).shape.rope.kind == RopeKind::kLlama3);
    for (const char* needed : {"factor", "low_freq_factor", "high_freq_factor"}) {
      json lacking = config;
      lacking[key].erase(needed);
      CHECK(contains(refusal(lacking), std::string(needed) + " is missing"));
      lacking[key][needed] = -1.0;
      CHECK(contains(refusal(lacking), "must be a positive number"));
    }
    config[key] = llama3;
    config[key]["high_freq_factor"] = 1.0;
    CHECK(contains(refusal(config), "high_freq_factor must be above low_freq_factor"));
    config[key] = {{"type", "linear"}, {"factor", 4}};
    CHECK(read(config).shape.rope == RopeScaling{.kind = RopeKind::kLinear, .factor = 4.0});
  }
  json config = llama();
  config["rope_scaling"] = {{"type", "linear"}, {"factor", 4}};
  config["rope_parameters"] = {{"rope_type", "linear"}, {"factor", 4}};
  CHECK(read(config).shape.rope.factor == 4.0);
  config["rope_parameters"]["factor"] = 2;
  CHECK(contains(refusal(config), "rope_parameters and rope_scaling disagree"));
}

TEST_CASE("yarn's attention factor is stated, or follows from the factor or both mscales") {
  json config = llama();
  json& rope = config["rope_scaling"];
  rope = {{"rope_type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 128}};
  const RopeScaling plain = read(config).shape.rope;
  CHECK(plain.attention_factor == Approx(1.1386294361));
  CHECK(plain.beta_fast == 32.0);
  CHECK(plain.beta_slow == 1.0);
  CHECK(plain.truncates);
  rope["mscale"] = 0.707;  // alone it counts for nothing
  CHECK(read(config).shape.rope.attention_factor == plain.attention_factor);
  rope["mscale_all_dim"] = 0;
  CHECK(read(config).shape.rope.attention_factor == plain.attention_factor);
  rope["mscale_all_dim"] = 0.707;
  CHECK(read(config).shape.rope.attention_factor == 1.0);
  rope["attention_factor"] = 1.5;
  CHECK(read(config).shape.rope.attention_factor == 1.5);
  rope.erase("factor");  // the positions' own ratio
  CHECK(read(config).shape.rope.factor == 4.0);
  rope["beta_fast"] = 1.0;
  CHECK(contains(refusal(config), "beta_fast must be above beta_slow"));
}

TEST_CASE("the other dense families have the defaults of their configuration classes") {
  json config = llama();
  config["max_position_embeddings"] = 8192;
  const auto as = [&](const char* type) {
    config["model_type"] = type;
    return read(config).shape;
  };
  CHECK(as("mistral").dense_layers == std::vector<DenseLayer>(2, {.window = 4096}));
  CHECK(as("mistral").has_windows());
  CHECK(!as("mistral").qkv_bias);
  CHECK(as("qwen2").dense_layers.empty());
  CHECK(as("qwen2").qkv_bias);
  CHECK(!as("qwen2").qk_norm);
  CHECK(as("qwen3").qk_norm);
  CHECK(as("qwen3").head_dim == 128);
  CHECK(as("smollm3").dense_layers.empty());  // of two layers neither is the fourth
  config.erase("max_position_embeddings");
  CHECK(as("mistral").max_position == 131072);
  CHECK(as("qwen2").max_position == 32768);
  config.erase("rope_theta");
  CHECK(as("smollm3").rope_theta == 2e6);
  CHECK(as("qwen3").rope_theta == 10000.0);
  config.erase("tie_word_embeddings");
  CHECK(as("smollm3").tied_embeddings);
  CHECK(!as("qwen3").tied_embeddings);
  config["num_key_value_heads"] = nullptr;
  CHECK(as("qwen3").num_kv_heads == 4);
  config.erase("num_key_value_heads");  // a Mistral then has 8, of 4 heads
  config["model_type"] = "mistral";
  CHECK(contains(refusal(config), "num_key_value_heads must divide"));
}

TEST_CASE("windows follow the rules of each family") {
  json config = llama();
  const auto windows = [&] {
    std::vector<std::int64_t> out;
    for (const DenseLayer& layer : read(config).shape.dense_layers) {
      out.push_back(layer.window);
    }
    return out;
  };
  using Windows = std::vector<std::int64_t>;
  config["model_type"] = "mistral";
  config["sliding_window"] = 128;
  CHECK(windows() == Windows{128, 128});
  config["sliding_window"] = 512;  // as wide as the positions
  CHECK(windows().empty());
  config["sliding_window"] = nullptr;
  CHECK(windows().empty());
  config["sliding_window"] = 128;
  config["layer_types"] = {"sliding_attention", "full_attention"};
  CHECK(contains(refusal(config), "every layer of a Mistral"));
  for (const char* type : {"qwen2", "qwen3"}) {
    CAPTURE(type);
    config = llama();
    config["model_type"] = type;
    config["sliding_window"] = 128;
    config["max_window_layers"] = 1;
    CHECK(windows().empty());  // not in use
    config["use_sliding_window"] = true;
    CHECK(windows() == Windows{0, 128});
    config["max_window_layers"] = 2;
    CHECK(windows().empty());
    config["layer_types"] = {"sliding_attention", "full_attention"};
    CHECK(windows() == Windows{128, 0});
    config["use_sliding_window"] = false;
    CHECK(contains(refusal(config), "no sliding_window is in use"));
    config["layer_types"] = {"sliding_attention"};
    CHECK(contains(refusal(config), "one entry a layer"));
    config["layer_types"] = {"chunked_attention", "full_attention"};
    CHECK(contains(refusal(config), "chunked_attention"));
  }
}

TEST_CASE("layers without rotary are those that the list or the interval names") {
  json config = llama();
  config["model_type"] = "smollm3";
  config["no_rope_layer_interval"] = 2;
  const std::vector<DenseLayer> second = {{.turns = true}, {.turns = false}};
  CHECK(read(config).shape.dense_layers == second);
  config["no_rope_layers"] = {1, 0};
  CHECK(read(config).shape.dense_layers == second);
  config["use_sliding_window"] = true;
  config["sliding_window"] = 64;  // of layers without rotary, where no list says which
  CHECK(read(config).shape.dense_layers ==
        std::vector<DenseLayer>{{.turns = true}, {.window = 64, .turns = false}});
  config["no_rope_layers"] = {1, 2};
  CHECK(contains(refusal(config), "no_rope_layers holds 2"));
  config["no_rope_layers"] = {1};
  CHECK(contains(refusal(config), "one entry a layer"));
}

TEST_CASE("biases and norms that a family always has are no feature that is missing") {
  json config = llama();
  config["model_type"] = "qwen2";
  config["attention_bias"] = true;
  CHECK(read(config).shape.qkv_bias);
  config["model_type"] = "qwen3";
  CHECK(contains(refusal(config), "attention_bias is true, which is not supported"));
  config["attention_bias"] = false;
  config["use_qk_norm"] = true;
  CHECK(read(config).shape.qk_norm);
  config["model_type"] = "mistral";
  CHECK(contains(refusal(config), "use_qk_norm is true"));
}

TEST_CASE("the flash-linear-attention family has its own keys for the same semantics") {
  const json config = json::parse(R"({"model_type": "nsa", "hidden_size": 1024,
    "num_hidden_layers": 2, "num_heads": 64, "num_kv_heads": 4, "head_dim": 64, "hidden_ratio": 4,
    "vocab_size": 300, "norm_eps": 1e-6, "hidden_act": "swish", "max_position_embeddings": 4096,
    "block_size": 64, "block_counts": 16, "window_size": 512, "tie_word_embeddings": false})");
  const TargetConfig read_back = read(config);
  CHECK(read_back.family == ModelFamily::kFlaNsa);
  CHECK(read_back.shape.intermediate == 2816);  // 2/3 of 4 * 1024, rounded up to 256
  CHECK(read_back.shape.nsa == NsaGeometry{64, 64, 64, 16, 0, 1, 512});
}

TEST_CASE("the ToyNSALlama family counts its window without the query's own token") {
  json config = llama();
  config.erase("model_type");
  config.update(json::parse(R"({"compress_type": "weightedpool", "kernel_size": 32,
    "kernel_stride": 16, "block_size": 64, "topk": 16, "init_blocks": 1, "local_blocks": 2,
    "window_size": 512})"));
  const TargetConfig read_back = read(config);
  CHECK(read_back.family == ModelFamily::kToyNsa);
  CHECK(read_back.semantics == "compress_before_rope");
  CHECK(read_back.shape.nsa == NsaGeometry{32, 16, 64, 16, 1, 2, 513});
  config["compress_type"] = "avgpool";
  CHECK(read(config).shape.pooling == CompressPooling::kMean);
  config["compress_type"] = "linear";
  CHECK(contains(refusal(config), "'linear' is not supported"));
}
