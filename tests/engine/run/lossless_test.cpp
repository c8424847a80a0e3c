// Is speculative text the autoregressive text, token for token?
#include <catch2/catch.hpp>

#include "tests/engine/run/tiny_engine.h"

namespace versieve::engine {
namespace {

using tiny::Engine;

constexpr std::int64_t kTokens = 90;

// Compares; returns mean tokens a step.
template <class T>
double check_scripted(Engine<T>& engine, std::int64_t prompt_len, const std::string& rest,
                      Traversal order, bool chain) {
  const tiny::TwoRuns runs = tiny::scripted_runs(engine, prompt_len, rest, order, chain, kTokens);
  REQUIRE(runs.plain.tokens.size() == kTokens);
  REQUIRE(runs.plain.steps == kTokens - 1);
  INFO("prompt of " << prompt_len << ", " << rest << ", " << name_of(order));
  CHECK(runs.tree.tokens == runs.plain.tokens);
  CHECK(!first_divergence(runs.tree, runs.plain).has_value());
  return runs.tree.accepted_per_step();
}

TEMPLATE_TEST_CASE("deep accepted paths keep the autoregressive text", "", float, double) {
  Engine<TestType> engine;
  for (const std::int64_t prompt_len : {1, 7, 8, 30, 61}) {
    for (const Traversal order : {Traversal::kBfs, Traversal::kDfs}) {
      for (const bool chain : {false, true}) {
        CHECK(check_scripted(engine, prompt_len, "/c1/F*", order, chain) > 4.0);
      }
    }
  }
}

TEST_CASE("schedules that reuse blocks keep the text of their own autoregressive run") {
  Engine<float> engine;
  for (const char* rest : {"/c1/(FR)*", "/c1/FRR", "/c1/FFR"}) {
    for (const Traversal order : {Traversal::kBfs, Traversal::kDfs}) {
      CHECK(check_scripted(engine, 100, rest, order, false) > 4.0);
    }
  }
}

TEST_CASE("a dense target verifies trees exactly too") {
  Engine<float> engine(tiny::shape(AttentionKind::kDense));
  CHECK(check_scripted(engine, 50, "/c1/F*", Traversal::kBfs, false) > 4.0);
  CHECK(check_scripted(engine, 50, "/c1/F*", Traversal::kDfs, false) > 4.0);
}

TEST_CASE("a family that compresses after rotary verifies trees exactly too") {
  LlmShape shape = tiny::shape();
  shape.compress_stage = CompressStage::kAfterRope;
  Engine<float> engine(shape);
  CHECK(check_scripted(engine, 50, "/c1/F*", Traversal::kBfs, false) > 4.0);
}

TEST_CASE("the draft head's own trees keep the autoregressive text in every shape") {
  Engine<float> engine;
  engine.generator.prefill(tiny::prompt(70));
  const Generation plain = engine.generator.run(tiny::options("nsa/ar", kTokens));
  for (const char* text :
       {"nsa/d1k1n2/bfs/c1/F*", "nsa/d7k1n8/bfs/c1/F*", "nsa/d4k2n9/dfs/c2e/F*",
        "nsa/d3k4n16/bfs/c4e/F*", "nsa/d6k8n64/dfs/c8e/F*", "nsa/d8k10n60/bfs/c8e/F*"}) {
    const Generation run = engine.generator.run(tiny::options(text, kTokens));
    INFO(text);
    CHECK(run.tokens == plain.tokens);
  }
}

TEST_CASE("hiding the path-local compressed tokens is noticed") {
  Engine<float> engine;
  engine.generator.prefill(tiny::prompt(40));
  const Generation plain = engine.generator.run(tiny::options("nsa/ar", 400));
  GenerateOptions faulty = tiny::options("nsa/d5k3n12/bfs/c1/F*", 400);
  faulty.hide_tree_compressed = true;
  tiny::ScriptedSource<float> source(40, plain.tokens, Traversal::kBfs, 11, false);
  const Generation run = engine.generator.run(faulty, source);
  CHECK(first_divergence(run, plain).has_value());
}

TEST_CASE("an end-of-sequence token and the last position stop both runs alike") {
  LlmShape shape = tiny::shape();
  shape.max_position = 100;
  Engine<float> engine(shape);
  engine.generator.prefill(tiny::prompt(60));
  const Generation plain = engine.generator.run(tiny::options("nsa/ar", 200));
  CHECK(plain.tokens.size() == 41);
  CHECK(plain.stopped == StopReason::kMaxPosition);
  tiny::ScriptedSource<float> source(60, plain.tokens, Traversal::kDfs, 9, false);
  GenerateOptions options = tiny::options("nsa/d5k3n12/dfs/c1/F*", 200);
  CHECK(engine.generator.run(options, source).tokens == plain.tokens);
  options.eos = {plain.tokens[17]};
  const Generation cut = engine.generator.run(options, source);
  CHECK(cut.stopped == StopReason::kEos);
  CHECK(cut.tokens.back() == plain.tokens[17]);
  GenerateOptions plain_options = tiny::options("nsa/ar", 200);
  plain_options.eos = options.eos;
  CHECK(engine.generator.run(plain_options).tokens == cut.tokens);
}

}  // namespace
}  // namespace versieve::engine
