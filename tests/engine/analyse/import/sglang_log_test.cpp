// The log of an SGLang server: which lines give lengths, which times, and of which draft.
#include <algorithm>
#include <sstream>

#include "tests/engine/analyse/import/refusals.h"
#include "tests/engine/analyse/import/sglang_lines.h"

using namespace versieve;
using namespace versieve::engine;
using test::decode;
using test::kArguments;

TEST_CASE("a log's decode lines are weighed by their requests and distinguished by them") {
  const ImportedPoints read =
      read_sglang_log({.file = "f",
                       .text = kArguments + decode(1, "2.00", 5000) + decode(1, "3.00", 6000) +
                               decode(3, "2.00", 18000) + decode(4, "2.00", 24000) +
                               decode(0, "0.00") + "other lines\n"});
  CHECK(read.rows_taken == 4);
  REQUIRE(read.points.size() == 4);
  CHECK(read.points[0].key.strategy == "dense/d3k1n4/bfs/c1/F*");
  CHECK(read.points[0].acceptance->accepted_per_step == Approx(2.5));
  CHECK(read.points[0].acceptance->steps == 20);
  CHECK(read.points[0].key.context_len == 6144);  // 5,500, rounded up
  // 100 tokens a second: three tokens of one request take 30 ms.
  CHECK(read.points[1].time_ns == std::vector<double>{30e6});
  CHECK(read.points[2].key.regime == "concurrency 3 to 4");
  CHECK(read.points[2].acceptance->steps == 70);
  CHECK(read.points[2].key.context_len == 6144);
  CHECK(read.points[3].key.regime == "concurrency 3 to 4");
  CHECK(read.points[3].time_ns == std::vector<double>{80e6});
  CHECK(read.left_out == std::map<std::string, std::int64_t>{{"lines of an idle server", 1}});
}

// Its throughput is over the time since the line before, whatever the server did in it.
TEST_CASE("lines after a rest, a start or another load of the server give no time") {
  const auto prefill = [](int running, const std::string& rank = "TP0") {
    return "[2026-01-02 10:00:01 " + rank + "] Prefill batch, #new-seq: 1, #new-token: 3000, " +
           "#cached-token: 0, token usage: 0.01, #running-req: " + std::to_string(running) +
           ", #queue-req: 0, \n";
  };
  const auto times = [](const std::string& text) {
    std::vector<double> ms;
    for (const PointMeasurement& point :
         read_sglang_log({.file = "f", .text = text, .context_len = 4096}).points) {
      for (const double ns : point.time_ns) {
        ms.push_back(1e-6 * ns);
      }
    }
    return ms;
  };
  const std::string two = decode(1, "2.00") + decode(1, "3.00");
  CHECK(times(kArguments + two) == std::vector<double>{30.0});
  CHECK(times(kArguments + decode(1, "2.00")).empty());
  // A prompt that finds nothing running ends a rest; one that joins others does not.
  CHECK(times(kArguments + two + prefill(0) + two) == std::vector<double>{30.0, 30.0});
  CHECK(times(kArguments + decode(3, "2.00") + prefill(3) + decode(4, "2.00")).size() == 1);
  CHECK(times(kArguments + decode(1, "2.00") + decode(0, "0.00") + decode(1, "3.00")).empty());
  CHECK(times(kArguments + two + kArguments + two) == std::vector<double>{30.0, 30.0});
  // More requests than are drafted for, and some of them gone again.
  CHECK(times(kArguments + decode(1, "2.00") + "[2026-01-02 10:00:01 TP0] Decode batch, " +
              "#running-req: 90, gen throughput (token/s): 900.00\n" + decode(1, "3.00"))
            .empty());
  CHECK(times(kArguments + decode(64, "2.00") + decode(20, "2.00") + decode(3, "2.00")).empty());
  // Each rank of data parallelism has lines of its own.
  const auto of_rank = [](std::string line, const std::string& rank) {
    return line.insert(line.find(" TP0"), " " + rank);
  };
  const std::string one = of_rank(decode(1, "2.00"), "DP0");
  const std::string many = of_rank(decode(8, "2.00"), "DP1");
  CHECK(times(kArguments + one + many + one + many) == std::vector<double>{20.0, 160.0});
  CHECK(times(kArguments + one + many + prefill(0, "DP0 TP0") + one + many) ==
        std::vector<double>{160.0});
  // So has each of several servers whose lines lie in one log.
  const auto of_pod = [](const std::string& pod, const std::string& line) {
    return "[pod/" + pod + "] 2026-01-02T10:00:01.5Z " + line;
  };
  const std::string first = of_pod("a", decode(1, "2.00"));
  const std::string second = of_pod("b", decode(8, "2.00"));
  CHECK(times(kArguments + first + second + first + second) == std::vector<double>{20.0, 160.0});
  const std::string third = "1sg | " + decode(1, "2.00");
  const std::string fourth = "2sg | " + decode(8, "2.00");
  CHECK(times(kArguments + third + fourth + third + fourth) == std::vector<double>{20.0, 160.0});
  const ImportedPoints read = read_sglang_log(
      {.file = "f", .text = kArguments + two + prefill(0) + two, .context_len = 4096});
  CHECK(std::count_if(read.remarks.begin(), read.remarks.end(), [](const std::string& remark) {
          return test::contains(remark, "2 lines give no time: the requests that ran had changed");
        }) == 1);
  const Error plain = test::error_of([&] {
    read_sglang_log({.file = "f",
                     .text = "Decode batch, #running-req: 1, gen throughput (token/s): 5\n",
                     .context_len = 4096,
                     .draft = DraftChoice{}});
  });
  CHECK(test::contains(plain.what(), "without a rest between them, so no step was timed"));
}

// SGLang 0.5.23 prints a dictionary, versions before it a record.
TEST_CASE("a server's arguments are read in the forms of both versions") {
  const auto read = [](const std::string& arguments) {
    return read_sglang_log(
        {.file = "f",
         .text = "[2026-01-02 10:00:00] server_args=" + arguments + "\n" + decode(1, "2.00"),
         .context_len = 4096});
  };
  for (const char* arguments :
       {"ServerArgs(model_path='m', speculative_algorithm='EAGLE3', speculative_num_steps=3, "
        "speculative_eagle_topk=2, decode_log_interval=10, speculative_num_draft_tokens=7)",
        "{'model_path': 'm', 'speculative_algorithm': 'EAGLE3', 'speculative_num_steps': 3, "
        "'speculative_eagle_topk': 2, 'decode_log_interval': 10, "
        "'speculative_num_draft_tokens': 7}"}) {
    CAPTURE(arguments);
    CHECK(read(arguments).points.at(0).key.strategy == "dense/d3k2n7/bfs/c1/F*");
    CHECK(read(arguments).points[0].acceptance->steps == 10);
    CHECK(read(arguments).points[0].reliability == Reliability::kUnchecked);
  }
  const ImportedPoints adaptive = read(
      "{'speculative_num_steps': 5, 'speculative_eagle_topk': 1, 'speculative_adaptive': True, "
      "'speculative_num_draft_tokens': 6}");
  CHECK(adaptive.points.at(0).reliability == Reliability::kAtLeast);
  CHECK(test::contains(test::error_of([&] {
                         read("{'speculative_num_steps': None, 'speculative_eagle_topk': None}");
                       }).what(),
                       "so what was drafted is not known"));
}

TEST_CASE("a log's contexts are distinguished by doubling ranges, unless one is stated") {
  const std::string text = kArguments + decode(2, "2.00", 5000) + decode(2, "2.40", 30000) +
                           decode(2, "2.20", 26000) + decode(4, "1.80", 60000);
  const ImportedPoints read = read_sglang_log({.file = "f", .text = text});
  REQUIRE(read.points.size() == 4);  // one of which was timed
  CHECK(read.points[0].key.context_len == 3072);
  CHECK(read.points[0].key.regime == "concurrency 2");
  CHECK(read.points[1].key.context_len == 14336);  // the mean of 15,000 and 13,000
  CHECK(read.points[1].acceptance->accepted_per_step == Approx(2.3));
  CHECK(read.points[2].time_ns.size() == 2);
  CHECK(read.points[3].key.context_len == 15360);
  CHECK(read.points[3].key.regime == "concurrency 3 to 4");
  const ImportedPoints stated = read_sglang_log({.file = "f", .text = text, .context_len = 8192});
  REQUIRE(stated.points.size() == 3);
  CHECK(stated.points[0].key.context_len == 8192);
  CHECK(stated.points[0].acceptance->accepted_per_step == Approx(2.2));
}

TEST_CASE("a log's last line may be half of one, and its lines may lie in JSON") {
  const auto points = [](const std::string& text) {
    return read_sglang_log({.file = "f", .text = text, .context_len = 4096}).points;
  };
  const std::string two = kArguments + decode(1, "2.00") + decode(1, "3.00");
  std::string cut = decode(1, "3.00");
  cut.resize(cut.find("0.00, #queue-req"));  // 10 of 100.00 tokens a second
  REQUIRE(points(two + cut).size() == 2);
  CHECK(points(two + cut)[0].acceptance->steps == 20);
  CHECK(points(two + cut)[1].time_ns == std::vector<double>{30e6});
  CHECK(points(two.substr(0, two.size() - 1))[0].acceptance->steps == 10);
  // A line alone is taken as it is.
  std::string alone = decode(1, "2.00");
  alone.pop_back();
  const DraftChoice chain{3, 1, 4};
  const ImportedPoints one =
      read_sglang_log({.file = "f", .text = alone, .context_len = 9, .draft = chain});
  CHECK(one.rows_taken == 1);
  std::string kept;
  std::istringstream lines(two);
  for (std::string line; std::getline(lines, line);) {
    kept += R"({"log":")" + line + R"(\n","stream":"stderr"})" + "\n";
  }
  REQUIRE(points(kept).size() == 2);
  CHECK(points(kept)[0].acceptance->accepted_per_step == Approx(2.5));
  CHECK(points(kept)[1].time_ns == std::vector<double>{30e6});
}

TEST_CASE("a log that does not say enough is refused with what it lacks") {
  test::check_refusals(
      read_sglang_log,
      {{decode(1, "2.00"), "without the line of its arguments, so what was drafted is not known"},
       {"Decode batch. #running-req: 1, #token: 30, gen throughput (token/s): 3\n",
        "have no 'accept len': it did not speculate"},
       {kArguments + decode(1, "4.30"), "accept len is more than the 4 tokens"},
       {kArguments + decode(1, "0.30"), "accept len is 0.3, not a number from 1"},
       {kArguments + decode(1, "x"), "accept len is 'x', not a number"}});
}

TEST_CASE("verified tokens below the draft's make a lower bound of a line") {
  std::string line = decode(4, "2.00");
  line.insert(line.find(", cuda graph"), ", cap len: 3.10, block accept len: 2.20");
  const ImportedPoints read = read_sglang_log({.file = "f", .text = kArguments + line});
  REQUIRE(read.points.size() == 1);
  CHECK(read.points[0].reliability == Reliability::kAtLeast);
  CHECK(test::contains(read.points[0].reason, "3.10 of 4 tokens were verified"));
  line.replace(line.find("3.10"), 4, "4.00");
  const ImportedPoints whole = read_sglang_log({.file = "f", .text = kArguments + line});
  CHECK(whole.points.at(0).reliability == Reliability::kUnchecked);
}

TEST_CASE("a draft that contradicts the lines' accept rates is refused") {
  const auto line = [](const std::string& length, const std::string& rate) {
    std::string text = decode(1, length);
    return text.replace(text.find("0.50"), 4, rate);
  };
  // Five draft tokens a step: rates are (accept len - 1) / 5.
  const std::string five = line("2.50", "0.30") + line("2.00", "0.20") + line("3.00", "0.40");
  const auto read = [&](DraftChoice draft) {
    return read_sglang_log({.file = "its.name", .text = five, .draft = draft});
  };
  CHECK(read({5, 1, 6}).remarks.size() == 4);
  const Error error = test::error_of([&] { read({7, 1, 8}); });
  CHECK(test::contains(error.what(), "5 draft tokens a step"));
  CHECK(test::contains(error.what(), "the draft is 7 tokens"));
  // Rates that follow from nothing are a remark.
  const ImportedPoints odd = read_sglang_log({.file = "f",
                                              .text = line("2.50", "0.90") + line("2.00", "0.11"),
                                              .draft = DraftChoice{5, 1, 6}});
  CHECK(std::count_if(odd.remarks.begin(), odd.remarks.end(), [](const std::string& remark) {
          return test::contains(remark, "do not follow from accept len");
        }) == 1);
}

TEST_CASE("a log in which a server was started again with another draft is of both") {
  std::string other = kArguments;
  other.replace(other.find("num_steps=3"), 11, "num_steps=5");
  other.replace(other.find("draft_tokens=4"), 14, "draft_tokens=6");
  const ImportedPoints read =
      read_sglang_log({.file = "f",
                       .text = kArguments + decode(1, "2.00") + kArguments + decode(1, "3.00") +
                               other + decode(1, "4.50") + other,
                       .context_len = 4096});
  CHECK(read.rows_taken == 3);
  REQUIRE(read.points.size() == 2);
  CHECK(read.points[0].key.strategy == "dense/d3k1n4/bfs/c1/F*");
  CHECK(read.points[0].acceptance->accepted_per_step == Approx(2.5));
  CHECK(read.points[1].key.strategy == "dense/d5k1n6/bfs/c1/F*");
  CHECK(read.points[1].acceptance->accepted_per_step == Approx(4.5));
  // Started again before anything was decoded: the newer arguments.
  CHECK(read_sglang_log(
            {.file = "f", .text = kArguments + other + decode(1, "4.50"), .context_len = 4096})
            .points.at(0)
            .key.strategy == "dense/d5k1n6/bfs/c1/F*");
}

TEST_CASE("lines of a server that did not speculate are counted beside those that did") {
  const std::string plain =
      "Decode batch, #running-req: 4, #token: 8000, gen throughput (token/s): 400.00\n";
  const ImportedPoints read = read_sglang_log(
      {.file = "f", .text = kArguments + decode(1, "2.00") + plain + plain, .context_len = 4096});
  CHECK(read.rows_taken == 1);
  CHECK(read.left_out ==
        std::map<std::string, std::int64_t>{
            {"lines without an accept len, of a server that did not speculate", 2}});
}
