// Lines about drafts in vLLM's logs, in the wordings of its versions.
#include "tests/engine/analyse/import/refusals.h"

using namespace versieve;
using namespace versieve::engine;
using test::read_with;

namespace {

const std::string kHead = "(APIServer pid=7) INFO 01-02 10:00:10 [metrics.py:100] ";
// 2,400 tokens of 1,000 drafts, whose throughputs are as stated.
std::string spec_line(const char* accepted, const char* drafted) {
  return kHead +
         "SpecDecoding metrics: Mean acceptance length: 2.40, Accepted throughput: " + accepted +
         " tokens/s, Drafted throughput: " + drafted +
         " tokens/s, Accepted: 1400 tokens, Drafted: 3000 tokens, Per-position acceptance rate: "
         "0.700, 0.450, 0.250, Avg Draft acceptance rate: 46.7%\n";
}
const std::string kLine = spec_line("140.00", "300.00");     // in 10 s: 240 tokens a second
const std::string kSlowLine = spec_line("46.67", "100.00");  // in 30 s: 80

// What an engine did in the interval of which the next line speaks; one request alone is the same
// at both ends of it, unless prompts were read.
std::string engine_line(const std::string& engine, double tokens_per_s, int requests,
                        const std::string& prompts = "") {
  return kHead + engine + ": Avg prompt throughput: " +
         (!prompts.empty() ? prompts : requests == 1 ? "0.0" : "12.0") +
         " tokens/s, Avg generation throughput: " + std::to_string(tokens_per_s) +
         " tokens/s, Running: " + std::to_string(requests) +
         " reqs, Waiting: 0 reqs, GPU KV cache usage: 1.2%, Prefix cache hit rate: 0.0%\n";
}

ImportedPoints read_plain(const std::string& text) {
  return read_vllm_log(
      {.file = "its.name", .text = text, .context_len = 2048, .draft = DraftChoice{}});
}

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

TEST_CASE("the half line at the end of a log that was copied while its server wrote is no fault") {
  const ImportedPoints read =
      read_with(read_vllm_log, kLine + kLine + kLine.substr(0, kLine.find("Drafted:")));
  CHECK(read.rows_taken == 2);
  const ImportedPoints one = read_with(read_vllm_log, kLine.substr(0, kLine.size() - 1));
  CHECK(one.rows_taken == 1);
}

TEST_CASE("colours, idle intervals and the requests at a time of a log are read as what they are") {
  const ImportedPoints read = read_with(
      read_vllm_log,
      "\x1B[1;36m(EngineCore)\x1B[0;0m INFO Engine 000: Avg generation throughput: 249.0 tokens/s, "
      "Running: 3 reqs, Waiting: 0 reqs\n"
      "\x1B[32m" +
          kLine + "INFO Engine 000: Avg generation throughput: 9.0 tokens/s, Running: 5 reqs\n" +
          kHead +
          "SpecDecoding metrics: Draft acceptance rate: nan%, Accepted: 0 tokens, Drafted: 0 "
          "tokens\n");
  REQUIRE(read.points.size() == 1);  // no time: nothing says how many ran when it began
  CHECK(read.points.at(0).key.regime == "concurrency 3 to 4");
  CHECK(read.left_out ==
        std::map<std::string, std::int64_t>{{"intervals that drafted nothing", 1}});
}

TEST_CASE("a step's time follows from requests, length and throughput where the load was steady") {
  const ImportedPoints read = read_with(
      read_vllm_log, engine_line("Engine 000", 200.0, 4) + kLine +      // began with none
                         engine_line("Engine 000", 320.0, 4) + kLine +  // 4 x 2.4 / 320 s
                         engine_line("Engine 000", 240.0, 3) + kLine +  // 3 x 2.4 / 240 s
                         engine_line("Engine 000", 500.0, 9) + kLine);  // more came meanwhile
  REQUIRE(read.points.size() == 3);
  CHECK(read.points[0].key.regime == "concurrency 3 to 4");
  CHECK(read.points[0].acceptance->steps == 3000);
  CHECK(read.points[1].key.strategy == "dense/d3k1n4/bfs/c1/F*");
  CHECK(read.points[1].key.regime == "concurrency 3 to 4");
  REQUIRE(read.points[1].time_ns.size() == 2);
  CHECK(read.points[1].time_ns[0] == Approx(30e6));
  CHECK(read.points[1].time_ns[1] == Approx(30e6));
  CHECK(read.points[2].key.regime == "concurrency 9 to 16");
  CHECK(read.points[2].time_ns.empty());
  CHECK(test::contains(read.remarks.at(1), "2 intervals in which the requests that ran changed"));
  CHECK(test::contains(read.remarks.at(2), "counts prefills in between"));
}

// A user who pauses between two questions: the server rested for a part of the interval.
TEST_CASE("an interval of one request gives no time where it may have rested in between") {
  const auto times = [](const std::string& text) {
    std::size_t count = 0;
    for (const PointMeasurement& point : read_with(read_vllm_log, text).points) {
      count += point.time_ns.size();
    }
    return count;
  };
  const auto one = [](const std::string& prompts) {
    return engine_line("Engine 000", 80.0, 1, prompts) + kSlowLine;
  };
  const std::string none = engine_line("Engine 000", 40.0, 0) + kSlowLine;
  CHECK(times(one("300.0") + one("0.0")) == 1);  // the same request all the while
  CHECK(times(one("0.0") + one("300.0")) == 0);  // another came
  CHECK(times(none + one("0.0")) == 0);
  CHECK(times(none + none) == 0);
  const std::string busy = engine_line("Engine 000", 80.0, 1);
  const std::string idle = engine_line("Engine 000", 80.0, 0);
  CHECK(read_plain(idle + busy + busy).points.at(0).time_ns.size() == 1);
  test::check_refusals(
      [](const ImportText& input) {
        ImportText plain = input;
        plain.draft = DraftChoice{};
        return read_vllm_log(plain);
      },
      {{busy + engine_line("Engine 000", 80.0, 1, "300.0"), "so no step was timed"}});
}

TEST_CASE("engines side by side have each their own load, and an aggregate is shared among them") {
  const std::string one = engine_line("Engine 000", 80.0, 1) + kSlowLine;
  const std::string two = engine_line("Engine 001", 200.0, 2) + kLine;
  const ImportedPoints read = read_with(read_vllm_log, one + two + one + two);
  REQUIRE(read.points.size() == 4);
  CHECK(read.points[1].time_ns.at(0) == Approx(30e6));
  CHECK(read.points[3].time_ns.at(0) == Approx(24e6));
  // A clock's seconds are no engines, and other words of a log are no load.
  const std::string clocked = "10:00:03 " +
                              engine_line("Engine 000", 80.0, 1).substr(kHead.size()) +
                              "INFO Running: the warm-up\n" + kSlowLine;
  const std::string later = "10:00:13 " + engine_line("Engine 000", 80.0, 1).substr(kHead.size());
  const ImportedPoints clock = read_with(read_vllm_log, clocked + later + kSlowLine);
  REQUIRE(clock.points.size() == 2);
  CHECK(clock.points[1].key.regime == "concurrency 1");
  CHECK(clock.points[1].time_ns.at(0) == Approx(30e6));
  const std::string both =
      "10:00:03 " + engine_line("2 Engines Aggregated", 480.0, 4).substr(kHead.size()) + kLine;
  const ImportedPoints sum = read_with(read_vllm_log, both + both);
  REQUIRE(sum.points.size() == 2);
  CHECK(sum.points[1].key.regime == "concurrency 2");
  CHECK(sum.points[1].time_ns.at(0) == Approx(20e6));  // 2 x 2.4 / 240 s
}

TEST_CASE("two servers whose lines lie in one log have each their own load") {
  // Names that begin with a digit, and of a process that is called as its lines are.
  const auto [before, after] = GENERATE(std::pair("[pod/", "] 2026-01-02T10:00:10Z "),
                                        std::pair("1", "_server-1 | (EngineCore_DP0 pid=5) "));
  const auto of = [&](const std::string& pod, std::string lines) {
    for (std::size_t at = 0; at < lines.size(); at = lines.find('\n', at) + 1) {
      lines.insert(at, before + pod + after);
      at = lines.find(kHead, at);
    }
    return lines;
  };
  const auto twice = [&](const std::string& busy, const std::string& quiet) {
    return of("a", engine_line("Engine 000", 240.0, 8)) + of("b", busy) + of("a", kLine) +
           of("b", quiet);
  };
  const std::string b = engine_line("Engine 000", 80.0, 1);
  const ImportedPoints read = read_with(read_vllm_log, twice(b, kSlowLine) + twice(b, kSlowLine));
  REQUIRE(read.points.size() == 4);
  CHECK(read.points[0].key.regime == "concurrency 1");
  CHECK(read.points[1].time_ns == std::vector<double>{30e6});  // 2.4 tokens at 80 a second
  CHECK(read.points[2].key.regime == "concurrency 5 to 8");
  CHECK(read.points[3].time_ns == std::vector<double>{80e6});  // 8 x 2.4 at 240
}

TEST_CASE("throughputs that contradict what a log counts are refused") {
  test::check_refusals(
      read_vllm_log,
      {{spec_line("14.00", "300.00"),
        "counts 1400 accepted tokens of 3000, but its throughputs are 14.00 of 300.00"},
       {spec_line("0.00", "300.00"), "its throughputs are 0.00 of 300.00"},
       {engine_line("Engine 000", 24.0, 4) + kLine,
        "counts drafts that emitted 240.0 tokens a second, but its engine's line says 24.0"}});
  // Prompts' first tokens and steps without a draft are more; an answer's end cuts some off.
  for (const double given : {130.0, 240.0, 900.0}) {
    CHECK(read_with(read_vllm_log, engine_line("Engine 000", given, 4) + kLine).points.size() == 1);
  }
  CHECK(read_with(read_vllm_log, spec_line("0.00", "0.00")).points.size() == 1);  // not said
}

TEST_CASE("a log without speculation gives plain decoding's times where that is stated") {
  const std::string quiet = engine_line("Engine 000", 100.0, 1) +
                            engine_line("Engine 000", 80.0, 1) + engine_line("Engine 000", 0.0, 0);
  const ImportedPoints read = read_plain(quiet);
  REQUIRE(read.points.size() == 1);
  CHECK(read.points[0].key.strategy == "dense/ar");
  CHECK(read.points[0].time_ns == std::vector<double>{1e9 / 80.0});
  CHECK(!read.points[0].acceptance);
  test::check_refusals(read_vllm_log, {{quiet, "--draft ar takes its times as plain decoding's"}});
  test::check_refusals(
      [](const ImportText& input) {
        ImportText plain = input;
        plain.draft = DraftChoice{};
        return read_vllm_log(plain);
      },
      {{quiet + kLine, "leave --draft ar out"},
       {engine_line("Engine 000", 100.0, 1), "so no step was timed"}});
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
  test::check_refusals(
      read_vllm_log,
      {{with("Accepted: 14000 tokens, Drafted: 3000 tokens, Per-position acceptance rate: 0.700, "
             "0.450, 0.250\n"),
        "more accepted tokens than drafted ones: 14000 of 3000"}});
  const Error stated = test::error_of([] {
    read_vllm_log({.file = "f", .text = kLine, .context_len = 2048, .draft = DraftChoice{5, 1, 6}});
  });
  CHECK(test::contains(stated.what(), "rates of 3 positions"));
  const Error error = test::error_of([] { read_vllm_log({.file = "f", .text = kLine}); });
  CHECK(error.code() == ExitCode::kUsage);
  CHECK(test::contains(error.what(), "--context does"));
}
