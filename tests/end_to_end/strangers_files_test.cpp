// Files from other hands to the built command: model directories as other libraries write them,
// vocabulary maps, machines and their names. Valid ones are read, others refused by key and reason.
#include <catch2/catch.hpp>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>

#include "tests/end_to_end/refusals.h"
#include "tests/support/tiny_model.h"

using namespace versieve;
using namespace versieve::test;
using nlohmann::json;
namespace fs = std::filesystem;

namespace {

// A dense target with a head that drafts 64 of its tokens, the last bytes first used in text.
TinyModel dense_pair() {
  TinyModel model;
  model.target.attention = AttentionKind::kDense;
  model.draft.vocab = 64;
  return model;
}

struct Scene {
  TempFolder folder;
  fs::path model = folder / "model";
  fs::path prompt = folder / "prompt.txt";

  explicit Scene(const TinyModel& tiny = dense_pair()) {
    write_tiny_pair(model, tiny);
    std::ofstream(prompt) << "def f(x):";
  }
  std::string generate(const std::string& strategy = "dense/ar") const {
    return "generate --model " + model.string() + " --prompt-file " + prompt.string() +
           " --strategy '" + strategy + "' --max-new-tokens 4 --backend cpu --threads 1";
  }
  void change_config(const std::function<void(json&)>& change) const {
    json config = json::parse(text_of_file(model / "config.json"));
    change(config);
    std::ofstream(model / "config.json") << config.dump(1);
  }
  void write_draft(const engine::TensorSet& set) const {
    engine::write_safetensors(model / "draft" / "model.safetensors", set);
  }
  json answer(const std::string& strategy = "dense/ar") const {
    const CommandResult result = run_versieve(generate(strategy) + " --json");
    CAPTURE(result.err);
    REQUIRE(result.code == 0);
    return json::parse(result.out);
  }
};

// The file's header, changed.
void change_header(const fs::path& path, const std::function<void(json&)>& change) {
  const std::string bytes = text_of_file(path);
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof length);
  json header = json::parse(bytes.substr(8, length));
  change(header);
  const std::string text = header.dump();
  const std::uint64_t written = text.size();
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(reinterpret_cast<const char*>(&written), sizeof written);
  file << text << bytes.substr(8 + length);
}

constexpr const char* kTree = "dense/d3k2n6/bfs/c1/F*";

}  // namespace

TEST_CASE("metadata that is null is none, and what is no string is refused by its key") {
  const Scene scene;
  const json before = scene.answer();
  const fs::path weights = scene.model / "model.safetensors";
  change_header(weights, [](json& header) { header["__metadata__"] = nullptr; });
  CHECK(scene.answer()["text"] == before["text"]);
  change_header(weights, [](json& header) { header["__metadata__"] = {{"step", 7}}; });
  check_refused(scene.generate(), 3, "__metadata__ holds 'step'");
}

TEST_CASE("both forms of rotary parameters give the same text, a contradiction none") {
  const Scene scene;
  const json before = scene.answer();
  const json forms[] = {{{"rope_theta", 10000}, {"rope_scaling", nullptr}},
                        {{"rope_parameters", {{"rope_type", "default"}, {"rope_theta", 1e4}}}},
                        {{"rope_theta", 10000.0}, {"rope_parameters", {{"rope_type", "default"}}}}};
  for (const json& form : forms) {
    CAPTURE(form.dump());
    scene.change_config([&](json& config) {
      config.erase("rope_theta");
      config.erase("rope_parameters");
      config.update(form);
    });
    CHECK(scene.answer()["text"] == before["text"]);
  }
  scene.change_config([](json& config) {
    config["rope_theta"] = 500000.0;
    config["rope_parameters"] = {{"rope_theta", 10000.0}};
  });
  check_refused(scene.generate(), 3, "rope_parameters.rope_theta 10000.0 and rope_theta 500000.0");
}

TEST_CASE("a config that is no JSON is refused by line and key") {
  const Scene scene;
  std::ofstream(scene.model / "config.json")
      << "{\n \"model_type\": \"llama\",\n \"rope_theta\": NaN}";
  check_refused(scene.generate(), 3, "line 3, column 16, at or after the key 'rope_theta'");
}

TEST_CASE("an index's total that is off costs a note, a shard that is not there the answer") {
  TinyModel tiny = dense_pair();
  tiny.shards = 2;
  const Scene scene(tiny);
  const fs::path path = scene.model / "model.safetensors.index.json";
  json index = json::parse(text_of_file(path));
  index["metadata"]["total_size"] = 17;
  std::ofstream(path) << index;
  const json answer = scene.answer();
  REQUIRE(answer["remarks"].size() == 1);
  const CommandResult done = run_versieve(scene.generate());
  CHECK(done.code == 0);
  CHECK_THAT(done.err, Catch::StartsWith("note: ") && Catch::Contains("total_size 17"));
  const std::string shard = index["weight_map"].begin().value().get<std::string>();
  fs::remove(scene.model / shard);
  check_refused(scene.generate(), 3, shard + ", which is not there");
}

TEST_CASE("calibrate, align and quality note what is odd in the files too") {
  const Scene scene;
  std::ofstream(scene.prompt, std::ios::app) << std::string(200, 'x');
  const auto claim_total = [](const fs::path& model) {
    const fs::path path = model / "model.safetensors.index.json";
    json index = json::parse(text_of_file(path));
    index["metadata"]["total_size"] = 17;
    std::ofstream(path) << index;
  };
  const auto notes = [&](const std::string& command, const fs::path& model) {
    const CommandResult done = run_versieve(command + " --backend cpu --threads 1 --model " +
                                            model.string() + " --text " + scene.prompt.string());
    CAPTURE(command, done.err);
    REQUIRE(done.code == 0);
    std::size_t found = 0;
    for (std::size_t at = done.err.find("note: "); at != std::string::npos;
         at = done.err.find("note: ", at + 1)) {
      found += done.err.find("total_size 17", at) != std::string::npos ? 1 : 0;
    }
    return found;
  };
  TinyModel sparse;
  sparse.shards = 2;
  const fs::path nsa = scene.folder / "nsa";
  write_tiny_target(nsa, sparse);
  const std::string schedule = (scene.folder / "schedule.json").string();
  CHECK(notes("calibrate --budget 0.1 --out " + schedule, nsa) == 0);
  claim_total(nsa);
  CHECK(notes("calibrate --budget 0.1 --out " + schedule, nsa) == 1);

  TinyModel dense = dense_pair();
  dense.shards = 2;
  const fs::path pair = scene.folder / "dense";
  write_tiny_target(pair, dense);
  write_tiny_target(pair / "draft", dense);
  claim_total(pair);
  claim_total(pair / "draft");
  CHECK(notes("align --out " + (pair / "layer_map.json").string(), pair) == 2);
  CHECK(notes("quality --scored 4", pair) == 2);
}

TEST_CASE("a vocabulary map of another convention is refused, a half one named") {
  const Scene scene;
  CHECK(scene.answer(kTree)["remarks"].empty());
  engine::TensorSet set = tiny_draft_weights(dense_pair());
  const auto offsets = [&](const std::function<std::int64_t(std::int64_t)>& of) {
    std::vector<std::int64_t> values;
    for (std::int64_t id = 0; id < 64; ++id) {
      values.push_back(of(id));
    }
    set.tensors["d2t"] = engine::tensor_of(values, {64});
    scene.write_draft(set);
  };
  const auto check_conventions = [&] {
    offsets([](std::int64_t) { return 0; });
    check_refused(scene.generate(kTree), 3, "d2t is all zeros");
    offsets([](std::int64_t id) { return id + 100; });
    check_refused(scene.generate(kTree), 3, "d2t");
  };
  check_conventions();
  set.tensors.erase("t2d");
  check_conventions();
  offsets([](std::int64_t id) { return id; });
  check_refused(scene.generate(kTree), 3, "d2t counts 0, 1, 2");
  offsets([](std::int64_t) { return 32; });
  const json half = scene.answer(kTree);
  REQUIRE(half["remarks"].size() == 1);
  CHECK_THAT(half["remarks"][0].get<std::string>(), Catch::Contains("d2t stands without t2d"));
  set.tensors.erase("d2t");
  scene.write_draft(set);
  check_refused(scene.generate(kTree), 3, "'d2t' is missing");
}

TEST_CASE("steps of a GPU that only sounds like one of the catalogue are of no machine in it") {
  const TempFolder folder;
  const std::string steps = (folder / "steps.csv").string();
  std::ofstream(steps) << "request,context,strategy,emitted,step_us\n"
                          "a,1500,dense/d4k2n8/bfs/c1/F*,3,2100\n"
                          "a,1503,dense/d4k2n8/bfs/c1/F*,2,2110\n"
                          "b,1500,dense/ar,1,900\n";
  const std::pair<const char*, bool> devices[] = {{"NVIDIA GB200", false},
                                                  {"NVIDIA H100 NVL", false},
                                                  {"NVIDIA H100 80GB HBM3 MIG 1g.10gb", false},
                                                  {"NVIDIA GeForce RTX 4090 D", false},
                                                  {"NVIDIA H100 80GB HBM3", true},
                                                  {"NVIDIA GeForce RTX 4090", true}};
  for (const auto& [device, known] : devices) {
    CAPTURE(device);
    const std::string database = (folder / (std::string(device) + ".db")).string();
    REQUIRE(run_versieve("import --format csv --db '" + database + "' --model m --device '" +
                         device + "' " + steps)
                .code == 0);
    const CommandResult done = run_versieve("diagnose --db '" + database + "'");
    CHECK(done.code == 0);
    CHECK((done.out.find("of no machine in the catalogue") == std::string::npos) == known);
  }
}

TEST_CASE("a hardware file in a wrong unit is refused by every command that reads one") {
  const TempFolder folder;
  const std::string path = (folder / "mine.json").string();
  std::ofstream(path) << R"({"key": "mine", "name": "Mine", "like": "h200-sxm",
    "fields": {"l2": {"value": 62914560, "source": "deviceQuery"}}})";
  const std::string meant = "were 60 MiB meant, written in bytes?";
  check_refused("simulate --strategy nsa/ar --hardware " + path, 3, meant);
  check_refused("profile --sweep quick --backend sim --hardware " + path + " --db " +
                    (folder / "d.db").string(),
                3, meant);
  CHECK(!fs::exists(folder / "d.db"));
}
