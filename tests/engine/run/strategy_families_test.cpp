// Every kind of tuple that is legal on a target generates there: tiny random models, a few tokens.
#include <catch2/catch.hpp>
#include <map>
#include <set>

#include "model/words/error.h"
#include "tests/engine/run/tiny_engine.h"

namespace versieve::engine {
namespace {

constexpr std::int64_t kTokens = 6;

struct Family {
  const char* attention;
  AttentionKind target;
};
constexpr Family kFamilies[] = {{"nsa", AttentionKind::kNsa},
                                {"dense", AttentionKind::kDense},
                                {"resa:b4p0.3f4", AttentionKind::kDense},
                                {"resa:b4p0.3f4n_min2n_local3", AttentionKind::kDense},
                                {"resa:b4p0.3f0", AttentionKind::kDense},
                                {"specattn:p0.9", AttentionKind::kDense},
                                {"indexer:k20w4", AttentionKind::kDense}};

// The product of the grammar's parts at small sizes.
std::vector<Strategy> tuples_of(const std::string& attention) {
  std::vector<Strategy> tuples;
  for (const char* draft : {"/ar", "/d2k1n3", "/d2k2n5"}) {
    for (const char* place : {"/bfs/c1", "/dfs/c2e", "/bfs/c2a"}) {
      for (const char* schedule : {"/F*", "/(FR)*", "/FRF"}) {
        for (const char* topk : {"", "/topk=sort", "/topk=radix", "/topk=gvr"}) {
          for (const char* sampling :
               {"", "/sampling=greedy", "/sampling=baseline", "/sampling=exact",
                "/sampling=sigmoid", "/sampling=coupled"}) {
            for (const char* form : {"", "/form=vanilla", "/draft=resa:b4p0.3n_min2",
                                     "/form=vanilla/draft=resa:b4p0.3"}) {
              const std::string text =
                  attention + draft + place + schedule + topk + sampling + form;
              try {
                tuples.push_back(Strategy::parse(text));
              } catch (const Error&) {  // no text of a strategy: `ar` in groups, `nsa/ar` in full
              }
            }
          }
        }
      }
    }
  }
  return tuples;
}

// A tiny target with the draft that its family needs: a head, or a model.
struct Bench {
  explicit Bench(AttentionKind kind, bool chooses)
      : head(kernels::make_cpu_ops<float>(1), tiny::shape(kind)),
        model(make_synthetic_target<float>(*head.ops, tiny::shape(AttentionKind::kDense),
                                           tiny::draft_shape(tiny::shape()), 12)),
        choosing(*head.ops, head.target, nullptr, &model),
        generator(chooses ? choosing : head.generator) {
    choosing.set_layer_map({0, 1, 2});
    generator.prefill(tiny::prompt(70));
  }

  tiny::Engine<float> head;
  Target<float> model;
  Generator<float> choosing;
  Generator<float>& generator;
};

}  // namespace

TEST_CASE("every legal kind of tuple generates") {
  std::map<PrecisionClass, int> ran;
  int refused = 0;
  for (const Family& family : kFamilies) {
    const bool chooses = std::string(family.attention).starts_with("specattn");
    Bench bench(family.target, chooses);
    for (const Strategy& strategy : tuples_of(family.attention)) {
      CAPTURE(strategy.text());
      GenerateOptions options{.strategy = strategy, .max_new_tokens = kTokens, .seed = 3};
      const bool samples = strategy.sampling && *strategy.sampling != SamplingAlgorithm::kGreedy;
      options.temperature = samples ? 0.8 : 0.0;
      if (!illegal_because(strategy, bench.head.target.shape()).empty()) {
        CHECK(bench.generator.refusal(options) != "");
        ++refused;
        continue;
      }
      REQUIRE(bench.generator.refusal(options) == "");
      const Generation run = bench.generator.run(options);
      CHECK(static_cast<std::int64_t>(run.tokens.size()) == kTokens);
      for (const std::int32_t token : run.tokens) {
        CHECK((token >= 0 && token < 40));
      }
      ++ran[strategy.precision()];
    }
  }
  CHECK(ran.size() == kPrecisionClassCount);
  CHECK(refused > 100);
}

TEST_CASE("whatever ranks the blocks, the text is the same") {
  tiny::Engine<float> engine;
  engine.generator.prefill(tiny::prompt(150));
  for (const char* rest : {"/ar/bfs/c1/F*", "/d3k2n7/bfs/c1/(FR)*", "/d3k2n7/dfs/c2a/F*"}) {
    CAPTURE(rest);
    const std::string tuple = std::string("nsa") + rest;
    const Generation sorted = engine.generator.run(tiny::options(tuple + "/form=vanilla", 40));
    for (const char* option : {"/topk=sort", "/topk=radix", "/topk=gvr"}) {
      CHECK(engine.generator.run(tiny::options(tuple + option + "/form=vanilla", 40)).tokens ==
            sorted.tokens);
    }
  }
}

TEST_CASE("ranking begins with the blocks of the newest committed token, whatever it ranks") {
  tiny::Engine<float> engine;
  CHECK(engine.target.hinted_blocks(0).empty());
  engine.generator.prefill(tiny::prompt(150));
  for (const char* tuple : {"nsa/d3k2n7/bfs/c1/F*/topk=gvr/form=vanilla", "nsa/ar"}) {
    GenerateOptions options = tiny::options(tuple, 30);
    options.on_step = [&](const StepResult& step) {
      const std::size_t row = engine.target.hinted_blocks(1).size();
      REQUIRE(row > 0);
      const std::vector<std::int32_t> blocks = engine.target.selected_blocks(1);
      const std::size_t first = static_cast<std::size_t>(step.acceptance.path.back()) * row;
      CHECK(engine.target.hinted_blocks(1) ==
            std::vector<std::int32_t>(blocks.begin() + static_cast<std::ptrdiff_t>(first),
                                      blocks.begin() + static_cast<std::ptrdiff_t>(first + row)));
    };
    CHECK(engine.generator.run(options).tokens.size() == 30);
  }
  // More rows than ever: what they held is gone.
  const std::vector<std::int32_t> wide(300, 7);
  engine.target.verify(chain_tree(wide), {});
  CHECK(engine.target.hinted_blocks(1).empty());
}

TEST_CASE("sigmoids are refused where there is no law to compare, and take the text elsewhere") {
  Bench bench(AttentionKind::kNsa, false);
  GenerateOptions options = tiny::options("nsa/d4k1n5/bfs/c1/F*/sampling=sigmoid", 60);
  CHECK_THAT(bench.generator.refusal(options), Catch::Contains("above 0"));
  options.temperature = 1.0;
  REQUIRE(bench.generator.refusal(options) == "");
  const Generation lossy = bench.generator.run(options);
  options.strategy = Strategy::parse("nsa/d4k1n5/bfs/c1/F*/sampling=exact");
  const Generation exact = bench.generator.run(options);
  // At the paper's scale every sigmoid is near a half: nearly every drafted token is accepted.
  CHECK(lossy.accepted_per_step() > 4.5);
  CHECK(lossy.accepted_per_step() > exact.accepted_per_step());
}

TEST_CASE("sigmoids test a chain of a draft that proposes some of the target's tokens") {
  const LlmShape shape = tiny::shape();
  DraftShape some = tiny::draft_shape(shape);
  some.vocab = 12;
  tiny::Engine<float> engine(kernels::make_cpu_ops<float>(1), shape, some, 11);
  REQUIRE(engine.draft.has_own_vocabulary());
  engine.generator.prefill(tiny::prompt(70));
  GenerateOptions options = tiny::options("nsa/d4k1n5/bfs/c1/F*/sampling=sigmoid", 60);
  options.temperature = 1.0;
  REQUIRE(engine.generator.refusal(options) == "");
  std::set<std::int32_t> proposed(engine.draft.target_tokens().begin(),
                                  engine.draft.target_tokens().end());
  std::int64_t chains = 0;
  options.on_step = [&](const StepResult& step) {
    for (std::size_t i = 1; i < step.tree.token.size(); ++i) {
      CHECK(proposed.count(step.tree.token[i]) == 1);
    }
    chains += step.tree.size() == 5;
  };
  const Generation run = engine.generator.run(options);
  CHECK(chains > 0);
  CHECK(run.accepted_per_step() > 4.5);  // as with all of them
}

TEST_CASE("resa without rectification leaves the cache to its error") {
  Bench bench(AttentionKind::kDense, false);
  const Generation never = bench.generator.run(tiny::options("resa:b4p0.3f0/ar", 40));
  const Generation often = bench.generator.run(tiny::options("resa:b4p0.3f4/ar", 40));
  CHECK(never.rectifications == 0);
  CHECK(often.rectifications == 9);
  CHECK(never.tokens.size() == 40);
}

}  // namespace versieve::engine
