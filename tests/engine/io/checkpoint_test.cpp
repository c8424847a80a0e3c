// Model directories: every family's names, shards, missing and unknown tensors, drafts.
#include <catch2/catch.hpp>
#include <cmath>

#include "tests/engine/io/checkpoint_case.h"

using namespace versieve;
using namespace versieve::engine;
using namespace versieve::test;

TEST_CASE("a target loads from one file, from shards and from any float type") {
  for (const StorageType storage : {StorageType::kBf16, StorageType::kF32, StorageType::kF64}) {
    for (const int shards : {1, 4}) {
      CAPTURE(name_of(storage), shards);
      const TempFolder folder;
      TinyModel model;
      model.storage = storage;
      model.shards = shards;
      write_tiny_target(folder.path(), model);
      const Checkpoint checkpoint = load_target(folder.path());
      CHECK(checkpoint.semantics == "compress_before_rope");
      CHECK(checkpoint.shape.nsa == model.target.nsa);
      CHECK(checkpoint.special.eos == std::vector<std::int32_t>{257});
      check_same_weights(checkpoint.weights, tiny_target_weights(model));
      const std::string name = layer_name(1, "self_attn.q_proj.weight");
      const std::vector<double> wide = checkpoint.weights.values<double>(name);
      const std::vector<float> narrow = checkpoint.weights.values<float>(name);
      REQUIRE(wide.size() == 64 * 32);
      CHECK(static_cast<float>(wide[7]) == narrow[7]);
    }
  }
}

TEST_CASE("a checkpoint outlives the files and folders it came from") {
  Checkpoint checkpoint;
  TinyModel model;
  model.shards = 3;
  {
    const TempFolder folder;
    write_tiny_target(folder.path(), model);
    checkpoint = load_target(folder.path());
  }
  check_same_weights(checkpoint.weights, tiny_target_weights(model));
}

TEST_CASE("a dense target has no NSA tensors") {
  const TempFolder folder;
  TinyModel model;
  model.target.attention = AttentionKind::kDense;
  model.target.tied_embeddings = false;
  write_tiny_target(folder.path(), model);
  const Checkpoint checkpoint = load_target(folder.path());
  CHECK(checkpoint.semantics == "dense");
  CHECK(checkpoint.weights.has("lm_head.weight"));
  CHECK(!checkpoint.weights.has(layer_name(0, "self_attn.g_proj.weight")));
}

TEST_CASE("missing, unknown and misshapen tensors are refused by name") {
  const TempFolder folder;
  const TinyModel model;
  write_tiny_target(folder.path(), model);
  const fs::path file = folder / "model.safetensors";
  TensorSet set = tiny_target_weights(model);
  set.tensors.erase("model.layers.2.self_attn.compress_value");
  write_safetensors(file, set);
  CHECK(contains(target_refusal(folder.path()),
                 "'model.layers.2.self_attn.compress_value' is missing"));
  set = tiny_target_weights(model);
  set.tensors["model.layers.3.mlp.up_proj.weight"] =
      set.tensors["model.layers.2.mlp.up_proj.weight"];
  write_safetensors(file, set);
  CHECK(contains(target_refusal(folder.path()),
                 "'model.layers.3.mlp.up_proj.weight' is not part of"));
  set = tiny_target_weights(model);
  set.tensors["model.layers.0.self_attn.q_proj.bias"] = tensor_of(std::vector<float>(64), {64});
  write_safetensors(file, set);
  CHECK(contains(target_refusal(folder.path()), "q_proj.bias' is not part of"));
  set = tiny_target_weights(model);
  set.tensors["model.norm.weight"].shape = {32, 1};
  write_safetensors(file, set);
  CHECK(contains(
      target_refusal(folder.path()),
      "'model.norm.weight' has the shape [32, 1], but the config asks for [32]: hidden_size"));
  set = tiny_target_weights(model);
  set.tensors["model.layers.1.self_attn.k_proj.weight"] =
      set.tensors["model.layers.1.self_attn.q_proj.weight"];
  write_safetensors(file, set);
  CHECK(contains(target_refusal(folder.path()),
                 "[64, 32], but the config asks for [32, 32]: num_key_value_heads x head_dim"));
  set = tiny_target_weights(model);
  set.tensors["model.norm.weight"] = tensor_of(std::vector<std::int32_t>(32), {32});
  write_safetensors(file, set);
  CHECK(contains(target_refusal(folder.path()), "is stored as I32"));
}

TEST_CASE("weights that are no finite numbers are refused by tensor and element") {
  for (const StorageType storage :
       {StorageType::kF64, StorageType::kF32, StorageType::kF16, StorageType::kBf16}) {
    const std::int64_t bytes = bits_of(storage) / 8;
    // The highest bytes of -infinity and of a NaN, and of the largest numbers.
    const std::uint8_t half = storage == StorageType::kF16 ? 0x7c : 0x7f;
    const std::uint8_t next = storage == StorageType::kF16   ? 0x00
                              : storage == StorageType::kF64 ? 0xf0
                                                             : 0x80;
    std::vector<std::byte> raw(static_cast<std::size_t>(5001 * bytes));
    const TensorView view{.type = storage, .shape = {3, 1667}, .bytes = raw};
    CHECK(first_not_finite(view) == -1);
    const auto set = [&](std::int64_t element, std::uint8_t high, std::uint8_t low) {
      raw[static_cast<std::size_t>((element + 1) * bytes - 1)] = std::byte{high};
      raw[static_cast<std::size_t>((element + 1) * bytes - 2)] = std::byte{low};
    };
    CAPTURE(name_of(storage));
    set(7, static_cast<std::uint8_t>(half - (next == 0 ? 1 : 0)),
        static_cast<std::uint8_t>(next - 1));  // a large number
    CHECK(first_not_finite(view) == -1);
    set(5000, half, static_cast<std::uint8_t>(next | 1));  // NaN
    CHECK(first_not_finite(view) == 5000);
    set(4321, static_cast<std::uint8_t>(half | 0x80), next);  // -infinity
    CHECK(first_not_finite(view) == 4321);
  }
  const TempFolder folder;
  TinyModel model;
  model.storage = StorageType::kF32;
  write_tiny_target(folder.path(), model);
  TensorSet set = tiny_target_weights(model);
  const float nan = std::nanf("");
  std::memcpy(set.tensors.at("model.norm.weight").bytes.data() + 4, &nan, 4);
  write_safetensors(folder / "model.safetensors", set);
  CHECK(contains(target_refusal(folder.path()),
                 "tensor 'model.norm.weight' holds NaN or an infinity (its element 1)"));
}

TEST_CASE("what cannot be looked at is not there, and other formats are named") {
  const TempFolder folder;
  CHECK(contains(target_refusal(folder / std::string(300, 'y')), "is not a model directory"));
  TinyModel model;
  model.shards = 4;
  write_tiny_target(folder.path(), model);
  std::vector<fs::path> shards;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder.path())) {
    if (entry.path().extension() == ".safetensors") {
      shards.push_back(entry.path());
    }
  }
  std::sort(shards.begin(), shards.end());
  fs::remove(shards[1]);
  fs::create_symlink(shards[1].filename(), shards[1]);  // to itself
  CHECK(contains(target_refusal(folder.path()), "which is not there"));
  for (const fs::path& shard : shards) {
    fs::remove(shard);
  }
  fs::remove(folder / "model.safetensors.index.json");
  write_file_atomically(folder / "model-q4.gguf", "GGUF");
  write_file_atomically(folder / "a.pt", "");
  CHECK(contains(target_refusal(folder.path()), "model-q4.gguf is not read"));
}

TEST_CASE("a stored head beside tied embeddings must be the embedding") {
  const TempFolder folder;
  const TinyModel model;
  write_tiny_target(folder.path(), model);
  TensorSet set = tiny_target_weights(model);
  set.tensors["lm_head.weight"] = set.tensors["model.embed_tokens.weight"];
  write_safetensors(folder / "model.safetensors", set);
  CHECK(!load_target(folder.path()).weights.has("lm_head.weight"));
  set.tensors["lm_head.weight"].bytes[0] ^= std::byte{1};
  write_safetensors(folder / "model.safetensors", set);
  CHECK(contains(target_refusal(folder.path()), "is not the embedding"));
}

TEST_CASE("of tied weights either name may be stored, of untied ones both must be") {
  const TempFolder folder;
  TinyModel model;
  write_tiny_target(folder.path(), model);
  TensorSet set = tiny_target_weights(model);
  rename(set, "model.embed_tokens.weight", "lm_head.weight");
  write_safetensors(folder / "model.safetensors", set);
  check_same_weights(load_target(folder.path()).weights, tiny_target_weights(model));
  json config = read_json(folder / "config.json");
  for (const json& untied : {json(false), json(nullptr)}) {
    config["tie_word_embeddings"] = untied;
    write_json(folder / "config.json", config);
    write_safetensors(folder / "model.safetensors", tiny_target_weights(model));
    CHECK(contains(target_refusal(folder.path()),
                   "'lm_head.weight' is missing, and tie_word_embeddings is not true"));
  }
}

TEST_CASE("a wrong shard index is refused") {
  const TempFolder folder;
  TinyModel model;
  model.shards = 2;
  write_tiny_target(folder.path(), model);
  const fs::path path = folder / "model.safetensors.index.json";
  const json index = read_json(path);
  for (const char* name : {"../model-1.safetensors", "/etc/passwd", "a\\b", "..", "", "."}) {
    CAPTURE(name);
    json wrong = index;
    wrong["weight_map"]["model.norm.weight"] = name;
    write_json(path, wrong);
    CHECK(contains(target_refusal(folder.path()), "no plain file name"));
  }
  json wrong = index;
  wrong["weight_map"]["model.extra.weight"] = "model-1.safetensors";
  write_json(path, wrong);
  CHECK(contains(target_refusal(folder.path()), "which does not hold it"));
  wrong = index;
  wrong["weight_map"].erase("model.norm.weight");
  write_json(path, wrong);
  CHECK(contains(target_refusal(folder.path()), "does not map tensor 'model.norm.weight'"));
  wrong = index;
  wrong["weight_map"]["model.norm.weight"] = "model-9.safetensors";
  write_json(path, wrong);
  CHECK(contains(target_refusal(folder.path()),
                 "maps tensor 'model.norm.weight' to model-9.safetensors, which is not there"));
  wrong = index;
  wrong.erase("weight_map");
  write_json(path, wrong);
  CHECK(contains(target_refusal(folder.path()), "no weight_map"));
  fs::remove(path);
  fs::remove(folder / "model-1.safetensors");
  fs::remove(folder / "model-2.safetensors");
  CHECK(contains(target_refusal(folder.path()), "holds neither"));
  std::ofstream(folder / "pytorch_model.bin") << "pickle";
  CHECK(contains(target_refusal(folder.path()), "pytorch_model.bin is not read"));
}

TEST_CASE("files without an index are read together, if all that their names count are there") {
  const TempFolder folder;
  TinyModel model;
  model.shards = 3;
  write_tiny_target(folder.path(), model);
  fs::remove(folder / "model.safetensors.index.json");
  std::ofstream(folder / "consolidated.safetensors") << "another layout's";
  const Checkpoint checkpoint = load_target(folder.path());
  check_same_weights(checkpoint.weights, tiny_target_weights(model));
  REQUIRE(checkpoint.remarks.size() == 1);
  CHECK(contains(checkpoint.remarks[0], "has no model.safetensors.index.json"));
  for (const int i : {1, 2, 3}) {
    const std::string number = std::to_string(i);
    fs::rename(folder / ("model-" + number + ".safetensors"),
               folder / ("weights-0000" + number + "-of-00003.safetensors"));
  }
  check_same_weights(load_target(folder.path()).weights, tiny_target_weights(model));
  fs::remove(folder / "weights-00002-of-00003.safetensors");
  CHECK(contains(target_refusal(folder.path()), "but not weights-00002-of-00003.safetensors"));
}

TEST_CASE("an index's total decides nothing: the shards say what they hold") {
  const TempFolder folder;
  TinyModel model;
  model.shards = 2;
  write_tiny_target(folder.path(), model);
  const fs::path path = folder / "model.safetensors.index.json";
  const json index = read_json(path);
  const std::int64_t total = index.at("metadata").at("total_size").get<std::int64_t>();
  const json metadata[] = {index["metadata"],
                           nullptr,
                           json::object(),
                           "none",
                           {{"total_size", static_cast<double>(total)}, {"total_parameters", 9}}};
  for (const json& fine : metadata) {
    CAPTURE(fine.dump());
    json other = index;
    other["metadata"] = fine;
    write_json(path, other);
    CHECK(load_target(folder.path()).remarks.empty());
  }
  for (const json& off : {json(17), json(-1), json(std::to_string(total)), json(nullptr),
                          json(static_cast<double>(total) + 0.5)}) {
    CAPTURE(off.dump());
    json other = index;
    other["metadata"]["total_size"] = off;
    write_json(path, other);
    const Checkpoint checkpoint = load_target(folder.path());
    check_same_weights(checkpoint.weights, tiny_target_weights(model));
    REQUIRE(checkpoint.remarks.size() == 1);
    CHECK(contains(checkpoint.remarks[0], "total_size " + off.dump()));
  }
}

TEST_CASE("rotary frequencies that a checkpoint stores are checked and passed over") {
  const TempFolder folder;
  const TinyModel model;
  write_tiny_target(folder.path(), model);
  const auto with = [&](double theta, std::int64_t count, bool narrow) {
    TensorSet set = tiny_target_weights(model);
    std::vector<float> wide;
    std::vector<Bf16> bf16;
    for (std::int64_t i = 0; i < count; ++i) {
      wide.push_back(static_cast<float>(std::pow(theta, -2.0 * static_cast<double>(i) / 16.0)));
      bf16.push_back(to_bf16(wide.back()));
    }
    for (const char* name :
         {"model.layers.0.self_attn.rotary_emb.inv_freq", "model.rotary_emb.inv_freq"}) {
      set.tensors[name] = narrow ? tensor_of(bf16, {count}) : tensor_of(wide, {count});
    }
    write_safetensors(folder / "model.safetensors", set);
  };
  for (const bool narrow : {false, true}) {
    with(10000.0, 8, narrow);
    const Checkpoint checkpoint = load_target(folder.path());
    check_same_weights(checkpoint.weights, tiny_target_weights(model));
    CHECK(checkpoint.remarks.empty());
    with(500000.0, 8, narrow);
    const std::string sentence = target_refusal(folder.path());
    CHECK(contains(sentence, "rotary_emb.inv_freq' holds"));
    CHECK(contains(sentence, "rope_theta 10000"));
    CHECK((contains(sentence, "about 500000") || narrow));
  }
  with(10000.0, 16, false);
  CHECK(contains(target_refusal(folder.path()), "the shape [16], but head_dim asks for [8]"));
}

TEST_CASE("buffers and empty tensors are passed over with a remark, biases are not") {
  const TempFolder folder;
  const TinyModel model;
  write_tiny_target(folder.path(), model);
  const std::pair<const char*, Tensor> buffers[] = {
      {"model.layers.0.self_attn.rotary_emb.cos_cached",
       tensor_of(std::vector<float>(4 * 16), {1, 1, 4, 16})},
      {"model.layers.0.self_attn.bias", tensor_of(std::vector<float>(16), {1, 1, 4, 4})},
      {"model.layers.0.attention.masked_bias", tensor_of(std::vector<float>(1), {})},
      {"model.position_ids", tensor_of(std::vector<std::int64_t>(4), {1, 4})},
      {"model.nothing", tensor_of(std::vector<float>(), {0, 32})}};
  for (const auto& [name, tensor] : buffers) {
    CAPTURE(name);
    TensorSet set = tiny_target_weights(model);
    set.tensors[name] = tensor;
    write_safetensors(folder / "model.safetensors", set);
    const Checkpoint checkpoint = load_target(folder.path());
    check_same_weights(checkpoint.weights, tiny_target_weights(model));
    REQUIRE(checkpoint.remarks.size() == 1);
    CHECK(contains(checkpoint.remarks[0], std::string("'") + name + "'"));
  }
  TensorSet set = tiny_target_weights(model);
  for (int i = 0; i < 500; ++i) {
    set.tensors["t" + std::to_string(i)] = tensor_of(std::vector<float>(), {0});
  }
  write_safetensors(folder / "model.safetensors", set);
  const std::vector<std::string> remarks = load_target(folder.path()).remarks;
  REQUIRE(remarks.size() == 1);
  CHECK(contains(remarks[0], "tensor 't0' and 499 more are empty; they were passed over"));
  set = tiny_target_weights(model);
  set.tensors["model.layers.0.self_attn.bias"] = tensor_of(std::vector<float>(64), {64});
  write_safetensors(folder / "model.safetensors", set);
  CHECK(contains(target_refusal(folder.path()), "self_attn.bias' is not part of"));
}

TEST_CASE("a folder that is none, or holds no config, is refused") {
  const TempFolder folder;
  CHECK(contains(target_refusal(folder / "no"), "not a model directory"));
  CHECK(contains(target_refusal(folder.path()), "config.json"));
}

TEST_CASE("the llama-nsa family's names map to the canonical ones") {
  const TempFolder folder;
  TinyModel model;
  write_tiny_target(folder.path(), model);
  json config = read_json(folder / "config.json");
  config["model_type"] = "llama-nsa";
  config.erase("nsa");
  config.update({{"block_size", 16}, {"block_counts", 4}, {"window_size", 24}});
  write_json(folder / "config.json", config);
  TensorSet set = tiny_target_weights(model);
  erase_all(set, "compress_");
  erase_all(set, "intra_block_pe");
  write_safetensors(folder / "model.safetensors", set);
  const Checkpoint checkpoint = load_target(folder.path());
  CHECK(checkpoint.semantics == "compress_after_rope");
  check_same_weights(checkpoint.weights, set);
}

TEST_CASE("the flash-linear-attention family's names map to the canonical ones") {
  const TempFolder folder;
  TinyModel model;
  write_tiny_target(folder.path(), model);
  json config = read_json(folder / "config.json");
  config["model_type"] = "nsa";
  config["num_heads"] = 4;
  config["num_kv_heads"] = 2;
  config["norm_eps"] = 1e-5;
  config.update({{"block_size", 16}, {"block_counts", 4}, {"window_size", 24}});
  write_json(folder / "config.json", config);
  TensorSet set = tiny_target_weights(model);
  erase_all(set, "compress_");
  erase_all(set, "intra_block_pe");
  const TensorSet canonical = set;
  rename(set, "embed_tokens", "embeddings");
  rename(set, "input_layernorm", "attn_norm");
  rename(set, "post_attention_layernorm", "mlp_norm");
  rename(set, "self_attn", "attn");
  write_safetensors(folder / "model.safetensors", set);
  check_same_weights(load_target(folder.path()).weights, canonical);
}

TEST_CASE("the ToyNSALlama family's names map to the canonical ones") {
  const TempFolder folder;
  TinyModel model;
  model.target.tied_embeddings = false;
  write_tiny_target(folder.path(), model);
  json config = read_json(folder / "config.json");
  config.erase("model_type");
  config.erase("nsa");
  config.update(json::parse(R"({"compress_type": "weightedpool", "kernel_size": 8,
    "kernel_stride": 4, "block_size": 16, "topk": 5, "init_blocks": 1, "local_blocks": 2,
    "window_size": 23})"));
  write_json(folder / "config.json", config);
  const TensorSet canonical = tiny_target_weights(model);
  TensorSet set = canonical;
  rename(set, "model.embed_tokens", "embedding");
  rename(set, "model.", "");
  rename(set, "input_layernorm", "attn_norm");
  rename(set, "post_attention_layernorm", "ffn_norm");
  rename(set, "mlp.", "ffn.");
  for (const char* p : {"q", "k", "v", "o"}) {
    rename(set, std::string("self_attn.") + p + "_proj", std::string("nsa.proj_") + p);
  }
  rename(set, "self_attn.g_proj", "nsa.gate.0");
  rename(set, "self_attn.", "nsa.");
  write_safetensors(folder / "model.safetensors", set);
  const Checkpoint checkpoint = load_target(folder.path());
  CHECK(checkpoint.shape.nsa == model.target.nsa);
  check_same_weights(checkpoint.weights, canonical);
}
