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

}  // namespace versieve::engine
