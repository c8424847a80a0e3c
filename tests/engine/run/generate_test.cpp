// Does a run do what its options say: counts, rewinding, refusals, teacher forcing, sampling?
#include <catch2/catch.hpp>

#include <cmath>
#include <map>
#include <numeric>

#include "model/words/chain_length.h"
#include "model/words/error.h"
#include "tests/engine/run/tiny_engine.h"

namespace versieve::engine {
namespace {

using tiny::Engine;

TEST_CASE("a run can be had again after other runs") {
  Engine<float> engine;
  engine.generator.prefill(tiny::prompt(90));
  const GenerateOptions options = tiny::options("nsa/d4k3n14/bfs/c1/F*", 60);
  const Generation first = engine.generator.run(options);
  engine.generator.run(tiny::options("nsa/ar/bfs/c1/FRR", 120));
  const Generation again = engine.generator.run(options);
  CHECK(first.tokens == again.tokens);
  CHECK(first.accepted_histogram == again.accepted_histogram);
}

TEST_CASE("the histogram counts every step and every token of it") {
  Engine<float> engine;
  engine.generator.prefill(tiny::prompt(30));
  const Generation plain = engine.generator.run(tiny::options("nsa/ar", 81));
  CHECK(plain.accepted_histogram == std::vector<std::int64_t>{0, 80});
  CHECK(plain.accepted_per_step() == 1.0);
  std::int64_t steps = 0;
  GenerateOptions options = tiny::options("nsa/d5k3n12/bfs/c1/F*", 81);
  options.on_step = [&](const StepResult& step) {
    ++steps;
    CHECK(step.acceptance.yield() >= 1);
  };
  tiny::ScriptedSource<float> source(30, plain.tokens, Traversal::kBfs, 6, false);
  const Generation tree = engine.generator.run(options, source);
  CHECK(tree.steps == steps);
  CHECK(std::accumulate(tree.accepted_histogram.begin(), tree.accepted_histogram.end(),
                        std::int64_t{0}) == steps);
  CHECK(tree.tokens.size() == 81);
  CHECK(tree.accepted_per_step() * static_cast<double>(steps) >= 80.0);
}

TEST_CASE("what has no kernel or no draft is refused with a sentence") {
  Engine<float> engine;
  CHECK(engine.generator.refusal(tiny::options("nsa/d4k3n14/bfs/c4e/F*")).empty());
  CHECK(engine.generator.refusal(tiny::options("nsa/d4k3n14/bfs/c4a/F*")) == "");
  CHECK_THAT(engine.generator.refusal(tiny::options("dense/ar")), Catch::Contains("dense"));
  Generator<float> no_draft(*engine.ops, engine.target, nullptr);
  CHECK_THAT(no_draft.refusal(tiny::options("nsa/d4k3n14/bfs/c1/F*")), Catch::Contains("no draft"));
  CHECK(no_draft.refusal(tiny::options("nsa/ar")).empty());
  Engine<float> dense(tiny::shape(AttentionKind::kDense));
  CHECK_THAT(dense.generator.refusal(tiny::options("dense/ar/bfs/c1/FRR")),
             Catch::Contains("reuse"));
}

TEST_CASE("top-k 1 is greedy text at any temperature, and coupled draws refuse what cuts") {
  Engine<float> engine;
  engine.generator.prefill(tiny::prompt(64));
  const std::vector<std::int32_t> greedy = engine.generator.run(tiny::options("nsa/ar", 40)).tokens;
  for (const char* strategy :
       {"nsa/ar/bfs/c1/F*/sampling=exact", "nsa/d3k1n4/bfs/c1/F*/sampling=exact",
        "nsa/d3k1n4/bfs/c1/F*/sampling=baseline", "nsa/d3k2n8/bfs/c1/F*/sampling=exact"}) {
    GenerateOptions options = tiny::options(strategy, 40);
    options.temperature = 1.0;
    CAPTURE(strategy);
    CHECK(engine.generator.run(options).tokens != greedy);
    options.truncation.top_k = 1;
    CHECK(engine.generator.run(options).tokens == greedy);
    options.truncation = {.top_p = 1e-9};
    CHECK(engine.generator.run(options).tokens == greedy);
  }
  GenerateOptions coupled = tiny::options("nsa/d3k2n8/bfs/c1/F*", 40);
  coupled.temperature = 1.0;
  coupled.truncation.min_p = 0.1;
  CHECK_THAT(engine.generator.refusal(coupled), Catch::Contains("sampling=exact"));
  for (const kernels::Truncation& wrong :
       {kernels::Truncation{.top_k = -1}, kernels::Truncation{.top_p = 0.0},
        kernels::Truncation{.top_p = 1.5}, kernels::Truncation{.min_p = -0.5}}) {
    CHECK_THROWS_AS(check_truncation(wrong), Error);
  }
}

TEST_CASE("a chain's length follows what is accepted: 5, two more for all of it, else one fewer") {
  ChainLength length(8);
  CHECK(length.length() == 5);
  length.count_accepted(5);
  CHECK(length.length() == 7);
  length.count_accepted(7);
  CHECK(length.length() == 8);  // at most the tuple's
  length.count_accepted(7);
  CHECK(length.length() == 7);
  for (int i = 0; i < 9; ++i) {
    length.count_accepted(0);
  }
  CHECK(length.length() == 1);
  length.count_accepted(1);
  CHECK(length.length() == 3);
  CHECK(ChainLength(3).length() == 3);
}

TEST_CASE("chains of a length that follows give plain decoding's text, at its lengths") {
  Engine<float> engine;
  engine.generator.prefill(tiny::prompt(64));
  for (const double temperature : {0.0, 0.7}) {
    GenerateOptions options = tiny::options("nsa/ar", 80);
    options.temperature = temperature;
    const std::vector<std::int32_t> plain = engine.generator.run(options).tokens;
    options.strategy = Strategy::parse("nsa/d9k1n10/bfs/c1/F*/gamma=adapt");
    ChainLength expected(9);
    std::int64_t steps = 0;
    options.on_step = [&](const StepResult& step) {
      ++steps;
      const std::int64_t accepted = step.acceptance.yield() - 1;
      CHECK(accepted <= expected.length());
      expected.count_accepted(accepted);
    };
    CAPTURE(temperature);
    CHECK(engine.generator.run(options).tokens == plain);
    CHECK(steps > 8);
  }
  const GenerateOptions tree = tiny::options("nsa/d3k2n8/bfs/c1/F*/gamma=adapt", 8);
  CHECK_THAT(engine.generator.refusal(tree), Catch::Contains("chains"));
}

TEST_CASE("a narrow sigmoid accepts less than the paper's scale") {
  Engine<float> engine;
  engine.generator.prefill(tiny::prompt(64));
  GenerateOptions options = tiny::options("nsa/d5k1n6/bfs/c1/F*/sampling=sigmoid", 120);
  options.temperature = 1.0;
  const double wide = engine.generator.run(options).accepted_per_step();
  options.sigmoid = {10.0, 11.0};
  const double narrow = engine.generator.run(options).accepted_per_step();
  CHECK(wide > 5.5);
  CHECK(narrow < wide);
  CHECK_THROWS_AS(check_sigmoid({1.0, 1.0}), Error);
  CHECK_THROWS_AS(check_sigmoid({0.0, INFINITY}), Error);
  CHECK_NOTHROW(check_sigmoid({10.0, 11.0}));
}

TEST_CASE("a prompt longer than the model's positions is bad input") {
  LlmShape shape = tiny::shape();
  shape.max_position = 32;
  Engine<float> engine(shape);
  CHECK_THROWS_AS(engine.generator.prefill(tiny::prompt(33)), Error);
  engine.generator.prefill(tiny::prompt(32));
  CHECK(engine.generator.run(tiny::options("nsa/ar", 10)).tokens.size() == 1);
}

TEST_CASE("teacher forcing along the model's own text accepts what generation accepts") {
  Engine<float> engine;
  engine.generator.prefill(tiny::prompt(64));
  const Generation plain = engine.generator.run(tiny::options("nsa/ar", 100));
  const GenerateOptions options = tiny::options("nsa/d4k4n20/dfs/c1/F*", 100);
  const Generation generated = engine.generator.run(options);
  const Generation forced = engine.generator.teacher_forced(options, plain.tokens);
  CHECK(forced.steps == generated.steps);
  CHECK(forced.accepted_histogram == generated.accepted_histogram);
}

TEST_CASE("teacher forcing commits the text, not the tree") {
  Engine<float> engine;
  const std::vector<std::int32_t> text = tiny::prompt(50, 77);
  engine.generator.prefill(tiny::prompt(64));
  std::vector<std::int64_t> contexts;
  GenerateOptions options = tiny::options("nsa/d4k4n20/dfs/c1/F*", 100);
  options.on_step = [&](const StepResult& step) {
    contexts.push_back(step.context_len);
    CHECK(step.tree.token[0] == text[static_cast<std::size_t>(step.context_len - 64)]);
  };
  const Generation forced = engine.generator.teacher_forced(options, text);
  CHECK(forced.steps == static_cast<std::int64_t>(contexts.size()));
  CHECK(contexts.front() == 64);
  CHECK(forced.stopped == StopReason::kTextEnd);
}

TEST_CASE("measured blocks count queries that share all or nothing") {
  const BlockStatistics same = block_statistics({0, 1, 2, -1, 0, 1, 2, -1}, 2, 1, 4);
  CHECK(*same.adjacent_overlap == 1.0);
  CHECK(same.unique_blocks == 3.0);
  const BlockStatistics half = block_statistics({0, 1, 2, 3, 0, 1, 4, 5}, 2, 1, 4);
  CHECK(*half.adjacent_overlap == 0.5);
  CHECK(half.unique_blocks == 6.0);
  CHECK(!block_statistics({0, 1, 2, 3}, 1, 1, 4).adjacent_overlap.has_value());
  Engine<float> engine;
  engine.generator.prefill(tiny::prompt(120));
  GenerateOptions options = tiny::options("nsa/d3k2n8/bfs/c1/F*", 20);
  options.measures_blocks = true;
  const Generation run = engine.generator.run(options);
  REQUIRE(run.overlap.size() == 3);
  CHECK(run.overlap[0].adjacent_overlap > 0.5);  // three of four blocks are forced
  CHECK(run.overlap[0].unique_blocks >= 4.0);
}

// Counts of the first two sampled tokens over many seeds.
std::map<std::vector<std::int32_t>, double> sampled_pairs(Engine<float>& engine,
                                                          const char* strategy, std::uint64_t seed,
                                                          int runs) {
  std::map<std::vector<std::int32_t>, double> counts;
  GenerateOptions options = tiny::options(strategy, 3);
  options.temperature = 0.35;
  for (int i = 0; i < runs; ++i) {
    options.seed = seed + static_cast<std::uint64_t>(i);
    const Generation run = engine.generator.run(options);
    counts[{run.tokens[1], run.tokens[2]}] += 1.0;
  }
  return counts;
}

// Two-sample chi-square over cells with enough in them; returns (statistic - df) / sqrt(2 df).
double chi_square_excess(const std::map<std::vector<std::int32_t>, double>& a,
                         const std::map<std::vector<std::int32_t>, double>& b) {
  double statistic = 0.0;
  double rest_a = 0.0;
  double rest_b = 0.0;
  int cells = 0;
  std::map<std::vector<std::int32_t>, std::pair<double, double>> both;
  for (const auto& [key, count] : a) {
    both[key].first = count;
  }
  for (const auto& [key, count] : b) {
    both[key].second = count;
  }
  const auto add = [&](double x, double y) {
    statistic += (x - y) * (x - y) / (x + y);
    ++cells;
  };
  for (const auto& [key, pair] : both) {
    if (pair.first + pair.second >= 20.0) {
      add(pair.first, pair.second);
    } else {
      rest_a += pair.first;
      rest_b += pair.second;
    }
  }
  if (rest_a + rest_b > 0.0) {
    add(rest_a, rest_b);
  }
  const double freedom = cells - 1;
  return (statistic - freedom) / std::sqrt(2.0 * freedom);
}

TEST_CASE("sampled chains and trees follow the law of autoregressive sampling") {
  Engine<float> engine;
  engine.generator.prefill(tiny::prompt(40));
  constexpr int kRuns = 2000;
  const auto plain = sampled_pairs(engine, "nsa/ar", 1, kRuns);
  CHECK(chi_square_excess(plain, sampled_pairs(engine, "nsa/ar", 100000, kRuns)) < 4.0);
  for (const char* sampling : {"/sampling=exact", "/sampling=coupled"}) {
    for (const char* draft : {"nsa/d3k1n4/bfs/c1/F*", "nsa/d2k6n20/bfs/c1/F*"}) {
      CAPTURE(sampling, draft);
      const std::string tuple = std::string(draft) + sampling;
      CHECK(chi_square_excess(plain, sampled_pairs(engine, tuple.c_str(), 200000, kRuns)) < 4.0);
    }
  }
  // The test can fail: another temperature is another law.
  GenerateOptions warm = tiny::options("nsa/ar", 3);
  warm.temperature = 0.5;
  std::map<std::vector<std::int32_t>, double> other;
  for (int i = 0; i < kRuns; ++i) {
    warm.seed = 400000 + static_cast<std::uint64_t>(i);
    const Generation run = engine.generator.run(warm);
    other[{run.tokens[1], run.tokens[2]}] += 1.0;
  }
  CHECK(chi_square_excess(plain, other) > 6.0);
}

TEST_CASE("coupled chains, trees and groups sample the text of plain decoding of the seed") {
  Engine<float> engine;
  engine.generator.prefill(tiny::prompt(150));
  std::int64_t steps = 0, tokens = 0;
  for (const double temperature : {0.05, 0.3, 1.0}) {
    for (const std::uint64_t seed : {5, 6, 7}) {
      GenerateOptions options = tiny::options("nsa/ar/bfs/c1/(FR)*", 40);
      options.temperature = temperature;
      options.seed = seed;
      const Generation plain = engine.generator.run(options);
      for (const char* text :
           {"nsa/d5k1n6/bfs/c1/(FR)*", "nsa/d4k3n12/dfs/c4e/(FR)*", "nsa/d2k8n40/bfs/c8e/(FR)*"}) {
        CAPTURE(temperature, seed, text);
        options.strategy = Strategy::parse(text);
        const Generation run = engine.generator.run(options);
        CHECK(run.tokens == plain.tokens);
        steps += run.steps;
        tokens += static_cast<std::int64_t>(run.tokens.size());
      }
    }
  }
  CHECK(tokens > steps + 10);  // something was accepted
}

TEST_CASE("the same seed samples the same text") {
  Engine<float> engine;
  engine.generator.prefill(tiny::prompt(40));
  for (const char* text : {"nsa/ar", "nsa/d3k1n4/bfs/c1/F*", "nsa/d3k3n9/dfs/c1/F*"}) {
    GenerateOptions options = tiny::options(text, 40);
    options.temperature = 0.8;
    options.seed = 5;
    const Generation first = engine.generator.run(options);
    CHECK(engine.generator.run(options).tokens == first.tokens);
    options.seed = 6;
    CHECK(engine.generator.run(options).tokens != first.tokens);
  }
}

}  // namespace
}  // namespace versieve::engine
