// An option that would change nothing is refused, or said to have changed nothing: of plan, fit,
// replay, generate, export and diagnose.
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "tests/end_to_end/plan_world.h"
#include "tests/support/paths.h"

using namespace versieve;
using test::check_refused;
using test::CommandResult;
using test::db_option;
using test::run_versieve;
using test::world;

namespace {

// A dense model of which nothing but its size is known; with `draft` a model of its own drafts.
std::string dense_folder(const std::string& name, bool draft) {
  const std::string shape = R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama",
    "hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 64, "vocab_size": 512,
    "max_position_embeddings": 8192, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
    "tie_word_embeddings": true, "torch_dtype": "bfloat16", "hidden_act": "silu",
    "bos_token_id": 1, "eos_token_id": 2})";
  const std::filesystem::path folder = world().file(name);
  std::filesystem::create_directories(folder / "draft");
  std::ofstream(folder / "config.json") << shape;
  if (draft) {
    std::ofstream(folder / "draft" / "config.json") << shape;
  } else {
    std::filesystem::remove_all(folder / "draft");
  }
  return folder.string();
}

std::string table_file() {
  static const std::string path = [] {
    const std::string to = world().file("idle-table.json").string();
    const CommandResult made = run_versieve("plan --model nsa-1b --buckets 0-4096 --class Strict " +
                                            db_option() + " --out " + to);
    CAPTURE(made.err);
    REQUIRE(made.code == 0);
    return to;
  }();
  return path;
}

}  // namespace

TEST_CASE("options of plan that the pair or the classes leave without effect are refused") {
  const std::string plan = "plan --model nsa-1b" + db_option();
  const std::string with_model = "plan" + db_option() + " --model " + dense_folder("with", true);
  const std::string bare = "plan" + db_option() + " --model " + dense_folder("bare", false);
  for (const auto& [line, part] : std::vector<std::pair<std::string, std::string>>{
           {bare + " --schedule FF", "a dense target has none"},
           {bare + " --assume-overlap 0.3", "a dense target selects none"},
           {bare + " --draft-vocab 256", "--draft-vocab is of a draft head"},
           {with_model + " --draft-vocab 256", "--draft-vocab is of a draft head"},
           {plan + " --class Strict --resa-ratio 0.1", "--resa-ratio is of class Sparse"},
           {plan + " --class Sparse --resa-rectify 32", "is of class Sparse+Rectify"},
           {plan + " --class Strict,Sparse+Rectify --specattn-mass 0.95",
            "--specattn-mass is of class Sparse"},
           {plan + " --class Strict --max-loss 0.1", "of class Strict nothing does"},
           {"plan --model nsa-1b --device H200 --fit missing.json", "--fit is of one"}}) {
    check_refused(line, 2, part);
  }
  // What has an effect is taken.
  const std::string sparse = plan + " --buckets 0-4096 --class Strict,Sparse --resa-ratio 0.1";
  const CommandResult taken = run_versieve(sparse);
  CAPTURE(taken.err);
  CHECK(taken.code == 0);
}

TEST_CASE("a predicted step without a draft has no draft's tokens") {
  check_refused("fit --quick --predict nsa/ar --context 2048 --draft-vocab 1000" + db_option(), 2,
                "drafts with none");
}

TEST_CASE("recorded walks are chosen where they are played") {
  const std::string record = "replay --table " + table_file() + db_option() + " --record " +
                             world().file("missing.json").string();
  for (const char* option : {" --tokens 5", " --guard-constants alpha=0.3", " --sweep-guard"}) {
    check_refused(record + option, 2, "--record plays nothing");
  }
  const std::string generate =
      "generate --model " VERSIEVE_SOURCE_DIR "/engine/demo/nsa --prompt-file " VERSIEVE_SOURCE_DIR
      "/LICENSE --max-new-tokens 2";
  check_refused(generate + " --strategy nsa/ar --split test", 2, "give --table");
  check_refused(generate + " --strategy nsa/ar --regime code", 2, "give --table");
  check_refused(generate + " --table " + table_file() + " --regime code", 2,
                "choose among recorded walks");
  check_refused(generate + " --table " + table_file() + " --acceptance law --split test", 2,
                "choose among recorded walks");
  check_refused("generate --model " VERSIEVE_SOURCE_DIR
                "/engine/demo/nsa --prompts "
                "x --strategy nsa/ar --split test",
                2, "one request at a time");
  check_refused("generate --model " VERSIEVE_SOURCE_DIR
                "/engine/demo/nsa --prompts "
                "x --strategy nsa/ar --no-graphs",
                2, "--no-graphs is of one prompt");
}

TEST_CASE("a generation says which options changed nothing") {
  const std::filesystem::path prompt = world().file("prompt.txt");
  std::ofstream(prompt) << "The cache holds ";
  const std::string line = "generate --model " VERSIEVE_SOURCE_DIR
                           "/engine/demo/nsa --backend cpu --strategy nsa/ar --max-new-tokens 2 "
                           "--prompt-file " +
                           prompt.string();
  const CommandResult idle = run_versieve(line + " --seed 7 --no-graphs");
  CAPTURE(idle.err);
  CHECK(idle.code == 0);
  CHECK(idle.err.find("--seed changed nothing") != std::string::npos);
  CHECK(idle.err.find("--no-graphs changed nothing") != std::string::npos);
  CHECK(run_versieve(line + " --temperature 0.8 --seed 7").err.find("changed nothing") ==
        std::string::npos);
}
