// JSON of vLLM: its benchmark's result, and the counts that its responses carry.
#include <algorithm>

#include "tests/engine/analyse/import/refusals.h"

using namespace versieve;
using namespace versieve::engine;
using test::read_with;

namespace {

std::string result(const std::string& rates = "[0.74, 0.52, 0.37]", int draft_tokens = 3000) {
  return R"({"endpoint_type": "openai", "request_rate": Infinity, "max_concurrency": 4,)"
         R"("completed": 8, "total_input_tokens": 16000, "total_output_tokens": 800,)"
         R"("spec_decode_num_drafts": 1000, "spec_decode_draft_tokens": )" +
         std::to_string(draft_tokens) +
         R"(, "spec_decode_accepted_tokens": 1630, "spec_decode_acceptance_length": 2.63,)"
         R"("spec_decode_per_position_acceptance_rates": )" +
         rates + "}";
}

std::string response(const std::string& metrics) {
  return R"({"id": "c", "choices": [], "metrics": {"speculative_decoding": {)" + metrics + "}}}\n";
}

}  // namespace

TEST_CASE("a result of the benchmark is a chain at its concurrency") {
  const ImportedPoints read = read_vllm_bench({.file = "f", .text = result()});
  REQUIRE(read.points.size() == 1);
  CHECK(read.points[0].key.strategy == "dense/d3k1n4/bfs/c1/F*");
  CHECK(read.points[0].key.context_len == 3072);  // 2,000 and half of 100, rounded up
  CHECK(read.points[0].key.regime == "concurrency 4");
  CHECK(read.points[0].acceptance->steps == 1000);
  CHECK(read.points[0].acceptance->accepted_per_step == Approx(2.63));
  CHECK(read.details["rows"][0]["concurrency"] == 4);
  CHECK(read_with(read_vllm_bench, result()).points[0].key.context_len == 2048);  // as stated
}

TEST_CASE("a result's time of a token is that of a step by its tokens, and plain where stated") {
  std::string timed = result();
  timed.insert(1, R"("mean_tpot_ms": 9, "median_tpot_ms": 4, )");
  const ImportedPoints read = read_vllm_bench({.file = "f", .text = timed});
  REQUIRE(read.points.size() == 2);
  CHECK(read.points[1].key.strategy == "dense/d3k1n4/bfs/c1/F*");
  CHECK(read.points[1].key.regime == "concurrency 4");
  CHECK(read.points[1].time_ns.at(0) == Approx(4e6 * 2.63));
  // A third of the drafts' tokens were never drafted: no time of the whole chain.
  std::string cut = result("[0.74, 0.52, 0.37]", 2000);
  cut.insert(1, R"("median_tpot_ms": 4, )");
  const ImportedPoints without = read_vllm_bench({.file = "f", .text = cut});
  CHECK(std::all_of(without.points.begin(), without.points.end(),
                    [](const PointMeasurement& m) { return m.acceptance.has_value(); }));
  CHECK(without.left_out.count("times of drafts of which some were cut short") == 1);
  const std::string plain = R"({"endpoint_type": "openai", "max_concurrency": 16, "completed": 2,)"
                            R"("total_input_tokens": 4000, "median_tpot_ms": 7.5})";
  const ImportedPoints ar = read_vllm_bench({.file = "f", .text = plain, .draft = DraftChoice{}});
  REQUIRE(ar.points.size() == 1);
  CHECK(ar.points[0].key.strategy == "dense/ar");
  CHECK(ar.points[0].key.regime == "concurrency 16");
  CHECK(ar.points[0].time_ns.at(0) == Approx(7.5e6));
  CHECK(test::contains(test::error_of([&] {
                         read_vllm_bench({.file = "f", .text = timed, .draft = DraftChoice{}});
                       }).what(),
                       "leave --draft ar out"));
}

TEST_CASE("a limit that few requests of a result reached is not how many ran at a time") {
  const auto regime = [](const std::string& fields) {
    std::string text = result();
    text.replace(text.find("\"max_concurrency\": 4"), 20, fields);
    text.insert(1, R"("median_tpot_ms": 4, )");
    const ImportedPoints read = read_vllm_bench({.file = "f", .text = text});
    CHECK(read.points.size() == (read.points[0].key.regime.empty() ? 1 : 2));
    return read.points[0].key.regime;
  };
  // 8 requests of 100 tokens: 8 x 0.2 s to the first and 792 x 10 ms after it, in 4 s.
  const std::string times =
      R"("duration": 4, "mean_ttft_ms": 200, "mean_tpot_ms": 10, "max_concurrency": )";
  CHECK(regime(times + "4") == "concurrency 4");
  CHECK(regime(times + "64") == "concurrency 2");
  CHECK(regime(times + "null") == "concurrency 2");
  CHECK(regime(R"("ramp_up_strategy": "linear", )" + times + "4") == "concurrency 2");
  CHECK(regime(R"("ramp_up_strategy": "linear", "max_concurrency": 4)").empty());
  const auto at_rate = [](const std::string& rate) {
    std::string text = result();
    text.replace(text.find("Infinity"), 8, rate);
    return read_vllm_bench({.file = "f", .text = text}).points[0].key.regime;
  };
  CHECK(at_rate("\"inf\"") == "concurrency 4");
  CHECK(at_rate("3.5").empty());
}

TEST_CASE("rates of a result that contradict its counts are refused") {
  const auto with = [](const std::string& fields) {
    std::string text = result();
    text.insert(1, fields + ", ");
    return text;
  };
  CHECK(read_with(read_vllm_bench,
                  with(R"("duration": 4.0, "output_throughput": 200, "request_throughput": 2)"))
            .points.size() == 1);
  CHECK(read_with(read_vllm_bench, with(R"("output_throughput": 9000)")).points.size() == 1);
  test::check_refusals(
      read_vllm_bench,
      {{with(R"("duration": 4.0, "output_throughput": 9000.5)"),
        "output_throughput is 9000.5, but total_output_tokens of 800 in a duration of 4.0 s"},
       {with(R"("duration": 4.0, "request_throughput": 4)"),
        "request_throughput is 4, but completed of 8 in a duration of 4.0 s"}});
}

TEST_CASE("results without counts of drafts are refused by the field") {
  test::check_refusals(
      read_vllm_bench,
      {{R"({"endpoint_type": "openai"})",
        "lacks the field spec_decode_num_drafts: this is no result of `vllm bench serve` against a "
        "server that speculates"},
       {result("[]"), "lacks the list spec_decode_per_position_acceptance_rates"},
       {result("[0.74, null, 0.37]"), "holds null, not a number"},
       {result("[0.74, 0.8, 0.37]"), "position 1 was accepted 800 times"},
       {result("[0.74, 0.52]"), "counts 1630 accepted tokens, but 1260"}});
}

TEST_CASE("AIPerf's record is read, contradictions are refused and further fields are named") {
  const auto record = [](const std::string& accepted, const std::string& more) {
    return R"({"spec_decode": {"engine": "trtllm", "mean_acceptance_length": 2.5,)"
           R"("draft_acceptance_rate": 0.5, "acceptance_histogram": {"0": 8, "2": 6, "3": 6},)"
           R"("num_accepted_draft_tokens": )" +
           accepted + R"(, "num_draft_tokens": 60, "num_spec_steps": 20, "num_spec_tokens": null)" +
           more + "}}";
  };
  const ImportedPoints read = read_with(read_vllm_requests, record("30", R"(, "tree_id": 4)"));
  REQUIRE(read.points.size() == 1);
  CHECK(read.points[0].key.strategy == "dense/d3k1n4/bfs/c1/F*");
  CHECK(read.points[0].acceptance->accepted_per_step == Approx(2.5));
  CHECK(test::contains(read.remarks.back(), "fields that are not read: 'tree_id'"));
  test::check_refusals(read_vllm_requests, {{record("50", ""), "50 accepted tokens"}});
}

TEST_CASE("responses' counts are summed, and the bonus token is added") {
  const std::string metrics =
      R"("acceptance_histogram": [39, 1, 0, 3], "num_spec_steps": 43,)"
      R"("num_accepted_draft_tokens": 10, "num_draft_tokens": 129, "num_spec_tokens": 3)";
  const ImportedPoints read =
      read_with(read_vllm_requests, response(metrics) + response(metrics) + "{\"id\": 1}\n");
  CHECK(read.rows_taken == 2);
  REQUIRE(read.points.size() == 1);
  CHECK(read.points[0].acceptance->accepted_histogram == std::vector<std::int64_t>{0, 78, 2, 0, 6});
  CHECK(read.points[0].acceptance->accepted_per_step == Approx(1.0 + 10.0 / 43.0));
  CHECK(read.left_out.size() == 1);
  CHECK(test::contains(read.remarks.back(), "leaves the bonus token out"));
}

TEST_CASE("drafts stated step by step are censored where they end") {
  const ImportedPoints read =
      read_with(read_vllm_requests,
                response(R"("acceptance_histogram": {"0": 1, "1": 2, "3": 1}, "num_spec_steps": 4,)"
                         R"("num_draft_tokens": 8, "num_spec_tokens": 3,)"
                         R"("per_step_drafted": [3, 1, 1, 3])"));
  REQUIRE(read.points.size() == 2);
  CHECK(read.points[0].key.strategy == "dense/d1k1n2/bfs/c1/F*");
  CHECK(read.points[0].acceptance->accepted_per_step == Approx(1.75));
  CHECK(read.points[1].key.strategy == "dense/d3k1n4/bfs/c1/F*");
}

TEST_CASE("responses that contradict themselves are refused") {
  test::check_refusals(
      read_vllm_requests,
      {{response(R"("acceptance_histogram": [1], "num_spec_steps": 2, "num_draft_tokens": 3)"),
        "num_spec_steps is 2, but acceptance_histogram has 1 steps"},
       {response(R"("acceptance_histogram": [1, -1], "num_spec_steps": 0)"), "holds -1"},
       {response(R"("acceptance_histogram": 3, "num_spec_steps": 0)"),
        "neither a list nor an object"},
       {response(R"("acceptance_histogram": [0, 0, 1], "num_spec_steps": 1, "num_spec_tokens": 1)"),
        "counts 2 accepted tokens, more than num_spec_tokens"},
       {response(R"("acceptance_histogram": [1])"), "lacks the field num_spec_steps"}});
}

TEST_CASE("drafts without a fixed length are one chain, cut where each ended") {
  const auto record = [](const std::string& histogram, int steps, int drafted,
                         const std::string& each) {
    return R"({"spec_decode_acceptance": {"engine": "vllm", "acceptance_histogram": )" + histogram +
           R"(, "num_spec_steps": )" + std::to_string(steps) + R"(, "num_draft_tokens": )" +
           std::to_string(drafted) + R"(, "num_spec_tokens": null, "per_step_drafted": )" + each +
           "}}\n";
  };
  // Steps of two and of four tokens; which of them were accepted tells no chain from another.
  const std::string two =
      record(R"({"0": 1, "2": 1})", 2, 4, "[2, 2]") + record(R"({"1": 1, "4": 1})", 2, 8, "[4, 4]");
  const ImportedPoints read = read_with(read_vllm_requests, two);
  REQUIRE(read.points.size() == 2);
  CHECK(read.points[0].key.strategy == "dense/d2k1n3/bfs/c1/F*");
  CHECK(read.points[0].acceptance->accepted_per_step == Approx(1.0 + 0.75 + 0.5));
  CHECK(read.points[1].key.strategy == "dense/d4k1n5/bfs/c1/F*");
  const ImportedPoints silent =
      read_with(read_vllm_requests, record(R"({"0": 2, "1": 2})", 4, 10, "null"));
  CHECK(silent.points.back().key.strategy == "dense/d3k1n4/bfs/c1/F*");
  CHECK(silent.points.back().reliability == Reliability::kAtLeast);
  const ImportedPoints stated =
      read_vllm_requests({.file = "its.name",
                          .text = record(R"({"0": 2, "1": 2})", 4, 10, "null"),
                          .context_len = 2048,
                          .draft = DraftChoice{5, 1, 6}});
  CHECK(stated.points.back().key.strategy == "dense/d5k1n6/bfs/c1/F*");
}

// After TensorRT-LLM's response objects of 2026-11: one for each choice.
TEST_CASE("TensorRT-LLM's responses say the same under their own names") {
  const auto choice = [](int accepted, int drafted, int steps, const std::string& histogram,
                         const std::string& length) {
    return R"({"index": 0, "speculative_decoding": {"acceptance_rate": 0.5, )"
           R"("total_accepted_draft_tokens": )" +
           std::to_string(accepted) + R"(, "total_draft_tokens": )" + std::to_string(drafted) +
           R"(, "num_spec_steps": )" + std::to_string(steps) + R"(, "acceptance_histogram": )" +
           histogram + R"(, "num_spec_tokens": )" + length + "}}";
  };
  const std::string two = R"({"choices": [)" + choice(4, 8, 4, "[1, 2, 1]", "2") + ", " +
                          choice(1, 6, 3, "[2, 1, 0]", "2") + "]}";
  const ImportedPoints read = read_with(read_trtllm_responses, two);
  CHECK(read.rows_taken == 2);
  REQUIRE(read.points.size() == 1);
  CHECK(read.points[0].key.strategy == "dense/d2k1n3/bfs/c1/F*");
  CHECK(read.points[0].acceptance->accepted_histogram == std::vector<std::int64_t>{0, 3, 3, 1});
  const std::string tree = choice(4, 40, 4, "[1, 2, 1]", "2");
  test::check_refusals(read_trtllm_responses,
                       {{tree, "so a tree was drafted: give --draft"},
                        {R"({"acceptance_histogram": [1], "num_spec_steps": 1})",
                         "lacks the field total_draft_tokens: this is no speculative_decoding of "
                         "TensorRT-LLM"}});
  const auto with = [&](DraftChoice draft) {
    return read_trtllm_responses(
        {.file = "its.name", .text = tree, .context_len = 2048, .draft = draft});
  };
  CHECK(with({2, 5, 11}).points.at(0).key.strategy == "dense/d2k5n11/bfs/c1/F*");
  CHECK(with({2, 5, 11}).points[0].acceptance->accepted_per_step == Approx(2.0));
  CHECK(with({3, 8, 25}).points.at(0).reliability == Reliability::kAtLeast);
}

TEST_CASE("AIPerf's records of a warm-up are no part of its run") {
  const auto record = [](const std::string& phase, const std::string& histogram) {
    return R"({"metadata": {"benchmark_phase": ")" + phase +
           R"("}, "spec_decode_acceptance": {"num_spec_tokens": 3, "num_spec_steps": 4, )"
           R"("num_draft_tokens": 12, "acceptance_histogram": )" +
           histogram + "}}\n";
  };
  const ImportedPoints read = read_with(
      read_vllm_requests, record("warmup", R"({"0": 4})") +
                              record("profiling", R"({"0": 1, "2": 2, "3": 1})"));
  CHECK(read.rows_taken == 1);
  CHECK(read.points.at(0).acceptance->accepted_per_step == Approx(2.75));
  CHECK(read.left_out.at("records of a warm-up") == 1);
}

TEST_CASE("requests at a time of a summary are those of the phases that it counts") {
  const auto regime = [](const std::string& phases, const std::string& mean) {
    return read_aiperf_summary(
               {.file = "f",
                .text = R"({"aiperf_version": "0.13.0", "input_config": {"phases": [)" + phases +
                        "]}" + mean +
                        R"(, "pooled_spec_decode_acceptance_histogram": {"0": 8, "2": 6}})",
                .context_len = 2048,
                .draft = DraftChoice{2, 1, 3}})
        .points.at(0)
        .key.regime;
  };
  const std::string warm = R"({"name": "w", "kind": "warmup", "concurrency": 2}, )";
  const std::string eight = R"({"name": "p", "kind": "profiling", "type": "concurrency", )"
                            R"("concurrency": 8})";
  const std::string rate = R"({"name": "p", "kind": "profiling", "type": "poisson", "rate": 2, )"
                           R"("concurrency": 64})";
  const auto ran = [](const std::string& mean) {
    return R"(, "effective_concurrency": {"unit": "requests", "avg": )" + mean + "}";
  };
  CHECK(regime(warm + eight, "") == "concurrency 8");
  CHECK(regime(R"({"name": "warmup", "concurrency": 1}, )" + eight, ran("7.1")) ==
        "concurrency 8");
  CHECK(regime(eight, ran("2.2")) == "concurrency 2");
  CHECK(regime(rate, ran("5.6")) == "concurrency 6");
  CHECK(regime(rate, "").empty());
  CHECK(regime(eight + R"(, {"name": "q", "concurrency": 16})", "").empty());
}

// Names as AIPerf 0.13.0 exports them.
TEST_CASE("a summary of AIPerf is its pooled histogram, at the requests of its phase") {
  const auto summary = [](const std::string& histogram) {
    return R"({"schema_version": "1.4", "aiperf_version": "0.13.0", "input_config": )"
           R"({"phases": [{"name": "profiling", "concurrency": 8}]}, )"
           R"("input_sequence_length": {"unit": "tokens", "avg": 3000.0}, )"
           R"("output_sequence_length": {"unit": "tokens", "avg": 200.0}, )"
           R"("inter_token_latency": {"unit": "ms", "avg": 9.0, "p50": 5.0}, )"
           R"("total_draft_tokens": {"unit": "tokens", "avg": 60})" +
           histogram + "}";
  };
  const std::string pooled =
      summary(R"(, "pooled_spec_decode_acceptance_histogram": {"0": 8, "2": 6, "3": 6})");
  const auto read = [](const std::string& text, std::optional<DraftChoice> draft) {
    return read_aiperf_summary({.file = "its.name", .text = text, .draft = draft});
  };
  const ImportedPoints chain = read(pooled, DraftChoice{3, 1, 4});
  REQUIRE(chain.points.size() == 2);
  CHECK(chain.points[0].key.regime == "concurrency 8");
  CHECK(chain.points[0].key.context_len == 4096);
  CHECK(chain.points[0].acceptance->accepted_per_step == Approx(2.5));
  CHECK(chain.points[1].time_ns.at(0) == Approx(5e6 * 2.5));
  CHECK(read(pooled, DraftChoice{4, 1, 5}).points.back().key.strategy == "dense/d4k1n5/bfs/c1/F*");
  CHECK(read(summary(""), DraftChoice{}).points.at(0).time_ns.at(0) == Approx(5e6));
  // Three of four tokens were drafted: no time of a chain of four.
  const ImportedPoints cut = read(pooled, DraftChoice{4, 1, 5});
  CHECK(std::all_of(cut.points.begin(), cut.points.end(),
                    [](const PointMeasurement& m) { return m.acceptance.has_value(); }));
  CHECK(cut.left_out.count("times of drafts of which some were cut short") == 1);
  const auto in_unit = [&](const std::string& unit) {
    std::string text = pooled;
    return text.replace(text.find("\"ms\""), 4, "\"" + unit + "\"");
  };
  CHECK(read(in_unit("us"), DraftChoice{3, 1, 4}).points[1].time_ns.at(0) == Approx(5e3 * 2.5));
  CHECK(read(in_unit("sec"), DraftChoice{3, 1, 4}).points[1].time_ns.at(0) == Approx(5e9 * 2.5));
  const auto refused = [&](const std::string& text, std::optional<DraftChoice> draft,
                           const std::string& part) {
    const Error error = test::error_of([&] { read(text, draft); });
    CHECK(error.code() == ExitCode::kBadInput);
    CHECK(test::contains(error.what(), part));
  };
  refused(in_unit("furlong"), DraftChoice{3, 1, 4}, "which is no unit of time");
  refused(pooled, {}, "does not say how many tokens were drafted: give --draft");
  refused(pooled, DraftChoice{2, 1, 3}, "counts 3 accepted tokens, more than --draft drafts");
  refused(pooled, DraftChoice{}, "leave --draft ar out");
  refused(summary(""), DraftChoice{3, 1, 4}, "the server did not speculate (--draft ar");
}
