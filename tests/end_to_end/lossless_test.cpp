// Is speculative text the autoregressive text on every held-out prompt of the demo pair, for every
// tree shape and both traversals? 40 prompts x 8 shapes x 2 orders on the CPU in f32; one prefill
// and one autoregressive run a prompt.
#include <catch2/catch.hpp>

#include <algorithm>
#include <filesystem>
#include <thread>

#include "engine/speculate/generate_request.h"

namespace versieve::engine {
namespace {

std::vector<std::filesystem::path> held_out_prompts() {
  std::vector<std::filesystem::path> files;
  const std::filesystem::path folder =
      std::filesystem::path(VERSIEVE_SOURCE_DIR) / "engine/demo/prompts/test";
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::vector<std::string> strategies() {
  std::vector<std::string> texts;
  for (const char* shape :
       {"d1k1n2", "d4k1n5", "d7k1n8", "d3k4n16", "d5k4n32", "d6k8n64", "d8k2n24", "d2k8n40"}) {
    for (const char* order : {"bfs", "dfs"}) {
      const char* group = std::string(order) == "bfs" ? "c1" : "c4e";
      texts.push_back(std::string("nsa/") + shape + "/" + order + "/" + group + "/F*");
    }
  }
  return texts;
}

TEST_CASE("every tree shape and traversal is lossless on every held-out prompt") {
  const std::vector<std::filesystem::path> prompts = held_out_prompts();
  REQUIRE(prompts.size() >= 40);
  GenerateRequest request{.model = std::filesystem::path(VERSIEVE_SOURCE_DIR) / "engine/demo/nsa",
                          .strategies = strategies(),
                          .compares_ar = true,
                          .max_new_tokens = 40,
                          .backend = "cpu"};
  double yielded = 0.0;
  double steps = 0.0;
  for (const std::filesystem::path& prompt : prompts) {
    request.prompt_file = prompt;
    const GenerateReport report = run_request(request);
    REQUIRE(report.runs.size() == request.strategies.size());
    for (const StrategyRun& run : report.runs) {
      INFO(prompt.filename().string() << ", " << run.strategy.text());
      CHECK(run.identical());
      CHECK(run.generation.tokens.size() >= 1);
      steps += static_cast<double>(run.generation.steps);
      yielded += run.generation.accepted_per_step() * static_cast<double>(run.generation.steps);
    }
  }
  CHECK(yielded > 2.0 * steps);  // the paths compared were not all of one token
}

}  // namespace
}  // namespace versieve::engine
