// Steps whose yields are given: do they yield just that, led by the host, recorded and under a
// guard, and do the law and the walks give what they say?
#include "engine/run/speculate/synthetic_acceptance.h"

#include <catch2/catch.hpp>
#include <numeric>

#include "engine/run/model/uniform.h"
#include "engine/run/speculate/decoding_pair.h"
#include "model/words/error.h"
#include "tests/engine/run/tiny_engine.h"

namespace versieve::engine {
namespace {

constexpr std::int64_t kPrompt = 61;
constexpr const char* kDeep = "nsa/d5k3n14/bfs/c1/F*";
constexpr const char* kShallow = "nsa/d2k2n5/dfs/c4e/F*";

// Of a tree of two levels 2, 3, 2, 3 ...; of others 1, 4, 6, 2, 1, 4 ...
const std::vector<std::int64_t>& walk_of(const Strategy& strategy) {
  static const std::vector<std::int64_t> none, shallow = {2, 3}, deep = {1, 4, 6, 2};
  if (strategy.draft.levels() > 5) {
    return none;
  }
  return strategy.draft.levels() == 2 ? shallow : deep;
}

GenerateOptions options_of(const SyntheticAcceptance& acceptance, const char* strategy,
                           bool records) {
  GenerateOptions options = tiny::options(strategy, 40);
  options.acceptance = &acceptance;
  options.records_steps = records;
  return options;
}

double mean_of(const std::vector<std::int32_t>& yields) {
  return std::accumulate(yields.begin(), yields.end(), 0.0) / static_cast<double>(yields.size());
}

}  // namespace

TEST_CASE("recorded yields stand where the recorded steps began, and between them the next one's") {
  const std::unique_ptr<SyntheticAcceptance> recorded = recorded_acceptance(walk_of);
  CHECK(recorded->yields(Strategy::parse(kDeep), 17) ==
        std::vector<std::int32_t>{1, 4, 6, 6, 6, 6, 2, 2, 2, 2, 2, 2, 1, 1, 4, 6, 6});
  CHECK(recorded->yields(Strategy::parse("nsa/ar"), 3) == std::vector<std::int32_t>{1, 1, 1});
  CHECK(recorded->yields(Strategy::parse(kDeep), 1) == std::vector<std::int32_t>{1});
  CHECK(recorded->lacking_because(Strategy::parse(kDeep)).empty());
  CHECK(recorded->lacking_because(Strategy::parse("nsa/ar")).empty());
  CHECK(!recorded->lacking_because(Strategy::parse("nsa/d6k3n14/bfs/c1/F*")).empty());
}

TEST_CASE("a law's steps yield what is expected in the mean, and tuples share the draws") {
  const ExpectedOf expected_of = [](const Strategy& strategy) -> std::optional<double> {
    return strategy.draft.levels() == 2 ? std::optional(1.9) : std::optional(3.2);
  };
  double deep = 0.0, shallow = 0.0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const std::unique_ptr<SyntheticAcceptance> law = law_acceptance(expected_of, mix_bits(seed));
    const std::vector<std::int32_t> of_deep = law->yields(Strategy::parse(kDeep), 200);
    const std::vector<std::int32_t> of_shallow = law->yields(Strategy::parse(kShallow), 200);
    deep += mean_of(of_deep) / 200.0;
    shallow += mean_of(of_shallow) / 200.0;
    for (std::size_t i = 0; i < of_deep.size(); ++i) {
      REQUIRE((of_deep[i] >= 1 && of_deep[i] <= 6 && of_shallow[i] <= 3));
      // A level of the deep tree is likelier: what the shallow one takes, it takes.
      REQUIRE(of_deep[i] >= of_shallow[i]);
    }
    CHECK(law->yields(Strategy::parse(kDeep), 200) == of_deep);
  }
  CHECK(deep == Approx(3.2).epsilon(0.02));
  CHECK(shallow == Approx(1.9).epsilon(0.02));
  const std::unique_ptr<SyntheticAcceptance> none =
      law_acceptance([](const Strategy&) { return std::optional<double>(); }, 1);
  CHECK(!none->lacking_because(Strategy::parse(kDeep)).empty());
  CHECK(none->lacking_because(Strategy::parse("nsa/ar")).empty());
}

TEST_CASE("a level's probability gives the mean, and bounds what cannot be") {
  CHECK(level_probability(1.0, 6) == 0.0);
  CHECK(level_probability(0.5, 6) == 0.0);
  CHECK(level_probability(7.0, 6) == Approx(1.0));
  CHECK(level_probability(9.0, 6) == 1.0);
  CHECK(level_probability(1.75, 2) == Approx(0.5));
  CHECK(parse_acceptance_from("law") == AcceptanceFrom::kLaw);
  CHECK_THROWS_AS(parse_acceptance_from("measured"), Error);
}

TEST_CASE("steps yield what is given, led by the host and recorded") {
  const std::unique_ptr<kernels::Ops<float>> ops = kernels::make_cpu_ops<float>(1);
  DecodingPair<float> pair(*ops, tiny::shape(), 3);
  const std::unique_ptr<SyntheticAcceptance> acceptance = recorded_acceptance(walk_of);
  pair.generator().prefill(tiny::prompt(kPrompt));
  std::vector<Generation> made;
  for (const bool records : {false, true}) {
    CAPTURE(records);
    const Generation run = pair.generator().run(options_of(*acceptance, kDeep, records));
    CHECK(run.recorded == records);
    CHECK(run.tokens.size() == 40);
    // 39 tokens of 1, 4, 6, 2, 1, 4, 6, 2, 1, 4, 6, 2.
    CHECK(run.accepted_histogram == std::vector<std::int64_t>{0, 3, 3, 0, 3, 0, 3});
    made.push_back(run);
    const Generation plain = pair.generator().run(options_of(*acceptance, "nsa/ar", records));
    CHECK(plain.steps == 39);
  }
  CHECK(made[0].tokens == made[1].tokens);
  // Without it the target decides again, by recordings of their own.
  const Generation own = pair.generator().run(tiny::options(kDeep, 40));
  GenerateOptions recorded = tiny::options(kDeep, 40);
  recorded.records_steps = true;
  CHECK(pair.generator().run(recorded).accepted_histogram == own.accepted_histogram);
  CHECK(own.accepted_histogram != made[0].accepted_histogram);
}

TEST_CASE("a tuple that takes over goes on where the text stands") {
  const std::unique_ptr<kernels::Ops<float>> ops = kernels::make_cpu_ops<float>(1);
  DecodingPair<float> pair(*ops, tiny::shape(), 3);
  const std::unique_ptr<SyntheticAcceptance> acceptance = recorded_acceptance(walk_of);
  pair.generator().prefill(tiny::prompt(kPrompt));
  const std::vector<Strategy> ranked = {Strategy::parse(kDeep), Strategy::parse("nsa/ar"),
                                        Strategy::parse(kShallow)};
  // From 80 tokens on plain, from 90 on the shallow tree.
  const std::vector<GuardStage> stages = {
      {.after = 0, .ranked = {{}}}, {.after = 80, .ranked = {{}}}, {.after = 90, .ranked = {{}}}};
  for (const bool records : {false, true}) {
    CAPTURE(records);
    RuntimeGuard guard({.drop_ratio = 0.0}, GuardRule::kNextRanked, stages, kPrompt);
    const Generation run =
        pair.generator().run_guarded(options_of(*acceptance, kDeep, records), ranked, guard);
    REQUIRE(run.moves.size() == 2);
    CHECK(run.moves[0].index == 1);
    CHECK(run.moves[1].index == 2);
    CHECK(run.tokens.size() == 40);
    // 1, 4, 6, 2, 1, 4, 6 (85 tokens; recorded, one step more is under way), then single tokens,
    // then twos and threes.
    CHECK(run.accepted_histogram.size() == 7);
    CHECK(run.accepted_histogram[6] == 2);
    CHECK(run.accepted_histogram[3] >= 2);
  }
}

}  // namespace versieve::engine
