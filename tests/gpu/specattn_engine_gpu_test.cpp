// A dense pair's text under SpecAttn on a GPU, recorded and led by the host.
#include <catch2/catch.hpp>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "engine/run/speculate/generate_request.h"
#include "tests/gpu/gpu_ops.h"
#include "tests/support/paths.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_model.h"

namespace versieve::kernels {
namespace {

// Four layers of random weights, the heads of the kernels' main case, attention on few tokens, and
// a draft of its first three layers.
void write_dense_pair(const std::filesystem::path& folder) {
  test::TinyModel model;
  model.target.attention = AttentionKind::kDense;
  model.target.layers = 4;
  model.target.hidden = 64;
  model.target.intermediate = 96;
  model.target.num_heads = 8;
  model.target.head_dim = 64;
  model.target.max_position = 8192;
  model.sharpness = 10.0;
  test::write_tiny_dense_pair(folder, model, 3);
  std::ofstream(folder / "layer_map.json")
      << R"({"format": "versieve layer map", "schema": 1, "map": [0, 1, 2, 2]})";
}

engine::GenerateRequest chains_of(const std::filesystem::path& pair, const char* prompt) {
  engine::GenerateRequest request;
  request.model = pair;
  request.prompt.text =
      std::filesystem::path(VERSIEVE_SOURCE_DIR) / "engine/demo/prompts/test" / prompt;
  request.backend = "cuda";
  return request;
}

}  // namespace

// For checkers that slow kernels a thousandfold.
TEST_CASE("recorded steps of SpecAttn give the led ones' text, a few tokens of it", "[recorded]") {
  if (!test::try_gpu_ops<float>()) {
    return;
  }
  const test::TempFolder folder;
  write_dense_pair(folder / "pair");
  engine::GenerateRequest request = chains_of(folder / "pair", "chat-400-0.txt");
  request.strategies = {"specattn:p0.9/d3k1n4/bfs/c1/F*"};
  request.max_new_tokens = 12;
  request.dtype = "bf16";
  const engine::Generation recorded = engine::run_request(request).runs[0].generation;
  request.uses_graphs = false;
  const engine::Generation led = engine::run_request(request).runs[0].generation;
  CHECK(recorded.recorded);
  CHECK(!led.recorded);
  CHECK(recorded.tokens == led.tokens);
}

TEST_CASE("a dense pair keeps its text on the GPU, and specattn reads less", "[pair]") {
  const auto ops = test::try_gpu_ops<float>();
  if (!ops) {
    return;
  }
  const test::TempFolder folder;
  write_dense_pair(folder / "pair");
  for (const char* dtype : {"f32", "bf16"}) {
    engine::GenerateRequest request = chains_of(folder / "pair", "code-4000-5.txt");
    request.strategies = {"dense/d7k1n8/bfs/c1/F*", "dense/d4k3n12/bfs/c1/F*",
                          "specattn:p0.95/d7k1n8/bfs/c1/F*"};
    request.compares_ar = true;
    request.max_new_tokens = 128;
    request.dtype = dtype;
    const engine::GenerateReport report = engine::run_request(request);
    std::printf("%s", engine::report_text(report).c_str());
    request.uses_graphs = false;
    request.compares_ar = false;
    const engine::GenerateReport led = engine::run_request(request);
    for (const std::size_t chain : {0, 2}) {
      INFO(dtype << " " << request.strategies[chain]);
      CHECK(report.runs[chain].generation.recorded);
      CHECK(!led.runs[chain].generation.recorded);
      CHECK(report.runs[chain].generation.tokens == led.runs[chain].generation.tokens);
      CHECK(report.runs[chain].generation.reads_saved ==
            Approx(led.runs[chain].generation.reads_saved).margin(0.02));
    }
    for (std::size_t i = 0; i < 2; ++i) {
      CHECK(report.runs[i].identical());
      CHECK(report.runs[i].generation.accepted_per_step() > 1.2);
    }
    CHECK(report.runs[2].generation.reads_saved > 0.05);
    CHECK(report.runs[2].generation.reads_saved < 0.5);  // two of four layers read everything
  }
}

}  // namespace versieve::kernels
