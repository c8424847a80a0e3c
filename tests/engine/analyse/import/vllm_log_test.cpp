// Lines about drafts in vLLM's logs, in the wordings of its versions.
#include "tests/engine/analyse/import/refusals.h"

using namespace versieve;
using namespace versieve::engine;
using test::read_with;

namespace {

const std::string kHead = "(APIServer pid=7) INFO 01-02 10:00:10 [metrics.py:100] ";
const std::string kLine =
    kHead +
    "SpecDecoding metrics: Mean acceptance length: 2.40, Accepted throughput: 140.00 tokens/s, "
    "Drafted throughput: 300.00 tokens/s, Accepted: 1400 tokens, Drafted: 3000 tokens, "
    "Per-position acceptance rate: 0.700, 0.450, 0.250, Avg Draft acceptance rate: 46.7%\n";

}  // namespace

TEST_CASE("intervals of a log are summed") {
  const ImportedPoints read = read_with(
      read_vllm_log, "INFO loading weights\n" + kLine +
                         "INFO 01-02 10:00:20 [metrics.py:96] SpecDecoding metrics: Draft "
                         "acceptance rate: 46.7%, Mean acceptance length: 2.40, Accepted: "
                         "700 tokens, Drafted: 1500 tokens, Per-position acceptance rate: "
                         "[0.700, 0.450, 0.250]\n");
  CHECK(read.rows_taken == 2);
  REQUIRE(read.points.size() == 1);
  CHECK(read.points[0].key.strategy == "dense/d3k1n4/bfs/c1/F*");
  CHECK(read.points[0].acceptance->steps == 1500);
  CHECK(read.points[0].acceptance->accepted_histogram ==
        std::vector<std::int64_t>{0, 450, 375, 300, 375});
  CHECK(read.points[0].acceptance->accepted_per_step == Approx(2.4));
  CHECK(read.points[0].key.regime.empty());
  CHECK(test::contains(read.remarks.at(0), "count the bonus token"));
}

TEST_CASE("colours, idle intervals and the requests at a time of a log are read as what they are") {
  const ImportedPoints read = read_with(
      read_vllm_log,
      "\x1B[1;36m(EngineCore)\x1B[0;0m INFO Engine 000: Avg generation throughput: 9.0 tokens/s, "
      "Running: 3 reqs, Waiting: 0 reqs\n"
      "\x1B[32m" +
          kLine + "INFO Engine 000: Running: 5 reqs, Waiting: 0 reqs\n" + kHead +
          "SpecDecoding metrics: Draft acceptance rate: nan%, Accepted: 0 tokens, Drafted: 0 "
          "tokens\n");
  CHECK(read.points.at(0).key.regime == "concurrency 3 to 5");
  CHECK(read.left_out ==
        std::map<std::string, std::int64_t>{{"intervals that drafted nothing", 1}});
}

TEST_CASE("drafts that a log shows to be cut short are said to be") {
  // 40 drafts of 7 cut to 200 tokens.
  const ImportedPoints read = read_with(
      read_vllm_log,
      kHead +
          "SpecDecoding metrics: Mean acceptance length: 3.50, Accepted: 100 tokens, Drafted: "
          "200 tokens, Per-position acceptance rate: 0.750, 0.625, 0.425, 0.325, 0.200, 0.125, "
          "0.050, Avg Draft acceptance rate: 50.0%\n");
  CHECK(read.points.back().acceptance->steps == 40);
  CHECK(read.points.back().reliability == Reliability::kAtLeast);
  CHECK(test::contains(read.points.back().reason, "5.00 tokens long in the mean, not 7"));
}

TEST_CASE(
    "the oldest lines have no rates, so that the draft is stated; V0's count from the start") {
  const std::string old =
      "INFO 04-02 SpecDecoding metrics: Draft acceptance rate: 50.0%, Accepted: 300 tokens, "
      "Drafted: 600 tokens\n";
  test::check_refusals(read_vllm_log, {{old, "give --draft d<K>k1n<K+1>"}});
  const ImportedPoints read =
      read_vllm_log({.file = "f", .text = old, .context_len = 2048, .draft = DraftChoice{3, 1, 4}});
  CHECK(read.points.at(0).acceptance->steps == 200);
  CHECK(read.points.at(0).acceptance->accepted_per_step == Approx(2.5));
  CHECK(read.points.at(0).acceptance->accepted_histogram.empty());
  const std::string first =
      "INFO 10-16 metrics.py:367] Speculative metrics: Draft acceptance rate: 0.642, System "
      "efficiency: 0.598, Number of speculative tokens: 3, Number of accepted tokens: 8547, Number "
      "of draft tokens: 13311, Number of emitted tokens: 10616.\n";
  const ImportedPoints v0 = read_with(read_vllm_log, first);
  CHECK(v0.points.at(0).key.strategy == "dense/d3k1n4/bfs/c1/F*");
  CHECK(v0.points.at(0).acceptance->steps == 4437);
  CHECK(v0.points.at(0).acceptance->accepted_per_step == Approx(10616.0 / 4437.0));
}

TEST_CASE("wrong lines of a log are refused") {
  const auto with = [](const std::string& what) { return kHead + "SpecDecoding metrics: " + what; };
  test::check_refusals(
      read_vllm_log,
      {{with("Accepted: 14\n"), "has no 'Drafted:'"},
       {with("Accepted: x tokens, Drafted: 30 tokens\n"), "Accepted is 'x'"},
       {with("Accepted: 30 tokens, Drafted: 30 tokens, Per-position acceptance rate: 1.5\n"),
        "a per-position acceptance rate is 1.5"},
       {with("Mean acceptance length: 3.4, Accepted: 1400 tokens, Drafted: 3000 tokens, "
             "Per-position acceptance rate: 0.700, 0.450, 0.250\n"),
        "mean acceptance length is not one (the bonus token) and the sum"}});
  const Error error = test::error_of([] { read_vllm_log({.file = "f", .text = kLine}); });
  CHECK(error.code() == ExitCode::kUsage);
  CHECK(test::contains(error.what(), "--context does"));
}
