// A draft that takes fewer positions than its target: does it fall silent where they end, and does
// the text stay plain decoding's, whoever leads the steps?
#include <catch2/catch.hpp>

#include "engine/io/atomic_file.h"
#include "engine/io/strict_json.h"
#include "engine/run/specattn/dense_pair.h"
#include "tests/engine/run/tiny_engine.h"
#include "tests/support/errors.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_model.h"

namespace versieve::engine {
namespace {

constexpr std::int64_t kPositions = 110;
constexpr std::int64_t kLastRoot = kPositions - kernels::kMaxPathNodes;

std::unique_ptr<tiny::Engine<float>> short_engine(std::int64_t positions = kPositions) {
  DraftShape drafts = tiny::draft_shape(tiny::shape());
  drafts.max_position = positions;
  return std::make_unique<tiny::Engine<float>>(kernels::make_cpu_ops<float>(1), tiny::shape(),
                                               drafts, 11);
}

// Steps whose tree has the root alone, and others; each must lie on its side of the limit.
struct Sides {
  int drafted = 0, plain = 0;

  void watch(GenerateOptions& options) {
    options.on_step = [this](const StepResult& step) {
      CHECK((step.tree.size() == 1) == (step.context_len > kLastRoot));
      ++(step.tree.size() == 1 ? plain : drafted);
    };
  }
};

TEST_CASE("a draft of fewer positions is silent where they end") {
  const auto engine = short_engine();
  for (const std::int64_t prompt_len : {30, 76, 77, 78, 100, 200}) {
    engine->generator.prefill(tiny::prompt(prompt_len));
    const Generation plain = engine->generator.run(tiny::options("nsa/ar", 90));
    for (const char* text : {"nsa/d4k3n14/bfs/c1/F*", "nsa/d7k1n8/dfs/c2e/FRR"}) {
      CAPTURE(prompt_len, text);
      GenerateOptions options = tiny::options(text, 90);
      Sides sides;
      sides.watch(options);
      const Generation host = engine->generator.run(options);
      CHECK((sides.drafted > 0) == (prompt_len <= kLastRoot));
      CHECK(sides.plain > 0);
      options.on_step = {};
      options.records_steps = true;
      const Generation device = engine->generator.run(options);
      CHECK(device.recorded);
      CHECK(device.tokens == host.tokens);
      CHECK(device.steps == host.steps);
      CHECK(device.accepted_histogram == host.accepted_histogram);
      CHECK((std::string(text).ends_with("FRR") || host.tokens == plain.tokens));
    }
  }
}

TEST_CASE("a draft whose positions suffice drafts to the end") {
  const auto engine = short_engine(30 + 90 + kernels::kMaxPathNodes);
  engine->generator.prefill(tiny::prompt(30));
  GenerateOptions options = tiny::options("nsa/d4k3n14/bfs/c1/F*", 90);
  options.on_step = [](const StepResult& step) { CHECK(step.tree.size() > 1); };
  engine->generator.run(options);
}

TEST_CASE("sampled chains and guarded runs end at the draft's positions too") {
  const auto engine = short_engine();
  engine->generator.prefill(tiny::prompt(40));
  for (const char* sampling : {"", "/sampling=exact"}) {
    GenerateOptions options = tiny::options(std::string("nsa/d4k1n5/bfs/c1/F*") + sampling, 90);
    options.temperature = 0.8;
    Sides sides;
    sides.watch(options);
    engine->generator.run(options);
    CHECK(sides.drafted > 0);
    CHECK(sides.plain > 0);
  }
  for (const bool records : {false, true}) {
    const tiny::GuardedRuns runs = tiny::impatient_runs(
        *engine, 80, records, {"nsa/d4k3n12/bfs/c1/F*", "nsa/ar", "nsa/d2k2n5/dfs/c4e/F*"});
    CHECK(runs.guarded.tokens == runs.plain.tokens);
  }
}

TEST_CASE("a draft model of fewer positions is silent where they end, and chooses no tokens") {
  LlmShape target_shape = tiny::shape(AttentionKind::kDense);
  LlmShape draft_shape = target_shape;
  draft_shape.max_position = kPositions;
  const auto ops = kernels::make_cpu_ops<float>(1);
  const DraftShape none = tiny::draft_shape(tiny::shape());
  Target<float> target = make_synthetic_target<float>(*ops, target_shape, none, 11);
  Target<float> draft = make_synthetic_target<float>(*ops, draft_shape, none, 12);
  Generator<float> generator(*ops, target, nullptr, &draft);
  for (const std::int64_t prompt_len : {40, 90}) {
    generator.prefill(tiny::prompt(prompt_len));
    const Generation plain = generator.run(tiny::options("dense/ar", 70));
    GenerateOptions options = tiny::options("dense/d4k1n5/bfs/c1/F*", 70);
    Sides sides;
    sides.watch(options);
    CHECK(generator.run(options).tokens == plain.tokens);
    CHECK((sides.drafted > 0) == (prompt_len == 40));
  }
  generator.set_layer_map({0, 1, 2});
  CHECK_THAT(generator.refusal(tiny::options("specattn:p0.97/d4k1n5/bfs/c1/F*")),
             Catch::Contains("as many positions"));
}

TEST_CASE("methods that choose from all tokens are refused on a target with windows") {
  LlmShape shape = tiny::shape(AttentionKind::kDense);
  shape.dense_layers = {{.window = 12}, {}, {.window = 12}};
  tiny::Engine<float> engine(shape);
  CHECK_THAT(engine.generator.refusal(tiny::options("resa:b16p0.1f32/ar")),
             Catch::Contains("a window of them"));
  const tiny::TwoRuns runs = tiny::scripted_runs(engine, 50, "/c1/F*", Traversal::kBfs, false, 60);
  CHECK(runs.tree.tokens == runs.plain.tokens);
  CHECK(runs.tree.accepted_per_step() > 1.5);
}

TEST_CASE("align and quality say that they take no windows, on either side of a pair") {
  test::TinyModel model;
  model.target.attention = AttentionKind::kDense;
  const auto ops = kernels::make_cpu_ops<float>(1);
  const auto refusal = [&](const char* windowed) {
    const test::TempFolder folder;
    write_tiny_target(folder.path(), model);
    write_tiny_target(folder / "draft", model);
    for (const char* part : {".", "draft"}) {
      const std::filesystem::path path = folder / part / "config.json";
      nlohmann::json config = read_json_object(path);
      config["architectures"] = {"MistralForCausalLM"};
      config["model_type"] = "mistral";
      config["sliding_window"] =
          std::string(part) == windowed ? nlohmann::json(24) : nlohmann::json(nullptr);
      write_file_atomically(path, config.dump());
    }
    const Error error = test::error_of([&] { DensePair<float>(*ops, folder.path()); });
    CHECK(error.code() == ExitCode::kAnswerNo);
    return std::string(error.what());
  };
  CHECK_THAT(refusal("."), Catch::Contains("the target has layers that see a window"));
  CHECK_THAT(refusal("draft"), Catch::Contains("the draft has layers that see a window"));
}

TEST_CASE("trees keep the text of a target without a window branch") {
  LlmShape shape = tiny::shape();
  shape.nsa.window = 0;
  tiny::Engine<float> engine(shape);
  for (const char* rest : {"/c1/F*", "/c4e/FRR"}) {
    const tiny::TwoRuns runs = tiny::scripted_runs(engine, 61, rest, Traversal::kDfs, false, 80);
    CHECK(runs.tree.tokens == runs.plain.tokens);
    CHECK(runs.tree.accepted_per_step() > 1.5);
  }
}

}  // namespace
}  // namespace versieve::engine
