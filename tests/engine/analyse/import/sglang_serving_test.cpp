// SGLang's bench_serving, its responses and its page, and what they have in common with its log.
#include <algorithm>

#include "tests/engine/analyse/import/refusals.h"
#include "tests/engine/analyse/import/sglang_lines.h"

using namespace versieve;
using namespace versieve::engine;
using test::decode;
using test::kArguments;
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
