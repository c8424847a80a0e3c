// Bad input to the built command: one sentence, the right exit code, and no file left behind.
#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <filesystem>
#include <fstream>

#include "tests/end_to_end/refusals.h"
#include "tests/support/paths.h"
#include "tests/support/tiny_model.h"

using namespace versieve;
using namespace versieve::test;
namespace fs = std::filesystem;

namespace {

// A tiny pair, a prompt, and the command that runs them.
struct Scene {
  TempFolder folder;
  fs::path model = folder / "model";
  fs::path prompt = folder / "prompt.txt";

  Scene() {
    write_tiny_pair(model, TinyModel{});
    std::ofstream(prompt) << "The quick brown fox jumps over the lazy dog.";
  }
  std::string generate(const std::string& strategy = "nsa/ar") const {
    return "generate --model " + model.string() + " --prompt-file " + prompt.string() +
           " --strategy '" + strategy + "' --max-new-tokens 4 --backend cpu";
  }
  fs::path weights() const {
    for (const fs::directory_entry& entry : fs::directory_iterator(model)) {
      if (entry.path().extension() == ".safetensors") {
        return entry.path();
      }
    }
    return {};
  }
};

std::size_t files_in(const fs::path& folder) {
  return static_cast<std::size_t>(
      std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

}  // namespace

TEST_CASE("an output that cannot be is refused before the work, and is never the input") {
  const test::TempFolder folder;
  const std::string table = (folder / "t.json").string();
  std::ofstream(table) << "{}";
  test::check_refused("export --table " + table + " --format csv --out " + table, 2,
                      "is the input");
  test::check_refused("kernel topk --in " + table + " --out " + table, 2, "is the input");
  CHECK(test::text_of_file(table) == "{}");
  const std::string nowhere = (folder / "none" / "out.json").string();
  const std::string shipped = VERSIEVE_SOURCE_DIR "/db/measured/h200.db";
  const auto begin = std::chrono::steady_clock::now();
  test::check_refused("fit --db " + shipped + " --out " + nowhere, 4, "cannot be written");
  test::check_refused("fit --db " + shipped + " --report " + nowhere, 4, "cannot be written");
  test::check_refused("plan --hardware h200-sxm --db " + shipped + " --out " + nowhere, 4,
                      "cannot be written");
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(5));  // a fit takes ten
  std::filesystem::create_symlink(folder / "loop", folder / "loop");
  test::check_refused(
      "export --table " + table + " --format csv --out " + (folder / "loop").string(), 3, "t.json");
  CHECK(std::filesystem::is_symlink(folder / "loop"));
}

TEST_CASE("a sweep that wants the trained pair looks for it first") {
  const test::TempFolder folder;
  const std::string database = (folder / "points.db").string();
  test::check_refused("profile --backend cpu --sweep demo-acceptance --db " + database +
                          " --demo " + (folder / "none").string(),
                      3, "nsa is not a model directory");
  CHECK(!std::filesystem::exists(database));
  const test::CommandResult simulated =
      test::run_versieve("profile --backend sim --sweep demo-acceptance --db " + database);
  CHECK(simulated.code == 1);  // nothing of it can be simulated
}

TEST_CASE("the scene itself runs") {
  const Scene scene;
  const CommandResult result = run_versieve(scene.generate() + " --json");
  CAPTURE(result.err);
  CHECK(result.code == 0);
  CHECK(nlohmann::json::parse(result.out).at("identical_to_ar").is_null());
}

TEST_CASE("an option that would change nothing is refused") {
  const Scene scene;
  for (const char* option : {"--db x.db", "--split test", "--regime code", "--acceptance law"}) {
    check_refused(scene.generate() + " " + option, 2, "give --table");
  }
  const std::string one = "simulate --hardware h100-sxm --strategy nsa/ar --context 1024";
  for (const char* option : {"--db x.db", "--sweep survey", "--every 3"}) {
    check_refused(one + " " + option, 2, "is of --check");
  }
  check_refused(one + " --rows 5", 2, "--rows are of a kernel alone");
  const std::string check = "simulate --check --db x.db ";
  for (const char* option : {"--strategy nsa/ar", "--model nsa-1b", "--context 1024", "--rows 1",
                             "--overlap 0.5", "--cache-state warm", "--selections x.db"}) {
    check_refused(check + option, 2, "--check takes each point's own");
  }
  const std::string database = (scene.folder / "points.db").string();
  const std::string sweep = "profile --backend sim --sweep survey --db " + database;
  check_refused(sweep + " --demo x", 2, "measures no trained pair");
  check_refused(sweep + " --selections " + (scene.folder / "none").string(), 3, "does not exist");
  CHECK(!fs::exists(database));
}

TEST_CASE("truncated weights are bad input") {
  const Scene scene;
  const fs::path weights = scene.weights();
  fs::resize_file(weights, fs::file_size(weights) - 7);
  check_refused(scene.generate(), 3, weights.filename().string());
}

TEST_CASE("weights with a hostile header are bad input") {
  const Scene scene;
  std::fstream file(scene.weights(), std::ios::in | std::ios::out | std::ios::binary);
  file.write("\xff\xff\xff\xff\xff\xff\xff\x7f", 8);
  file.close();
  check_refused(scene.generate(), 3, "header");
}

TEST_CASE("a wrong configuration is bad input") {
  const Scene scene;
  nlohmann::json config = nlohmann::json::parse(text_of_file(scene.model / "config.json"));
  config["num_key_value_heads"] = 3;  // does not divide the heads
  std::ofstream(scene.model / "config.json") << config;
  check_refused(scene.generate(), 3, "config.json");
  std::ofstream(scene.model / "config.json") << "{";
  check_refused(scene.generate(), 3, "config.json");
}

TEST_CASE("a sentence is one line of plain text and not endless, whatever a file says") {
  const Scene scene;
  std::ofstream(scene.model / "config.json") << "{\"model_type\": \"\\u001b[31m\\n"
                                             << std::string(100000, 'x') << "\"}";
  check_refused(scene.generate(), 3, "is not supported");
  const std::string err = run_versieve(scene.generate()).err;
  CHECK(err.size() < 2000);
  CHECK(std::count_if(err.begin(), err.end(), [](char c) { return c >= 0 && c < ' '; }) == 1);
}

TEST_CASE("an empty or missing prompt is bad input") {
  const Scene scene;
  std::ofstream(scene.prompt, std::ios::trunc).close();
  check_refused(scene.generate(), 3, "prompt.txt");
  fs::remove(scene.prompt);
  check_refused(scene.generate(), 3, "prompt.txt");
}

TEST_CASE("an unknown strategy text is a usage error that names the part") {
  const Scene scene;
  check_refused(scene.generate("nsa/d6k8n64/zigzag/c1/F*"), 2, "order");
  check_refused(scene.generate("nsa/d6k8n64/dfs/c1/R*"), 2, "begin with F");
}

TEST_CASE("a database of a newer schema is refused untouched by every command that reads one") {
  const TempFolder folder;
  const fs::path database = folder / "new.db";
  fs::copy_file(fs::path(VERSIEVE_SOURCE_DIR) / "tests/data/schema_v1.db", database);
  // user_version stands at byte 60 of a SQLite file, big-endian; the least reader beside it.
  std::fstream file(database, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(60);
  file.write("\x00\x00\x03\xe7", 4);
  file.close();
  const std::string before = text_of_file(database);
  check_refused("merge --into " + (folder / "all.db").string() + " " + database.string(), 3, "999");
  check_refused("profile --db " + database.string() + " --sweep quick --backend cpu", 3, "999");
  CHECK(text_of_file(database) == before);
}

TEST_CASE("a foreign file is no database") {
  const TempFolder folder;
  std::ofstream(folder / "notes.db")
      << "These are notes, no database at all; keep them as they are.";
  const std::string before = text_of_file(folder / "notes.db");
  const std::string path = (folder / "notes.db").string();
  check_refused("fit --db " + path + " --device H200", 3, "notes.db");
  check_refused("profile --db " + path + " --sweep quick --backend cpu", 3, "notes.db");
  CHECK(text_of_file(folder / "notes.db") == before);
}

TEST_CASE("a full disk leaves no partial file") {
  const TempFolder folder;
  const std::string database = (fs::path(VERSIEVE_SOURCE_DIR) / "db/measured/h200.db").string();
  // 8 blocks of 512 bytes: less than the fit's file needs.
  const CommandResult result = run_versieve(
      "fit --quick --db " + database + " --device H200 --out " + (folder / "fit.json").string(),
      "trap '' XFSZ; ulimit -f 8; ");
  CAPTURE(result.out, result.err);
  CHECK(result.code == 4);
  CHECK(is_one_sentence(result.err));
  CHECK(files_in(folder / ".") == 0);
}

TEST_CASE("without a GPU the cuda backend is the environment's fault") {
  const Scene scene;
  const CommandResult doctor = run_versieve("doctor --json");
  CHECK(doctor.code <= 1);
  if (run_versieve("profile --db /nonexistent/x.db --sweep quick --backend cuda").err.find("GPU") ==
      std::string::npos) {
    WARN("a GPU is here: nothing to refuse");
    return;
  }
  std::string arguments = scene.generate();
  arguments.replace(arguments.rfind("cpu"), 3, "cuda");
  check_refused(arguments, 4, "GPU");
}

TEST_CASE("calibrate writes its curve whole or not at all") {
  Scene scene;
  std::ofstream(scene.prompt, std::ios::app) << std::string(200, 'x');
  const fs::path out = scene.folder / "schedule.json";
  const auto calibrate = [&](const fs::path& text, const char* budget, const fs::path& to) {
    return "calibrate --model " + scene.model.string() + " --text " + text.string() + " --budget " +
           budget + " --backend cpu --out " + to.string();
  };
  const std::size_t before = files_in(scene.folder.path());
  check_refused(calibrate(scene.prompt, "-1", out), 2, "budget");
  check_refused(calibrate(scene.folder / "absent", "0.1", out), 3, "absent");
  check_refused(calibrate(scene.prompt, "0.1", "/nonexistent/schedule.json"), 4, "/nonexistent");
  CHECK(files_in(scene.folder.path()) == before);
  const CommandResult done = run_versieve(calibrate(scene.prompt, "0.1", out) + " --json");
  CAPTURE(done.err);
  REQUIRE(done.code == 0);
  const nlohmann::json curve = nlohmann::json::parse(text_of_file(out));
  CHECK(nlohmann::json::parse(done.out) == curve);
  CHECK(curve.at("curve")[0].at("schedule") == "FFF");
}

TEST_CASE("quality refuses layers, halvings and texts that are none, each by its name") {
  const TempFolder folder;
  TinyModel model;
  model.target.attention = AttentionKind::kDense;
  write_tiny_dense_pair(folder / "model", model, 2);
  const fs::path text = fs::path(VERSIEVE_SOURCE_DIR) / "engine/demo/prompts/test/chat-1000-3.txt";
  const std::string command = "quality --backend cpu --scored 4 --model " +
                              (folder / "model").string() + " --text " + text.string();
  check_refused(command, 3, "layer_map.json");
  std::ofstream(folder / "model" / "layer_map.json")
      << R"({"format": "versieve layer map", "schema": 1, "map": [0, 0, 1]})";
  REQUIRE(run_versieve(command).code == 0);
  check_refused(command + " --dense-layers 99", 2, "has 3 layers");
  check_refused(command + " --dense-layers -1", 2, "--dense-layers is 0 or more");
  check_refused(command + " --iterations 0", 2, "iterations");
  for (const char* option : {" --lookahead ", " --chunk ", " --iterations "}) {
    check_refused(command + option + "9223372036854775807", 2, "or less");
  }
  check_refused(command + " --p 1.5", 2, "p must be in (0, 1]");
  check_refused(command + " --text /nonexistent", 3, "/nonexistent");
}
