// SGLang's bench_serving, its server's log and its responses.
#include <algorithm>
#include <sstream>

#include "tests/engine/analyse/import/refusals.h"

using namespace versieve;
using namespace versieve::engine;
using test::read_with;

namespace {

std::string run(const std::string& length, const std::string& concurrency,
                const std::string& server =
                    R"({"speculative_num_steps": 5, "speculative_eagle_topk": )"
                    R"(8, "speculative_num_draft_tokens": 32})") {
  return R"({"backend": "sglang", "request_rate": Infinity, "max_concurrency": )" + concurrency +
         R"(, "server_info": )" + server +
         R"(, "completed": 10, "total_input_tokens": 40000, "total_output_tokens": 3600,)"
         R"("mean_tpot_ms": 99, "median_tpot_ms": 5, "accept_length": )" + length + "}\n";
}
// The same of so many requests at a time in the mean.
std::string ran(std::string run, const std::string& mean) {
  return run.insert(1, R"("concurrency": )" + mean + ", ");
}

const std::string kArguments =
    "[2026-01-02 10:00:00] server_args=ServerArgs(model_path='m', speculative_num_steps=3, "
    "speculative_eagle_topk=1, speculative_num_draft_tokens=4, decode_log_interval=10)\n";

std::string decode(int requests, const std::string& length, int tokens = 4000) {
  return "[2026-01-02 10:00:01 TP0] Decode batch, #running-req: " + std::to_string(requests) +
         ", #token: " + std::to_string(tokens) + ", token usage: 0.01, accept len: " + length +
         ", accept rate: 0.50, cuda graph: True, gen throughput (token/s): 100.00, #queue-req: 0\n";
}

}  // namespace

TEST_CASE("a run of bench_serving is its server's tree at its concurrency") {
  const ImportedPoints read = read_sglang_serving(
      {.file = "f", .text = run("3.6", "1") + ran(run("3.0", "16"), "11.5") +
                                       ran(run("2.4", "null"), "2.4")});
  CHECK(read.rows_taken == 3);
  REQUIRE(read.points.size() == 6);
  CHECK(read.points[1].time_ns == std::vector<double>{5e6 * 3.6});
  CHECK(read.points[3].key.workload == WorkloadKind::kStep);
  CHECK(read.points[3].key.regime == "concurrency 16");
  CHECK(read.points[0].key.strategy == "dense/d5k8n32/bfs/c1/F*");
  CHECK(read.points[0].key.context_len == 5120);  // 4,000 and half of 360, rounded up
  CHECK(read.points[0].key.regime == "concurrency 1");
  CHECK(read.points[0].acceptance->steps == 1000);
  CHECK(read.points[0].acceptance->accepted_per_step == Approx(3.6));
  CHECK(read.points[2].key.regime == "concurrency 16");
  CHECK(read.points[4].key.regime == "concurrency 2");  // the mean, where no limit was set
  CHECK(test::contains(read.remarks.at(0), "counts the bonus token"));
}

TEST_CASE("a limit that few requests reached is not how many ran at a time") {
  const auto regime = [](const std::string& text) {
    return read_sglang_serving({.file = "f", .text = text}).points.at(0).key.regime;
  };
  CHECK(regime(ran(run("3.0", "64"), "31.9")) == "concurrency 32");
  CHECK(regime(ran(run("3.0", "64"), "0.2")) == "concurrency 1");
  for (const char* rate : {"2.5", "\"trace\""}) {
    std::string sent = run("3.0", "64");
    sent.replace(sent.find("Infinity"), 8, rate);
    CAPTURE(sent);
    CHECK(regime(ran(sent, "50.2")) == "concurrency 50");
    const ImportedPoints unknown = read_sglang_serving({.file = "f", .text = sent});
    REQUIRE(unknown.points.size() == 1);
    CHECK(unknown.points[0].key.regime.empty());
    CHECK(unknown.left_out.count("times of nobody knows how many requests") == 1);
  }
}

TEST_CASE("a run whose server does not say its tree needs it stated") {
  const std::string silent = run("2.69", "1", "null");
  test::check_refusals(
      read_sglang_serving,
      {{silent, "bench_serving whose server_info does not say what was drafted: give --draft"},
       {run("null", "1"), "bench_serving without an accept_length: the server did not speculate"},
       {run("7.1", "1"), "accept_length is more than the 6 tokens"},
       {run("0.5", "1"), "accept_length is 0.5, not a number from 1"},
       {run("2", "1",
            R"({"speculative_num_steps": 2, "speculative_eagle_topk": 2,)"
            R"("speculative_num_draft_tokens": 64})"),
        "asks for more nodes than a tree"}});
  const ImportedPoints given = read_sglang_serving(
      {.file = "f", .text = silent, .context_len = 2048, .draft = DraftChoice{3, 1, 4}});
  CHECK(given.points.at(0).key.strategy == "dense/d3k1n4/bfs/c1/F*");
}

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

// After engine.py of SGLang 0.5.23, which prints a dictionary; versions before it print a record.
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

TEST_CASE("a log of a server without speculation is plain decoding's times, where that is stated") {
  const std::string line =
      "[2026-01-02 10:00:01] Decode batch, #running-req: 4, #token: 8000, token usage: 0.01, cuda "
      "graph: True, gen throughput (token/s): 400.00, #queue-req: 0\n";
  const ImportedPoints read =
      read_sglang_log({.file = "f", .text = line + line, .draft = DraftChoice{}});
  CHECK(read.rows_taken == 2);
  REQUIRE(read.points.size() == 1);
  CHECK(read.points[0].key.strategy == "dense/ar");
  CHECK(read.points[0].key.workload == WorkloadKind::kStep);
  CHECK(read.points[0].key.regime == "concurrency 3 to 4");
  CHECK(read.points[0].time_ns == std::vector<double>{10e6});
  const auto plain = [](const std::string& text) {
    return std::string(test::error_of([&] {
                         read_sglang_log({.file = "f", .text = text, .draft = DraftChoice{}});
                       }).what());
  };
  CHECK(test::contains(plain(kArguments + decode(1, "2.00")), "leave --draft ar out"));
  CHECK(
      test::contains(plain("Decode batch, #running-req: 1, #token: 30\n"), "no 'gen throughput'"));
  CHECK(test::contains(plain("Decode batch, #running-req: 1, gen throughput (token/s): nan\n"),
                       "gen throughput"));
  CHECK(test::contains(plain("Decode batch, #running-req: -1, gen throughput (token/s): 5\n"),
                       "#running-req"));

  const ImportedPoints bench =
      read_sglang_serving({.file = "f", .text = run("null", "8", "null"), .draft = DraftChoice{}});
  REQUIRE(bench.points.size() == 1);
  CHECK(bench.points[0].key.strategy == "dense/ar");
  CHECK(bench.points[0].time_ns == std::vector<double>{5e6});
  CHECK(bench.points[0].key.regime == "concurrency 8");
}

TEST_CASE("responses of a server are summed by the tokens that steps got right") {
  const auto response = [](const std::string& histogram, int steps, int proposed) {
    return R"({"text": "t", "meta_info": {"spec_verify_ct": )" + std::to_string(steps) +
           R"(, "spec_num_proposed_drafts": )" + std::to_string(proposed) +
           R"(, "spec_correct_drafts_histogram": )" + histogram + "}}\n";
  };
  const std::string two = response("[1, 0, 1, 0]", 2, 6) + response("[0, 2, 0, 1]", 3, 9);
  const auto read = [](const std::string& text, DraftChoice draft) {
    return read_sglang_requests(
        {.file = "its.name", .text = text, .context_len = 2048, .draft = draft});
  };
  const ImportedPoints chain = read(two, {3, 1, 4});
  CHECK(chain.rows_taken == 2);
  REQUIRE(chain.points.size() == 1);
  CHECK(chain.points[0].acceptance->accepted_histogram == std::vector<std::int64_t>{0, 1, 2, 1, 1});
  const ImportedPoints tree =
      read(response("[1, 0, 1, 0]", 2, 30) + response("[0, 2, 0, 1]", 3, 45), {3, 4, 16});
  CHECK(tree.points.at(0).key.strategy == "dense/d3k4n16/bfs/c1/F*");
  CHECK(tree.points[0].acceptance->accepted_per_step == Approx(2.4));
  const ImportedPoints cut = read(response("[3, 3, 3, 1]", 10, 24), {3, 1, 4});
  CHECK(cut.points.back().reliability == Reliability::kAtLeast);
  const auto refused = [&](const std::string& text, const std::string& part) {
    const Error error = test::error_of([&] { read(text, {1, 1, 2}); });
    CHECK(error.code() == ExitCode::kBadInput);
    CHECK(test::contains(error.what(), part));
  };
  refused(two, "3 draft tokens a step, and --draft says 1 (its nodes without the root)");
  refused(response("[0, 2, 0, 1]", 3, 3), "the longest step is more than the 2 tokens");
  refused(response("[1]", 2, 2), "spec_verify_ct is 2, but spec_correct_drafts_histogram has 1");
  refused(response("[]", 0, 0), "counts no step");
  test::check_refusals(read_sglang_requests, {{two, "do not say what was drafted: give --draft"}});
}

// After the fields of SGLang 0.5.23's meta_info and, by position, of versions after it.
TEST_CASE("steps whose drafts were cut are known by the histograms of their lengths") {
  const auto read = [](const std::string& more, DraftChoice draft) {
    return read_sglang_requests({.file = "its.name",
                                 .text = R"({"sglext": {"spec_tokens_details": {"spec_verify_ct": )"
                                         R"(10, "spec_num_proposed_drafts": 30, )"
                                         R"("spec_correct_drafts_histogram": [4, 4, 0, 2])" +
                                         more + "}}}\n",
                                 .context_len = 2048,
                                 .draft = draft});
  };
  // Verified tokens count the root: six steps had one draft token, four had three.
  const ImportedPoints capped = read(R"(, "spec_cap_lens_histogram": [0, 0, 6, 0, 4])", {3, 1, 4});
  REQUIRE(capped.points.size() == 2);
  CHECK(capped.points[0].key.strategy == "dense/d1k1n2/bfs/c1/F*");
  CHECK(capped.points[0].acceptance->accepted_per_step == Approx(1.6));
  CHECK(capped.points[1].key.strategy == "dense/d3k1n4/bfs/c1/F*");
  // 0.6, then 2 of the at most 4 that had the second: product-limit, 4 steps.
  CHECK(capped.points[1].acceptance->steps == 4);
  const ImportedPoints proposed =
      read(R"(, "spec_proposed_drafts_histogram": [0, 6, 0, 4])", {3, 1, 4});
  CHECK(proposed.points.at(1).acceptance->accepted_histogram ==
        capped.points[1].acceptance->accepted_histogram);
  // Steps that the histogram leaves out had the whole draft.
  CHECK(read(R"(, "spec_cap_lens_histogram": [0, 0, 0, 0, 4])", {3, 1, 4}).points.size() == 1);
  CHECK(read(R"(, "spec_cap_lens_histogram": [])", {3, 1, 4}).points.size() == 1);
  const ImportedPoints tree = read(R"(, "spec_cap_lens_histogram": [0, 0, 6, 0, 4])", {3, 2, 5});
  CHECK(tree.points.at(0).reliability == Reliability::kAtLeast);
  const auto refused = [&](const std::string& more, DraftChoice draft, const std::string& part) {
    const Error error = test::error_of([&] { read(more, draft); });
    CHECK(error.code() == ExitCode::kBadInput);
    CHECK(test::contains(error.what(), part));
  };
  refused(R"(, "spec_cap_lens_histogram": [0, 0, 11])", {3, 1, 4}, "more steps than spec_verify");
  refused(R"(, "spec_cap_lens_histogram": [0, 0, 0, 0, 0, 0, 9])", {3, 1, 4}, "5 tokens, and");
  refused("", {5, 1, 6}, "3 draft tokens a step, and --draft says 5");
}

TEST_CASE("a request that drafted nothing says nothing") {
  const ImportedPoints read = read_sglang_requests(
      {.file = "its.name",
       .text =
           R"({"meta_info": {"spec_verify_ct": 2, "spec_correct_drafts_histogram": [1, 1]}})"
           "\n"
           R"({"sglext": {"spec_tokens_details": {"spec_verify_ct": 0, "spec_num_proposed_drafts")"
           R"(: 0, "spec_correct_drafts_histogram": []}}})",
       .context_len = 2048,
       .draft = DraftChoice{1, 1, 2}});
  CHECK(read.rows_taken == 1);
  CHECK(read.left_out.at("responses without a draft") == 1);
}

TEST_CASE("a server that adapts its drafts gives lower bounds, and no time of a draft") {
  std::string arguments = kArguments;
  arguments.insert(arguments.rfind(')'), ", speculative_adaptive=True");
  for (const std::string& mark :
       {arguments, kArguments + "INFO Adaptive spec params updated: steps 3 -> 1 (ema=0.2)\n"}) {
    const ImportedPoints read =
        read_sglang_log({.file = "f", .text = mark + decode(1, "2.00") + decode(4, "1.50")});
    REQUIRE(read.points.size() == 2);
    for (const PointMeasurement& point : read.points) {
      CHECK(point.key.workload == WorkloadKind::kAcceptance);
      CHECK(point.reliability == Reliability::kAtLeast);
      CHECK(test::contains(point.reason, "speculative_adaptive"));
    }
    CHECK(read.left_out.at("times of drafts whose length no line says") == 2);
  }
  const ImportedPoints bench = read_sglang_serving(
      {.file = "f",
       .text = run("2.4", "8",
                   R"({"speculative_num_steps": 3, "speculative_eagle_topk": 1, )"
                   R"("speculative_num_draft_tokens": 4, "speculative_adaptive": true})")});
  REQUIRE(bench.points.size() == 1);
  CHECK(bench.points[0].reliability == Reliability::kAtLeast);
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

// Names as SGLang 0.5.23's metrics collectors declare them.
TEST_CASE("a page of SGLang counts the tokens of verified steps of requests that ended") {
  const auto page = [](int calls, int tokens, int requests) {
    return "# HELP sglang:spec_verify_calls_total Number of calls.\n"
           "sglang:spec_verify_calls_total{model_name=\"m\"} " +
           std::to_string(calls) +
           ".0\nsglang:generation_tokens_total{model_name=\"m\",is_streaming=\"true\"} " +
           std::to_string(tokens) +
           ".0\nsglang:generation_tokens_total{model_name=\"m\",is_streaming=\"false\"} 250\n"
           "sglang:num_requests_total{model_name=\"m\",is_streaming=\"true\"} " +
           std::to_string(requests) +
           "\nsglang:num_requests_total{model_name=\"m\",is_streaming=\"false\"} 1\n"
           "sglang:spec_num_steps{tp_rank=\"0\"} 3.0\nsglang:spec_num_draft_tokens{tp_rank=\"0\"} "
           "4.0\nsglang:spec_accept_length{tp_rank=\"0\"} 1.5\n";
  };
  const ImportedPoints read = read_with(read_sglang_counters, page(500, 1000, 9));
  REQUIRE(read.points.size() == 1);
  CHECK(read.points[0].key.strategy == "dense/d3k1n4/bfs/c1/F*");
  CHECK(read.points[0].acceptance->accepted_per_step == Approx((1250.0 - 10.0) / 500.0));
  CHECK(read.points[0].acceptance->steps == 500);
  CHECK(read.details.at("model_name") == "m");
  const ImportedPoints later = read_sglang_counters({.file = "its.name",
                                                     .text = page(700, 1500, 14),
                                                     .before = page(500, 1000, 9),
                                                     .context_len = 2048,
                                                     .draft = DraftChoice{4, 2, 9}});
  CHECK(later.points.at(0).key.strategy == "dense/d4k2n9/bfs/c1/F*");
  CHECK(later.points[0].acceptance->accepted_per_step == Approx((500.0 - 5.0) / 200.0));
  const Error reset = test::error_of([&] {
    read_sglang_counters({.file = "its.name",
                          .text = page(100, 200, 9),
                          .before = page(500, 1000, 9),
                          .context_len = 2048});
  });
  CHECK(test::contains(reset.what(), "was reset between the two scrapes"));
  std::string tree = page(500, 1000, 9);
  tree.replace(tree.find("} 4.0"), 5, "} 9.0");
  test::check_refusals(read_sglang_counters,
                       {{"sglang:spec_accept_length{} 2.5\n", "'Decode batch' lines"},
                        {page(0, 10, 1), "counts no verification of a finished request"},
                        {page(100, 1000, 9), "more than the 4 tokens"},
                        {page(500, 10, 9), "verification calls is 0.5, not a number from 1"},
                        {tree, "does not say what was drafted: give --draft"},
                        {page(1, 1, 1) + page(1, 1, 1), "stands twice with the same labels"}});
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

TEST_CASE("a stated draft is the one that the server was started with") {
  const auto refusal = [](const auto& read, const std::string& text) {
    return std::string(
        test::error_of([&] {
          read({.file = "f", .text = text, .context_len = 4096, .draft = DraftChoice{5, 1, 6}});
        }).what());
  };
  CHECK(test::contains(refusal(read_sglang_log, kArguments + decode(1, "2.00")),
                       "says that d3k1n4 was drafted, and --draft says d5k1n6: leave it out"));
  CHECK(test::contains(refusal(read_sglang_serving, run("3.6", "1")),
                       "says that d5k8n32 was drafted, and --draft says d5k1n6: leave it out"));
}

TEST_CASE("a series of SGLang's page that is gone was of a server that is") {
  const std::string page =
      "sglang:spec_verify_calls_total{rank=\"0\"} 500\nsglang:spec_verify_calls_total{rank=\"1\"} "
      "500\nsglang:generation_tokens_total 2510\nsglang:num_requests_total 10\n"
      "sglang:spec_num_steps 3\nsglang:spec_num_draft_tokens 4\n";
  std::string later = page;
  later.replace(later.find("rank=\"1\""), 8, "rank=\"2\"");
  const Error error = test::error_of([&] {
    read_sglang_counters({.file = "f", .text = later, .before = page, .context_len = 4096});
  });
  CHECK(test::contains(error.what(), "spec_verify_calls was reset between the two scrapes"));
}
