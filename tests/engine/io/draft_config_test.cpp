// What a draft's configuration says, and whether it fits its target.
#include <catch2/catch.hpp>

#include "tests/engine/io/config_case.h"

using namespace versieve;
using namespace versieve::engine;
using namespace versieve::test;

TEST_CASE("a draft config gives its geometry and the streams it reads") {
  const DraftConfig config = read_draft(draft());
  CHECK(config.shape.window == 32);
  CHECK(config.shape.capture_layers[0] == 0);
  CHECK(config.shape.capture_layers[2] == 3);
  CHECK(!config.has_vocab_map);
  json other = draft();
  other["eagle_config"]["id_semantics"] = "leaving_layer";
  other["eagle_config"]["eagle_aux_hidden_state_layer_ids"] = {0, 1, 2};
  CHECK(read_draft(other).shape.capture_layers[2] == 3);
  other["eagle_config"].erase("eagle_aux_hidden_state_layer_ids");
  CHECK(read_draft(other).shape.capture_layers[0] == 2);
  other = draft();
  other["draft_vocab_size"] = 100;
  other.erase("sliding_window");
  CHECK(read_draft(other).has_vocab_map);
  CHECK(read_draft(other).shape.window == 4096);
  other["sliding_window"] = 32;
  other["use_sliding_window"] = false;
  CHECK(read_draft(other).shape.window == 4096);
  other["eagle_config"]["eagle_aux_hidden_state_layer_ids"] = {0.0, 1.0, 3.0};
  CHECK(read_draft(other).shape.capture_layers[2] == 3);
  other = draft();
  CHECK(read_draft(other).shape.is_plain());
  other["norm_before_residual"] = true;
  CHECK(read_draft(other).shape.norm_before_residual);
  other["rope_scaling"] = {{"rope_type", "linear"}, {"factor", 2.0}};
  CHECK(read_draft(other).shape.rope.factor == 2.0);
}

TEST_CASE("a draft's positions are a limit only where they are fewer than the target's") {
  json config = draft();
  for (const json& positions : {json(4096), json(131072), json(nullptr)}) {
    config["max_position_embeddings"] = positions;
    CHECK(read_draft(config).shape.max_position == 0);
  }
  config["max_position_embeddings"] = 2048;
  CHECK(read_draft(config).shape.max_position == 2048);
  config.erase("sliding_window");
  CHECK(read_draft(config).shape.window == 4096);
}

TEST_CASE("a draft's folder is a model of its own or a head, whatever its architectures say") {
  const auto is_model = [](const json& config) {
    const TempFolder folder;
    write_file_atomically(folder / "config.json", config.dump());
    return is_draft_model(folder.path());
  };
  json config = llama();
  config["architectures"] = {"LlamaForCausalLM"};
  CHECK(is_model(config));
  config["draft_vocab_size"] = 100;  // released heads name the target's architecture
  CHECK(!is_model(config));
  for (const char* name : {"MistralForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM"}) {
    config = llama();
    config["architectures"] = {name};
    CHECK(is_model(config));
  }
  CHECK(!is_model(draft()));
  CHECK(!is_model(llama()));  // neither architectures nor weights
  for (const bool head : {true, false}) {
    const TempFolder folder;
    const TinyModel tiny;
    if (head) {
      write_tiny_draft(folder.path(), tiny);
    } else {
      write_tiny_target(folder.path(), tiny);
    }
    write_file_atomically(folder / "config.json", llama().dump());
    CHECK(is_draft_model(folder.path()) == !head);
  }
}

TEST_CASE("a draft that does not fit its target is refused") {
  const std::tuple<const char*, json, const char*> wrong[] = {
      {"hidden_size", 64, "must be the target's, 32"},
      {"target_hidden_size", 64, "must be the target's, 32"},
      {"vocab_size", 300, "must be the target's, 272"},
      {"draft_vocab_size", 273, "larger than"},
      {"num_hidden_layers", 2, "one decoder layer"},
      {"norm_before_fc", true, "not supported"},
      {"norm_output", true, "not supported"},
      {"head_dim", 7, "even"}};
  for (const auto& [key, value, part] : wrong) {
    CAPTURE(key);
    json config = draft();
    config[key] = value;
    CHECK(contains(draft_refusal(config), part));
  }
  json config = draft();
  config["eagle_config"]["eagle_aux_hidden_state_layer_ids"] = {0, 1, 4};
  CHECK(contains(draft_refusal(config), "the target has 3 layers"));
  config["eagle_config"]["eagle_aux_hidden_state_layer_ids"] = {0, 1};
  CHECK(contains(draft_refusal(config), "three layer ids"));
  config = draft();
  config["eagle_config"]["use_aux_hidden_state"] = false;
  CHECK(contains(draft_refusal(config), "not supported"));
}
