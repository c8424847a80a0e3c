// Requests whose tuple a guard changes, led by the host and through recorded steps: is the text
// that of plain decoding, and does the draft know every token when a tree follows?
#include <catch2/catch.hpp>

#include <algorithm>
#include <span>

#include "tests/engine/run/tiny_engine.h"

namespace versieve::engine {
namespace {

constexpr std::int64_t kTokens = 90;
constexpr const char* kTree = "nsa/d4k3n12/bfs/c1/F*";

// The draft's keys of the positions behind the prompt, but for those of the last steps.
std::span<double> drafted_keys(tiny::Engine<double>& engine) {
  const std::int64_t width = engine.draft.shape().num_kv_heads * engine.draft.shape().head_dim;
  return {engine.draft.k() + 61 * width, static_cast<std::size_t>((kTokens - 14) * width)};
}

void check_moves(const tiny::GuardedRuns& runs) {
  CHECK(runs.guarded.tokens == runs.plain.tokens);
  CHECK(runs.guarded.stopped == runs.plain.stopped);
  REQUIRE(runs.guarded.moves.size() >= 2);
  CHECK(runs.guarded.moves[0].index == 1);
  CHECK(runs.guarded.moves[1].index == 2);
  CHECK(runs.has_settled);
}

}  // namespace

TEST_CASE("a guard that changes the tuple keeps the text, and settles on the best one") {
  tiny::Engine<double> engine;
  for (const bool records : {false, true}) {
    const tiny::GuardedRuns runs = tiny::impatient_runs(engine, kTokens, records);
    check_moves(runs);
    CHECK(runs.guarded.recorded == records);
  }
}

TEST_CASE("a tuple that takes over drafts what it would have drafted all along") {
  tiny::Engine<double> engine;
  for (const bool records : {false, true}) {
    const tiny::GuardedRuns runs =
        tiny::impatient_runs(engine, kTokens, records, {kTree, kTree, kTree});
    check_moves(runs);
    GenerateOptions alone = tiny::options(kTree, kTokens);
    alone.records_steps = records;
    CHECK(engine.generator.run(alone).accepted_histogram == runs.guarded.accepted_histogram);
  }
}

TEST_CASE("the draft takes in what plain decoding commits between two trees") {
  tiny::Engine<double> engine;
  tiny::impatient_runs(engine, kTokens, false, {kTree, kTree, kTree});
  const std::vector<double> keys(drafted_keys(engine).begin(), drafted_keys(engine).end());
  for (const bool records : {false, true}) {
    std::ranges::fill(drafted_keys(engine), 7.0);  // nobody may live on what was there
    check_moves(tiny::impatient_runs(engine, kTokens, records, {kTree, "nsa/ar", kTree}));
    CHECK(std::ranges::equal(drafted_keys(engine), keys));
  }
}

TEST_CASE("a draft model that takes over has read the text so far") {
  tiny::DenseEngine<float> engine(11);  // the target itself, so always right
  engine.generator.prefill(tiny::prompt(30));
  const std::vector<Strategy> ranked(3, Strategy::parse("dense/d5k1n6/bfs/c1/F*"));
  RuntimeGuard guard({.drop_ratio = 100.0, .warmup = 0, .hysteresis = 1}, GuardRule::kNextRanked,
                     std::vector<GuardedTuple>(ranked.size(), {.expected_accepted = 4.0}));
  const Generation guarded =
      engine.generator.run_guarded(tiny::options("dense/ar", 61), ranked, guard);
  CHECK(guarded.moves.size() >= 2);
  CHECK(guarded.accepted_histogram == std::vector<std::int64_t>{0, 0, 0, 0, 0, 0, 10});
}

// A guard that takes every step for a low one, and moves after so many.
template <class Pair>
Generation impatient(Pair& engine, const std::vector<std::string>& texts, GenerateOptions options,
                     std::int64_t steps = 1) {
  std::vector<Strategy> ranked;
  for (const std::string& text : texts) {
    ranked.push_back(Strategy::parse(text));
  }
  RuntimeGuard guard({.drop_ratio = 100.0, .warmup = 0, .hysteresis = steps},
                     GuardRule::kNextRanked,
                     std::vector<GuardedTuple>(ranked.size(), {.expected_accepted = 4.0}));
  return engine.generator.run_guarded(options, ranked, guard);
}

TEST_CASE("tuples that read a part of the context take over in a request's middle") {
  // The draft is the target itself, and shares and active parts are all there is: whoever reads
  // whatever, the text is that of plain decoding.
  tiny::DenseEngine<float> engine(11);
  engine.generator.set_layer_map({0, 1, 2});
  engine.generator.prefill(tiny::prompt(70));
  const std::vector<std::int32_t> plain =
      engine.generator.run(tiny::options("dense/ar", 24)).tokens;
  const std::vector<std::string> all = {"specattn:p1/d3k1n4/bfs/c1/F*", "resa:b4p1f4/ar",
                                        "dense/d2k1n3/bfs/c1/F*"};
  const Generation run = impatient(engine, all, tiny::options("dense/ar", 24));
  REQUIRE(run.moves.size() >= 2);
  CHECK(run.tokens == plain);
  const Generation back =
      impatient(engine, {all[2], all[1], all[0]}, tiny::options("dense/ar", 24));
  REQUIRE(back.moves.size() >= 2);
  CHECK(back.tokens == plain);
  // What an active tuple set up is gone with it: the same again, and plain decoding too.
  CHECK(impatient(engine, all, tiny::options("dense/ar", 24)).tokens == plain);
  CHECK(engine.generator.run(tiny::options("dense/ar", 24)).tokens == plain);
}

TEST_CASE("a guarded tuple of ReSA rectifies as without a guard, and SpecAttn counts its reads") {
  tiny::DenseEngine<float> engine(11);
  engine.generator.set_layer_map({0, 1, 2});
  engine.generator.prefill(tiny::prompt(70));
  RuntimeGuard stays({.drop_ratio = 0.0}, GuardRule::kNextRanked, {{.expected_accepted = 1.0}});
  const Strategy resa = Strategy::parse("resa:b4p0.1f4/ar");
  const Generation guarded =
      engine.generator.run_guarded(tiny::options("dense/ar", 22), {&resa, 1}, stays);
  const Generation alone = engine.generator.run(tiny::options(resa.text(), 22));
  CHECK(guarded.rectifications == 5);
  CHECK(guarded.rectifications == alone.rectifications);
  CHECK(guarded.tokens == alone.tokens);
  const Strategy chosen = Strategy::parse("specattn:p0.5/d3k1n4/bfs/c1/F*");
  const Generation reads =
      engine.generator.run_guarded(tiny::options("dense/ar", 22), {&chosen, 1}, stays);
  const Generation own = engine.generator.run(tiny::options(chosen.text(), 22));
  CHECK(own.reads_saved > 0.0);
  CHECK(reads.reads_saved == own.reads_saved);
  CHECK(reads.tokens == own.tokens);
}

TEST_CASE("a draft head is fed while a tuple of ReSA rectifies, and drafts on afterwards") {
  tiny::Engine<float> engine(tiny::shape(AttentionKind::kDense));
  engine.generator.prefill(tiny::prompt(61));
  // The tokens of all trees that follow a first phase of four steps, at whose end ReSA's pass is.
  const auto trees = [&](const std::string& first) {
    GenerateOptions options = tiny::options("dense/ar", 40);
    std::vector<std::vector<std::int32_t>> grown;
    options.on_step = [&](const StepResult& step) {
      if (step.tree.size() > 1) {
        grown.push_back(step.tree.token);
      }
    };
    impatient(engine, {first, "dense/d4k3n12/bfs/c1/F*", first}, options, 4);
    return grown;
  };
  // All blocks are active: what ReSA commits is what plain decoding does, so the head must see the
  // same streams and grow the same trees.
  const std::vector<std::vector<std::int32_t>> plain = trees("dense/ar");
  CHECK(plain.size() >= 4);
  CHECK(trees("resa:b4p1f4/ar") == plain);
}

}  // namespace versieve::engine
