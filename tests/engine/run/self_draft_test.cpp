// A target that drafts for itself by steps over chosen blocks: the text is that of dense decoding,
// whatever the blocks, and where they are all chosen every drafted token stays.
#include <catch2/catch.hpp>

#include "tests/engine/run/tiny_engine.h"

namespace versieve::engine {
namespace {

constexpr std::int64_t kPrompt = 300;
constexpr const char* kAll = "dense/d5k1n6/bfs/c1/F*/draft=resa:b4p1";
constexpr const char* kFew = "dense/d5k1n6/bfs/c1/F*/draft=resa:b4p0.02n_min2";

Generation run_of(tiny::Engine<float>& engine, const std::string& text, double temperature = 0.0,
                  bool records = false) {
  GenerateOptions options = tiny::options(text, 61);
  options.temperature = temperature;
  options.seed = 7;
  options.records_steps = records;
  REQUIRE(engine.generator.refusal(options) == "");
  return engine.generator.run(options);
}

}  // namespace

TEMPLATE_TEST_CASE("a text that the target drafts for itself is the dense text", "", double,
                   float) {
  tiny::Engine<TestType> engine(tiny::shape(AttentionKind::kDense));
  for (const std::uint64_t seed : {1, 2, 3}) {
    engine.generator.prefill(tiny::prompt(kPrompt, seed));
    const std::vector<std::int32_t> dense = engine.generator.run(tiny::options("dense/ar")).tokens;
    for (const char* text : {kAll, kFew, "dense/d32k1n33/bfs/c1/F*/draft=resa:b16p0.05n_min1",
                             "dense/d1k1n2/bfs/c1/F*/draft=resa:b1p0.01n_min1n_local3"}) {
      CAPTURE(seed, text);
      GenerateOptions options = tiny::options(text);
      CHECK(engine.generator.run(options).tokens == dense);
      options.records_steps = true;
      const Generation recorded = engine.generator.run(options);
      CHECK(recorded.tokens == dense);
      CHECK(recorded.record_seconds >= 0.0);
    }
    CHECK(engine.generator.run(tiny::options("dense/ar")).tokens == dense);
  }
}

TEST_CASE("with all blocks chosen every drafted token stays, with few some do not") {
  tiny::Engine<float> engine(tiny::shape(AttentionKind::kDense));
  engine.generator.prefill(tiny::prompt(kPrompt));
  for (const bool records : {false, true}) {
    const Generation all = run_of(engine, kAll, 0.0, records);
    CHECK(all.accepted_histogram == std::vector<std::int64_t>{0, 0, 0, 0, 0, 0, 10});
    const Generation few = run_of(engine, kFew, 0.0, records);
    CHECK(few.accepted_per_step() < 5.5);
    CHECK(few.tokens == all.tokens);
    // Recorded chains are those that the host leads.
    CHECK(few.accepted_histogram == run_of(engine, kFew).accepted_histogram);
  }
}

TEST_CASE("above temperature 0 a target shares its noise with its own drafts") {
  tiny::Engine<float> engine(tiny::shape(AttentionKind::kDense));
  engine.generator.prefill(tiny::prompt(kPrompt));
  const std::vector<std::int32_t> plain = run_of(engine, "dense/ar", 0.8).tokens;
  for (const bool records : {false, true}) {
    CHECK(run_of(engine, kFew, 0.8, records).tokens == plain);
    const Generation all = run_of(engine, kAll, 0.8, records);
    CHECK(all.tokens == plain);
    CHECK(all.accepted_per_step() == 6.0);
  }
  // Chains that are drawn from the sparse steps' own law: all of them stay where it is the
  // target's.
  const Generation drawn =
      run_of(engine, "dense/d5k1n6/bfs/c1/F*/sampling=exact/draft=resa:b4p1", 0.8, true);
  CHECK(drawn.accepted_per_step() == 6.0);
  CHECK(drawn.tokens.size() == 61);
}

TEST_CASE("a target without any draft drafts for itself") {
  const LlmShape shape = tiny::shape(AttentionKind::kDense);
  const std::unique_ptr<kernels::Ops<float>> ops = kernels::make_cpu_ops<float>(1);
  Target<float> target =
      make_synthetic_target<float>(*ops, shape, tiny::draft_shape(tiny::shape()), 11);
  Generator<float> generator(*ops, target, nullptr);
  generator.prefill(tiny::prompt(kPrompt));
  CHECK(generator.refusal(tiny::options("dense/d5k1n6/bfs/c1/F*")) != "");
  REQUIRE(generator.refusal(tiny::options(kFew)) == "");
  CHECK(generator.run(tiny::options(kFew)).tokens ==
        generator.run(tiny::options("dense/ar")).tokens);
}

TEST_CASE("under a guard a target's own drafts come and go, and its head is fed") {
  tiny::Engine<float> engine(tiny::shape(AttentionKind::kDense));
  engine.generator.prefill(tiny::prompt(61));
  const std::vector<std::int32_t> dense =
      engine.generator.run(tiny::options("dense/ar", 60)).tokens;
  std::vector<Strategy> ranked;
  for (const char* text : {kFew, "dense/d4k3n12/bfs/c1/F*", kAll, "resa:b4p1f4/ar", kFew}) {
    ranked.push_back(Strategy::parse(text));
  }
  RuntimeGuard guard({.drop_ratio = 100.0, .warmup = 0, .hysteresis = 2, .max_transitions = 4},
                     GuardRule::kNextRanked,
                     std::vector<GuardedTuple>(ranked.size(), {.expected_accepted = 9.0}));
  const Generation run = engine.generator.run_guarded(tiny::options("dense/ar", 60), ranked, guard);
  REQUIRE(run.moves.size() >= 3);
  CHECK(run.tokens == dense);
}

TEST_CASE("n_min and n_local decide which blocks a decoded token reads") {
  tiny::Engine<float> engine(tiny::shape(AttentionKind::kDense));
  engine.generator.prefill(tiny::prompt(kPrompt));
  const auto text = [&](const char* strategy) {
    return engine.generator.run(tiny::options(strategy)).tokens;
  };
  const std::vector<std::int32_t> dense = text("dense/ar");
  // 365 tokens at the end are 92 blocks of 4: as many as are asked for at least are all.
  CHECK(text("resa:b4p0.01f0n_min92/ar") == dense);
  CHECK(text("resa:b4p0.01f0n_local92/ar") == dense);
  CHECK(text("resa:b4p0.01f0n_min1/ar") != dense);
  CHECK(text("resa:b4p0.01f0n_min2/ar") != text("resa:b4p0.01f0n_min2n_local2/ar"));
}

}  // namespace versieve::engine
