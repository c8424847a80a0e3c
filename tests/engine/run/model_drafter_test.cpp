// A draft that is a model of its own: is the text the target's, and does the draft really know the
// true tokens?
#include <catch2/catch.hpp>

#include "engine/io/checkpoint.h"
#include "engine/run/speculate/draft_source.h"
#include "engine/run/speculate/model_drafter.h"
#include "tests/engine/run/tiny_engine.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_model.h"

namespace versieve::engine {
namespace {

using tiny::DenseEngine;

constexpr std::int64_t kTokens = 60;

}  // namespace

TEST_CASE("a draft folder says whether it holds a model or a head") {
  const test::TempFolder folder;
  test::TinyModel model;
  test::write_tiny_draft(folder / "head", model);
  CHECK(!is_draft_model(folder / "head"));
  model.target.attention = AttentionKind::kDense;
  test::write_tiny_dense_pair(folder / "pair", model, 2);
  CHECK(is_draft_model(folder / "pair/draft"));
}

TEMPLATE_TEST_CASE("a draft model's chains and trees keep the autoregressive text", "", float,
                   double) {
  DenseEngine<TestType> engine(99, 2);
  for (const std::int64_t prompt_len : {1, 7, 300}) {
    engine.generator.prefill(tiny::prompt(prompt_len));
    const Generation plain = engine.generator.run(tiny::options("dense/ar", kTokens));
    for (const char* text : {"dense/d1k1n2/bfs/c1/F*", "dense/d5k1n6/bfs/c1/F*",
                             "dense/d3k3n9/bfs/c1/F*", "dense/d4k2n12/dfs/c1/F*"}) {
      INFO(text << " after " << prompt_len);
      CHECK(engine.generator.run(tiny::options(text, kTokens)).tokens == plain.tokens);
    }
  }
}

TEST_CASE("a draft that is the target itself is always right") {
  DenseEngine<float> engine(11);
  engine.generator.prefill(tiny::prompt(30));
  const Generation chain = engine.generator.run(tiny::options("dense/d5k1n6/bfs/c1/F*", 61));
  CHECK(chain.accepted_histogram == std::vector<std::int64_t>{0, 0, 0, 0, 0, 0, 10});
  // A tree keeps the greedy path unless many others are likelier.
  const Generation tree = engine.generator.run(tiny::options("dense/d3k2n10/bfs/c1/F*", 61));
  CHECK(tree.accepted_per_step() > 3.5);
}

TEST_CASE("a draft model's chain may be sampled") {
  DenseEngine<float> engine(11);
  engine.generator.prefill(tiny::prompt(30));
  GenerateOptions options = tiny::options("dense/d5k1n6/bfs/c1/F*", 61);
  options.temperature = 1.0;
  options.seed = 4;
  // Shared noise on the same logits, or the same law that proposes and tests: nothing is rejected.
  CHECK(engine.generator.run(options).accepted_per_step() == 6.0);
  options.strategy = Strategy::parse("dense/d5k1n6/bfs/c1/F*/sampling=exact");
  CHECK(engine.generator.run(options).accepted_per_step() == 6.0);
}

TEST_CASE("a draft model's attention is that of its own steps over the true context") {
  DenseEngine<double> engine(99, 2);
  const std::vector<std::int32_t> text = tiny::prompt(40);
  engine.generator.prefill(std::span(text).first(20));
  ModelDrafter<double> drafter(*engine.ops, engine.draft, {text.begin(), text.begin() + 20}, true);
  drafter.capture_attention(3);
  drafter.begin(30, {.first = 19,
                     .next_token = {text.begin() + 20, text.begin() + 31},
                     .captured = nullptr,
                     .rows = {}});
  drafter.step({.token = {text[31]}, .position = {31}, .parent = {-1}});
  drafter.step({.token = {text[32]}, .position = {32}, .parent = {0}});
  const DraftAttention<double> attention = drafter.attention();
  CHECK(attention.steps == 3);
  CHECK(attention.context_len == 30);
  // The same rows, each from one pass over the whole text up to its node.
  for (std::int64_t row = 0; row < 3; ++row) {
    kernels::OpsBuffer<double> weights(*engine.ops, 2 * 40);
    engine.draft.cache().truncate(0);
    engine.draft.set_attention_capture({.layer_stride = 40, .weights = weights.data()});
    engine.draft.verify(chain_tree({text.begin(), text.begin() + 31 + row}), {});
    engine.draft.set_attention_capture({});
    for (std::int64_t layer = 0; layer < 2; ++layer) {
      double sum = 0.0;
      for (std::int64_t k = 0; k <= 30 + row; ++k) {
        CHECK(attention.weights[layer * attention.layer_stride + row * attention.stride + k] ==
              Approx(weights.data()[layer * 40 + k]).margin(1e-12));
        sum += weights.data()[layer * 40 + k];
      }
      CHECK(sum == Approx(1.0));
    }
  }
}

TEST_CASE("specattn reads what its share says, and everything at a share of 1") {
  DenseEngine<float> engine(99, 2);
  engine.generator.prefill(tiny::prompt(300));
  const Generation plain = engine.generator.run(tiny::options("dense/ar", kTokens));
  GenerateOptions options = tiny::options("specattn:p1/d5k1n6/bfs/c1/F*", kTokens);
  CHECK(engine.generator.refusal(options) ==
        "specattn needs the model's layer_map.json: write it with versieve align");
  engine.generator.set_layer_map({0, 0, 1});
  CHECK(engine.generator.refusal(options).empty());
  const Generation whole = engine.generator.run(options);
  CHECK(whole.tokens == plain.tokens);  // softmax weighs every token, so p = 1 keeps all
  CHECK(whole.reads_saved == 0.0);
  options.strategy.specattn_p = 0.05;
  const Generation some = engine.generator.run(options);
  CHECK(some.reads_saved > 0.05);
  CHECK(some.reads_saved < 1.0 / 3.0);  // one of three layers is not dense
  CHECK(some.tokens != plain.tokens);
  // Nothing of it stays: the next dense run is the dense run.
  CHECK(engine.generator.run(tiny::options("dense/d5k1n6/bfs/c1/F*", kTokens)).tokens ==
        plain.tokens);
}

TEMPLATE_TEST_CASE("a draft model's recorded chains give the host's tokens", "", float, double) {
  DenseEngine<TestType> engine(99, 2);
  engine.generator.set_layer_map({0, 0, 1});
  for (const std::int64_t prompt_len : {1, 2, 7, 300, 750}) {
    engine.generator.prefill(tiny::prompt(prompt_len));
    for (const char* text :
         {"dense/d1k1n2/bfs/c1/F*", "dense/d5k1n6/bfs/c1/F*", "dense/d5k1n4/bfs/c1/F*",
          "specattn:p0.3/d1k1n2/bfs/c1/F*", "specattn:p0.05/d5k1n6/bfs/c1/F*",
          "specattn:p0.95/d7k1n8/bfs/c1/F*", "specattn:p1/d3k1n4/bfs/c1/F*"}) {
      INFO(text << " after " << prompt_len);
      GenerateOptions options = tiny::options(text, kTokens);
      const Generation led = engine.generator.run(options);
      options.records_steps = true;
      const Generation recorded = engine.generator.run(options);
      CHECK(recorded.recorded);
      CHECK(!led.recorded);
      CHECK(recorded.tokens == led.tokens);
      CHECK(recorded.accepted_histogram == led.accepted_histogram);
      // A step that was enqueued in vain counts too.
      CHECK(recorded.reads_saved == Approx(led.reads_saved).margin(0.02));
      // Recordings serve a second run, and the host goes on where they left the caches.
      CHECK(engine.generator.run(options).tokens == led.tokens);
    }
  }
}

TEST_CASE("a draft model's recorded chains sample the host's tokens") {
  DenseEngine<float> engine(99, 2);
  engine.generator.set_layer_map({0, 0, 1});
  engine.generator.prefill(tiny::prompt(120));
  for (const char* text : {"dense/d5k1n6/bfs/c1/F*", "specattn:p0.3/d5k1n6/bfs/c1/F*"}) {
    GenerateOptions options = tiny::options(text, kTokens);
    options.temperature = 0.8;
    for (const std::uint64_t seed : {3U, 8U}) {
      options.seed = seed;
      options.records_steps = false;
      const Generation led = engine.generator.run(options);
      options.records_steps = true;
      const Generation recorded = engine.generator.run(options);
      INFO(text << " seed " << seed);
      CHECK(recorded.recorded);
      CHECK(recorded.tokens == led.tokens);
    }
  }
}

TEST_CASE("a draft model's trees are led by the host") {
  DenseEngine<float> engine(99, 2);
  engine.generator.prefill(tiny::prompt(30));
  GenerateOptions options = tiny::options("dense/d3k3n9/bfs/c1/F*", kTokens);
  options.records_steps = true;
  CHECK(!engine.generator.run(options).recorded);
}

TEST_CASE("specattn is refused where it has nothing to choose by") {
  DenseEngine<float> engine(99, 2);
  engine.generator.set_layer_map({0, 0, 1});
  engine.generator.prefill(tiny::prompt(10));
  const auto reason = [&](const char* text) {
    return engine.generator.refusal(tiny::options(text));
  };
  CHECK(reason("specattn:p0.9/ar").find("width 1") != std::string::npos);
  CHECK(reason("specattn:p0.9/d4k2n8/bfs/c1/F*").find("width 1") != std::string::npos);
  CHECK(reason("specattn:p0.9/d4k1n5/bfs/c1/(FR)*").find("R layer") != std::string::npos);
  tiny::Engine<float> sparse;
  CHECK(sparse.generator.refusal(tiny::options("specattn:p0.9/d4k1n5/bfs/c1/F*"))
            .find("dense target") != std::string::npos);
  tiny::Engine<float> head(tiny::shape(AttentionKind::kDense));
  CHECK(
      head.generator.refusal(tiny::options("specattn:p0.9/d4k1n5/bfs/c1/F*")).find("draft model") !=
      std::string::npos);
}

}  // namespace versieve::engine
