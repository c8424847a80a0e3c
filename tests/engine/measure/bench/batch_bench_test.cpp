// Steps of many requests: are rows what was asked for, and their bytes those of one request's step
// with weights counted once?
#include "engine/measure/bench/batch_bench.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "engine/measure/bench/step_bench.h"
#include "model/words/error.h"

namespace versieve::engine {
namespace {

BatchBenchOptions small() {
  BatchBenchOptions options{.geometry = "demo", .samples = 6, .on_gpu = false};
  options.contexts = {96};
  options.requests = {1, 3};
  options.strategies = {"nsa/ar", "nsa/d3k2n6/bfs/c4e/F*", "dense/ar", "resa:b16p0.3f0n_min2/ar",
                        "indexer:k24w8/d2k1n3/bfs/c1/F*"};
  return options;
}

TEST_CASE("a batch bench has a row for each strategy, context and count of requests") {
  std::size_t seen = 0;
  const BatchBench bench = bench_batch(small(), [&](const BatchBenchRow&) { ++seen; });
  REQUIRE(bench.rows.size() == 10);
  CHECK(seen == 10);
  for (const BatchBenchRow& row : bench.rows) {
    CHECK(row.refused_because.empty());
    CHECK(row.time.median > 0.0);
    CHECK(row.tokens == (row.strategy.draft.speculates() ? 3.0 : 1.0));
    CHECK(row.tokens_per_second() ==
          Approx(row.tokens * static_cast<double>(row.requests) * 1e6 / row.time.median));
    CHECK(row.over_one.has_value());
  }
  const BatchBenchRow& one = bench.rows[0];
  const BatchBenchRow& three = bench.rows[1];
  CHECK(one.bytes() == step_bytes(one.strategy, "demo", 96, 4));
  CHECK(three.bytes() - one.bytes() == Approx(2.0 * one.request_bytes));
  CHECK(three.shared_bytes == one.shared_bytes);
  CHECK(one.request_bytes > 0.0);
  const auto request_bytes = [&](const char* text) {
    return std::find_if(bench.rows.begin(), bench.rows.end(),
                        [&](const BatchBenchRow& row) { return row.strategy.text() == text; })
        ->request_bytes;
  };
  CHECK(request_bytes("resa:b16p0.3f0n_min2/ar") < request_bytes("dense/ar"));
  CHECK(request_bytes("indexer:k24w8/d2k1n3/bfs/c1/F*") < request_bytes("dense/ar"));
  const nlohmann::json json = nlohmann::json::parse(batch_bench_json(bench));
  CHECK(json.at("rows").size() == 10);
  CHECK(json.at("rows")[1].at("requests") == 3);
  CHECK(batch_bench_text(bench).find("dense/ar") != std::string::npos);
}

TEST_CASE("steps of many requests choose the tokens that they read, where a strategy says so") {
  BatchBenchOptions options = small();
  options.strategies = {"resa:b16p0.1f4/ar", "indexer:k64/ar", "indexer:k64/d3k1n4/bfs/c1/F*",
                        "specattn:p0.9/d3k1n4/bfs/c1/F*"};
  const BatchBench bench = bench_batch(options, [](const BatchBenchRow&) {});
  REQUIRE(bench.rows.size() == 8);
  for (const BatchBenchRow& row : bench.rows) {
    CAPTURE(row.strategy.text(), row.requests, row.refused_because);
    if (row.strategy.attention == AttentionMethod::kSpecAttn) {
      CHECK(row.refused_because.find("draft model") != std::string::npos);
    } else {
      CHECK(row.refused_because.empty());
      CHECK(row.time.median > 0.0);
      CHECK(row.tokens == (row.strategy.draft.speculates() ? 3.0 : 1.0));
    }
  }
}

// A table of a plan for the demo's geometry, of three tuples a number of requests.
PlanTable small_table() {
  PlanTable table;
  table.model = "demo";
  table.buckets = {{0, 128}};
  const auto evaluation = [](const char* strategy, double tokens, double us) {
    Evaluation e;
    e.strategy = Strategy::parse(strategy);
    e.cost = StepCost{.time_us = us};
    e.expected_accepted = tokens;
    e.latency_interval_us = {0.5 * us, 2.0 * us};
    return e;
  };
  table.baselines = {{0, "autoregressive", evaluation("nsa/ar", 1.0, 10.0)},
                     {0, "fixed", evaluation("nsa/d3k2n6/bfs/c4e/F*", 2.4, 20.0)}};
  table.entries = {{.evaluation = evaluation("nsa/d2k1n3/bfs/c1/F*", 2.2, 12.0)}};
  PlanTable two = table;
  two.concurrency = 2;
  two.entries.front().evaluation = evaluation("nsa/ar", 1.0, 11.0);
  PlanTable four = two;  // whose cell does not fit
  four.concurrency = 4;
  four.entries.clear();
  table.batched = {two, four};
  return table;
}

TEST_CASE("a table of many requests is played: its tuple beside the baseline and plain decoding") {
  const PlanTable table = small_table();
  BatchBenchOptions options = small();
  options.table = &table;
  options.requests = {1, 2};
  check_batch_bench(options);
  const BatchBench bench = bench_batch(options, [](const BatchBenchRow&) {});
  REQUIRE(bench.rows.size() == 6);
  CHECK(bench.rows[0].role == "plain");
  CHECK(bench.rows[2].role == "planned");
  CHECK(bench.rows[2].tokens == 2.2);
  CHECK(*bench.rows[2].predicted_us == 12.0);
  const std::vector<BatchPlayed> played = bench.played();
  REQUIRE(played.size() == 2);
  CHECK(played[0].over_plain ==
        Approx(bench.rows[2].tokens_per_second() / bench.rows[0].tokens_per_second()));
  CHECK(played[0].over_baseline ==
        Approx(bench.rows[2].tokens_per_second() / bench.rows[1].tokens_per_second()));
  CHECK(played[1].over_plain == 1.0);  // plain decoding is the plan
  const nlohmann::json json = nlohmann::json::parse(batch_bench_json(bench));
  CHECK(json.at("geometry") == "demo");
  CHECK(json.at("played").size() == 2);
  CHECK(batch_bench_text(bench).find("over baseline") != std::string::npos);
  options.requests = {4};
  check_batch_bench(options);
  const BatchBench none = bench_batch(options, [](const BatchBenchRow&) {});
  REQUIRE(none.rows.size() == 1);
  CHECK(none.rows[0].refused_because.find("plans no tuple") != std::string::npos);
  CHECK(none.played().empty());
  options.requests = {3};
  CHECK_THROWS_AS(check_batch_bench(options), Error);
  options.requests = {1};
  options.contexts = {4096};
  CHECK_THROWS_AS(check_batch_bench(options), Error);
}

TEST_CASE("a batch bench says what it cannot measure") {
  const auto refused = [](auto change) {
    BatchBenchOptions options = small();
    change(options);
    CHECK_THROWS_AS(check_batch_bench(options), Error);
  };
  check_batch_bench(small());
  refused([](BatchBenchOptions& o) { o.requests = {0}; });
  refused([](BatchBenchOptions& o) { o.requests = {2000}; });
  refused([](BatchBenchOptions& o) { o.contexts = {}; });
  refused([](BatchBenchOptions& o) { o.samples = 5; });
  refused([](BatchBenchOptions& o) { o.yield = 0; });
  refused([](BatchBenchOptions& o) {  // a path of two and the bonus token
    o.strategies = {"nsa/ar", "nsa/d2k2n4/bfs/c1/F*"};
    o.yield = 4;
  });
  refused([](BatchBenchOptions& o) { o.strategies = {"specattn:p0.1/d4k1n5/bfs/c1/F*"}; });
  refused([](BatchBenchOptions& o) { o.geometry = "nobody"; });
}

}  // namespace
}  // namespace versieve::engine
