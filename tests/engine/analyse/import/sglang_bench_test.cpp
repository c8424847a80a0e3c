// Rows of SGLang's bench_speculative.py: what they become, and what is no such row.
#include "tests/engine/analyse/import/refusals.h"

using namespace versieve;
using namespace versieve::engine;
using test::read_with;

namespace {

std::string row(const std::string& settings, const std::string& results) {
  return "{" + settings + ", " + results + "}\n";
}

std::string settings(int batch, int steps, int topk, int tokens) {
  return "\"batch_size\": " + std::to_string(batch) + ", \"steps\": " + std::to_string(steps) +
         ", \"topk\": " + std::to_string(topk) +
         ", \"num_draft_tokens\": " + std::to_string(tokens);
}

const std::string kResults =
    "\"acc_length\": 2.5, \"step_time\": 0.00893, \"speed\": 279.955, \"completion_tokens\": 512.0";

}  // namespace

TEST_CASE("a row is a tree's acceptance and its step time") {
  const ImportedPoints read = read_with(read_sglang_bench, row(settings(1, 5, 4, 16), kResults));
  CHECK(read.rows_taken == 1);
  REQUIRE(read.points.size() == 2);
  const PointMeasurement& accepted = read.points[0];
  CHECK(accepted.key.strategy == "dense/d5k4n16/bfs/c1/F*");
  CHECK(accepted.key.context_len == 2048);
  CHECK(accepted.key.num_queries == 16);
  CHECK(is_imported(accepted));
  CHECK(accepted.acceptance->accepted_per_step == Approx(2.5));
  CHECK(accepted.acceptance->generated_tokens == 512);
  CHECK(accepted.acceptance->steps == 205);
  CHECK(accepted.acceptance->accepted_histogram.empty());
  CHECK(read.points[1].key.workload == WorkloadKind::kStep);
  REQUIRE(read.points[1].time_ns.size() == 1);
  CHECK(read.points[1].time_ns[0] == Approx(8.93e6));
  CHECK(test::contains(read.remarks.at(1), "20th percentile"));
}

TEST_CASE("rows of one strategy are one point, weighed by their steps") {
  const ImportedPoints read = read_with(
      read_sglang_bench,
      row(settings(1, 3, 1, 4), R"("acc_length": 2, "step_time": 0.01, "completion_tokens": 400)") +
          row(settings(1, 3, 1, 2),  // one child a node: four tokens all the same
              R"("acc_length": 3, "step_time": 0.02, "completion_tokens": 300)"));
  REQUIRE(read.points.size() == 2);
  CHECK(read.points[0].key.strategy == "dense/d3k1n4/bfs/c1/F*");
  CHECK(read.points[0].acceptance->steps == 300);
  CHECK(read.points[0].acceptance->accepted_per_step == Approx(700.0 / 300.0));
  CHECK(read.points[1].time_ns.size() == 2);
}

TEST_CASE("plain decoding is ar, and further fields are passed over") {
  const ImportedPoints read = read_with(
      read_sglang_bench,
      row(settings(1, 0, 0, 0), R"("acc_length": 1.0, "step_time": 0.0072, "speed": 138.889,)"
                                R"("completion_tokens": 512.0, "tp": {"size": 1})"));
  CHECK(read.points.at(0).key.strategy == "dense/ar");
  CHECK(read.points.at(0).acceptance->accepted_per_step == 1.0);
}

TEST_CASE("rows of larger batches are acceptance and times at that concurrency") {
  const ImportedPoints read = read_with(read_sglang_bench, row(settings(4, 3, 1, 4), kResults) +
                                                               row(settings(1, 3, 1, 4), kResults) +
                                                               row(settings(4, 5, 1, 6), kResults));
  CHECK(read.rows_taken == 3);
  CHECK(read.left_out.empty());
  REQUIRE(read.points.size() == 6);
  CHECK(read.points[0].key.regime == "concurrency 1");
  CHECK(read.points[1].key.workload == WorkloadKind::kStep);
  CHECK(read.points[2].key.regime == "concurrency 4");
  CHECK(read.points[2].acceptance->accepted_per_step == Approx(2.5));
  CHECK(read.points[3].key.workload == WorkloadKind::kStep);
  CHECK(read.points[3].key.regime == "concurrency 4");
}

TEST_CASE("every wrong row is refused with what is wrong") {
  const std::string good = row(settings(1, 3, 1, 4), kResults);
  const auto with = [](const std::string& results) { return row(settings(1, 3, 1, 4), results); };
  test::check_refusals(
      read_sglang_bench,
      {{good + "not json\n", "line 2: is not valid JSON at column"},
       {"[1]\n", "entry 1: is not a JSON object"},
       {row("\"batch_size\": 1", kResults), "lacks the field steps"},
       {with("\"acc_length\": \"2.5\""), "acc_length is not a number"},
       {with(R"("acc_length": NaN)"), "acc_length is not a number"},
       {with(R"("acc_length": 2, "acc_length": 2)"), "the key 'acc_length' stands twice"},
       {with(R"("acc_length": 0.5)"), "acc_length is 0.5, not a number from 1"},
       {with(R"("acc_length": 4.2, "step_time": 0.01, "completion_tokens": 1)"),
        "acc_length is more than the 4 tokens"},
       {with(R"("acc_length": 2, "step_time": 0)"), "step_time is 0, not a number from 1e-05"},
       {with(R"("acc_length": 2, "step_time": -0.1)"), "step_time is -0.1"},
       {with(R"("acc_length": 2, "step_time": 1e30)"), "step_time is 1e+30"},
       {with(R"("acc_length": 2, "step_time": 0.01, "completion_tokens": 0)"),
        "completion_tokens is 0"},
       {with(R"("acc_length": 2, "step_time": 0.01, "completion_tokens": 9, "speed": 100)"),
        "speed does not follow"},
       {row(settings(0, 3, 1, 4), kResults), "batch_size is 0, not a number from 1"},
       {row(settings(1, 3, 0, 4), kResults), "must be all zero, or none"},
       {row(settings(1, 2, 2, 64), kResults), "asks for more nodes than a tree"},
       {row(settings(1, 33, 1, 4), kResults), "out of range: depth 1 to 32"},
       {R"({"batch_size": 1.5, "steps": 3})", "batch_size is 1.5, not a whole number"}});
}
