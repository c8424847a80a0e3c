// engine/demo/smollm2/early_exit.py on targets of several forms: is the draft the target's first
// layers to the bit, do the commands that need a dense draft take it, and what is refused?
#include <algorithm>
#include <catch2/catch.hpp>

#include "engine/io/checkpoint.h"
#include "tests/end_to_end/refusals.h"
#include "tests/support/paths.h"
#include "tests/support/tiny_model.h"

using namespace versieve;
using namespace versieve::test;
using nlohmann::json;
namespace fs = std::filesystem;

namespace {

const fs::path kDemo = fs::path(VERSIEVE_SOURCE_DIR) / "engine/demo";

bool has_python() {
  const bool found = run_line("python3 -c pass").code == 0;
  if (!found) {
    WARN("there is no python3 here");
  }
  return found;
}

CommandResult early_exit(const fs::path& model, const std::string& more = "") {
  return run_line("python3 " + (kDemo / "smollm2/early_exit.py").string() + " " + model.string() +
                  more);
}

TinyModel dense_model() {
  TinyModel model;
  model.target.attention = AttentionKind::kDense;
  model.target.layers = 4;
  return model;
}

void check_same_weights(const fs::path& got, const fs::path& want) {
  const engine::SafetensorsFile a = engine::SafetensorsFile::read(got / "model.safetensors");
  const engine::SafetensorsFile b = engine::SafetensorsFile::read(want / "model.safetensors");
  REQUIRE(a.tensors().size() == b.tensors().size());
  for (const auto& [name, tensor] : b.tensors()) {
    CAPTURE(name);
    const engine::TensorView* found = a.find(name);
    REQUIRE(found != nullptr);
    CHECK(found->type == tensor.type);
    CHECK(found->shape == tensor.shape);
    CHECK(std::ranges::equal(found->bytes, tensor.bytes));
  }
}

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

TEST_CASE("an early exit's draft is the target's first layers, bit for bit") {
  if (!has_python()) {
    return;
  }
  TinyModel tied = dense_model();
  TinyModel apart = dense_model();
  apart.target.tied_embeddings = false;
  apart.storage = engine::StorageType::kF32;
  apart.shards = 3;
  for (const TinyModel& model : {tied, apart}) {
    const TempFolder folder;
    write_tiny_target(folder / "model", model);
    write_tiny_dense_pair(folder / "pair", model, 2);
    const CommandResult done = early_exit(folder / "model", " --layers 2");
    CAPTURE(done.err);
    REQUIRE(done.code == 0);
    check_same_weights(folder / "model/draft", folder / "pair/draft");
    CHECK(json::parse(text_of_file(folder / "model/draft/config.json")) ==
          json::parse(text_of_file(folder / "pair/draft/config.json")));
  }
}

TEST_CASE("six layers are kept where none are asked for, and lists by layer are cut") {
  if (!has_python()) {
    return;
  }
  const TempFolder folder;
  TinyModel model = dense_model();
  model.target.layers = 8;
  write_tiny_target(folder / "model", model);
  write_tiny_dense_pair(folder / "pair", model, 6);
  CHECK(early_exit(folder / "model").code == 0);
  check_same_weights(folder / "model/draft", folder / "pair/draft");

  const fs::path varied = folder / "varied";
  fs::copy(fs::path(VERSIEVE_SOURCE_DIR) / "tests/data/architectures/smollm3", varied);
  CHECK(early_exit(varied, " --layers 2").code == 0);
  const LlmShape target = engine::load_target(varied).shape;
  const LlmShape draft = engine::load_draft_model(varied / "draft", target).shape;
  CHECK(draft.layers == 2);
  REQUIRE(draft.dense_layers.size() == 2);
  for (std::size_t layer = 0; layer < 2; ++layer) {
    CHECK(draft.dense_layers[layer].turns == target.dense_layers[layer].turns);
  }
}

TEST_CASE("a target with its early exit speculates losslessly, and is aligned and judged") {
  if (!has_python()) {
    return;
  }
  const TempFolder folder;
  const fs::path model = folder / "model";
  write_tiny_target(model, dense_model());
  REQUIRE(early_exit(model, " --layers 3").code == 0);
  const std::string prompt = (kDemo / "prompts/test/chat-1000-3.txt").string();
  const std::string on_cpu = " --backend cpu --threads 1 --model " + model.string();
  const auto generate = [&](const std::string& strategy) {
    const CommandResult done =
        run_versieve("generate --json --compare-ar --max-new-tokens 24 --prompt-file " + prompt +
                     " --strategy '" + strategy + "'" + on_cpu);
    CAPTURE(done.err);
    REQUIRE(done.code == 0);
    return json::parse(done.out);
  };
  const json dense = generate("dense/d4k1n5/bfs/c1/F*");
  CHECK(dense.at("identical_to_ar") == true);
  const std::string chosen = "specattn:p0.9/d4k1n5/bfs/c1/F*";
  check_refused("generate --max-new-tokens 24 --prompt-file " + prompt + " --strategy '" + chosen +
                    "'" + on_cpu,
                1, "layer_map.json");
  const CommandResult aligned = run_versieve("align --text " + prompt + " --out " +
                                             (model / "layer_map.json").string() + on_cpu);
  CAPTURE(aligned.err);
  REQUIRE(aligned.code == 0);
  CHECK(generate(chosen).at("generated_tokens") == dense.at("generated_tokens"));
  const CommandResult judged = run_versieve("quality --scored 8 --text " + prompt + on_cpu);
  CAPTURE(judged.err);
  CHECK(judged.code == 0);
}

TEST_CASE("an early exit refuses what it cannot cut, and leaves nothing behind") {
  if (!has_python()) {
    return;
  }
  const auto check_no = [](const fs::path& model, const std::string& more, int code,
                           const std::string& part) {
    const CommandResult result = early_exit(model, more);
    CAPTURE(more, result.err);
    CHECK(result.code == code);
    CHECK(is_one_sentence(result.err));
    CHECK(result.err.find(part) != std::string::npos);
  };
  const TempFolder folder;
  check_no(folder / "absent", "", 3, "absent");
  const fs::path model = folder / "model";
  write_tiny_target(model, dense_model());
  const std::vector<std::string> before = names_in(model);
  for (const char* layers : {"0", "-1", "4", "6"}) {
    check_no(model, std::string(" --layers ") + layers, 2, "from a target of 4");
  }
  write_tiny_target(folder / "nsa", TinyModel{});
  check_no(folder / "nsa", " --layers 1", 3, "sparse target");

  const fs::path weights = model / "model.safetensors";
  const std::string whole = text_of_file(weights);
  const auto rewrite = [&](const std::string& bytes) {
    std::ofstream(weights, std::ios::binary | std::ios::trunc) << bytes;
  };
  rewrite(whole.substr(0, whole.size() - 1));
  check_no(model, " --layers 3", 3, "ends within a tensor");
  rewrite(whole.substr(0, 40));
  check_no(model, " --layers 3", 3, "ends within its header");
  rewrite("12345678" + std::string(8, '\0'));
  check_no(model, " --layers 3", 3, "ends within its header");
  rewrite(std::string("\4\0\0\0\0\0\0\0[1]", 11) + " ");
  check_no(model, " --layers 3", 3, "header is not one");
  rewrite(whole);
  std::ofstream(model / "model.safetensors.index.json") << R"({"weight_map": 3})";
  check_no(model, " --layers 3", 3, "weight_map");
  fs::remove(model / "model.safetensors.index.json");
  CHECK(names_in(model) == before);

  fs::create_directory(model / "draft");
  check_no(model, " --layers 3", 3, "there already");
  CHECK(fs::is_empty(model / "draft"));
}
