// vLLM's counters: what a page of them says of the chain, and which pages contradict themselves.
#include "tests/engine/analyse/import/refusals.h"

using namespace versieve;
using namespace versieve::engine;
using test::read_with;

namespace {

std::string counter(const std::string& name, const std::string& labels, const std::string& value) {
  return "vllm:spec_decode_num_" + name + "{engine=\"0\",model_name=\"m\"" + labels + "} " + value +
         "\n";
}

std::string position(int place, const std::string& value) {
  return counter("accepted_tokens_per_pos_total", ",position=\"" + std::to_string(place) + "\"",
                 value);
}

// 100 drafts of three tokens, of which 80, 50 and 20 reached so far.
const std::string kPage =
    "# HELP vllm:spec_decode_num_drafts_total Number of spec decoding drafts.\n"
    "# TYPE vllm:spec_decode_num_drafts_total counter\n" +
    counter("drafts_total", "", "100.0") + counter("drafts_created", "", "1.7567367987e+09") +
    counter("draft_tokens_total", "", "300.0") + counter("accepted_tokens_total", "", "150.0") +
    position(0, "80.0") + position(1, "50.0") + position(2, "20.0") +
    "vllm:gpu_cache_usage_perc{engine=\"0\"} NaN\n";

std::string without(std::string page, const std::string& line) {
  return page.erase(page.find(line), line.size());
}

}  // namespace

TEST_CASE("a page of counters is a chain with its histogram") {
  const ImportedPoints read = read_with(read_vllm_counters, kPage);
  REQUIRE(read.points.size() == 1);
  const PointMeasurement& point = read.points[0];
  CHECK(point.key.workload == WorkloadKind::kAcceptance);
  CHECK(point.key.strategy == "dense/d3k1n4/bfs/c1/F*");
  CHECK(point.key.context_len == 2048);
  CHECK(is_imported(point));
  CHECK(point.acceptance->steps == 100);
  CHECK(point.acceptance->accepted_histogram == std::vector<std::int64_t>{0, 20, 30, 30, 20});
  CHECK(point.acceptance->accepted_per_step == Approx(2.5));  // 1 + 0.8 + 0.5 + 0.2
  CHECK(point.acceptance->generated_tokens == 250);
  CHECK(read.rows_taken == 6);
  CHECK(read.details["model_name"] == "m");
  CHECK(read.remarks.size() == 1);
  CHECK(test::contains(read.remarks[0], "leave the bonus token out, and the points count it"));
}

TEST_CASE("engines of one server are added up, with or without the ending and a time") {
  const ImportedPoints read =
      read_with(read_vllm_counters,
                "vllm:spec_decode_num_drafts{engine=\"0\"} 10 1395066363000\n"
                "  vllm:spec_decode_num_drafts { engine = \"1\" , } 1e1\n"
                "vllm:spec_decode_num_accepted_tokens_per_pos{engine=\"0\",position=\"0\"} 4\n"
                "vllm:spec_decode_num_accepted_tokens_per_pos{engine=\"1\",position=\"0\"} 6\n");
  REQUIRE(read.points.size() == 1);
  CHECK(read.points[0].key.strategy == "dense/d1k1n2/bfs/c1/F*");
  CHECK(read.points[0].acceptance->steps == 20);
  CHECK(read.points[0].acceptance->accepted_per_step == Approx(1.5));
}

TEST_CASE("drafts shorter than their positions are said to be") {
  const std::string short_drafts = without(kPage, counter("draft_tokens_total", "", "300.0")) +
                                   counter("draft_tokens_total", "", "240");
  const ImportedPoints read = read_with(read_vllm_counters, short_drafts);
  CHECK(test::contains(read.remarks.at(1), "2.40 tokens long in the mean, not 3"));
  CHECK(read.points.back().reason == read.remarks.at(1));
  CHECK(read.points.back().reliability == Reliability::kAtLeast);
}

TEST_CASE("names of OpenMetrics and counts of drafted positions are read") {
  std::string page = kPage;
  for (std::size_t at = page.find("vllm:spec"); at != std::string::npos;
       at = page.find("vllm:spec")) {
    page.replace(at, 5, "vllm_");
  }
  CHECK(read_with(read_vllm_counters, page).points.at(0).acceptance->accepted_histogram ==
        std::vector<std::int64_t>{0, 20, 30, 30, 20});
  // Half of the drafts ended behind their second token: of those that had a third, 0.8 is right.
  const ImportedPoints read =
      read_with(read_vllm_counters, counter("drafts", "", "100") + position(0, "80") +
                                        position(1, "50") + position(2, "20") +
                                        counter("draft_tokens_per_pos", ",position=\"0\"", "100") +
                                        counter("draft_tokens_per_pos", ",position=\"1\"", "100") +
                                        counter("draft_tokens_per_pos", ",position=\"2\"", "50"));
  REQUIRE(read.points.size() == 2);
  CHECK(read.points[0].key.strategy == "dense/d2k1n3/bfs/c1/F*");
  CHECK(read.points[1].acceptance->accepted_per_step == Approx(1.0 + 0.8 + 0.5 + 0.4));
}

TEST_CASE("engines with drafts of other lengths are distinguished by their labels") {
  const auto engine = [](int id, int positions) {
    const std::string labels = "{engine=\"" + std::to_string(id) + "\"";
    std::string page = "vllm:spec_decode_num_drafts_total" + labels + "} 100\n" +
                       "vllm:spec_decode_num_draft_tokens_total" + labels + "} " +
                       std::to_string(100 * positions) + "\n";
    for (int p = 0; p < positions; ++p) {
      page += "vllm:spec_decode_num_accepted_tokens_per_pos_total" + labels + ",position=\"" +
              std::to_string(p) + "\"} " + std::to_string(60 - 20 * p) + "\n";
    }
    return page;
  };
  const ImportedPoints read = read_with(read_vllm_counters, engine(0, 1) + engine(1, 3));
  REQUIRE(read.points.size() == 2);
  CHECK(read.points[0].key.strategy == "dense/d1k1n2/bfs/c1/F*");
  CHECK(read.points[0].acceptance->steps == 200);
  CHECK(read.points[1].key.strategy == "dense/d3k1n4/bfs/c1/F*");
  CHECK(read.points[1].acceptance->accepted_per_step == Approx(2.2));
}

TEST_CASE("a page that was read while its server counted on is within a hundredth of itself") {
  const ImportedPoints read = read_with(
      read_vllm_counters, counter("drafts_total", "", "1000") +
                              counter("draft_tokens_total", "", "3000") +
                              counter("accepted_tokens_total", "", "2990") +
                              position(0, "1004") + position(1, "1002") + position(2, "996"));
  REQUIRE(read.points.size() == 1);
  CHECK(read.points[0].acceptance->accepted_histogram ==
        std::vector<std::int64_t>{0, 0, 0, 4, 996});
}

TEST_CASE("pages that say nothing of drafts, or contradict themselves, are refused") {
  const std::string drafts = counter("drafts_total", "", "100.0");
  const std::string accepted = counter("accepted_tokens_total", "", "150.0");
  test::check_refusals(
      read_vllm_counters,
      {{"", "holds no counter vllm:spec_decode_num_accepted_tokens_per_pos"},
       {"vllm:num_requests_running 3\n", "holds no counter"},
       {without(kPage, drafts), "counts no draft"},
       {without(kPage, position(1, "50.0")), "lacks the count of position 1"},
       {without(kPage, position(2, "20.0")) + position(2, "51"),
        "position 2 was accepted 51 times, more often than what comes before it (50)"},
       {without(kPage, drafts) + counter("drafts_total", "", "79"), "position 0 was accepted 80"},
       {without(kPage, accepted) + counter("accepted_tokens_total", "", "170"),
        "counts 170 accepted tokens, but 150 over the positions"},
       {without(kPage, counter("draft_tokens_total", "", "300.0")) +
            counter("draft_tokens_total", "", "400"),
        "more draft tokens than drafts times positions"},
       {kPage + drafts, "line 11: the counter vllm:spec_decode_num_drafts_total stands twice"},
       {kPage + counter("drafts", "", "100"), "stands twice with the same labels"},
       {kPage + "vllm:spec_decode_num_drafts{model_name=\"other\"} 1\n",
        "counts of two models, 'm' and 'other'"},
       {kPage + "vllm:spec_decode_num_accepted_tokens_per_pos 1\n", "has no label position"},
       {kPage + counter("accepted_tokens_per_pos", ",position=\"x\"", "1"), "position is 'x'"},
       {counter("drafts", "", "NaN"), "line 1: vllm:spec_decode_num_drafts is nan"},
       {counter("drafts", "", "-1"), "vllm:spec_decode_num_drafts is -1"},
       {counter("drafts", "", "+Inf"), "is '+Inf', not a number"},
       {counter("drafts", "", "1.5"), "is '1.5', not a whole count"},
       {counter("drafts", "", "1e300"), "is 1e+300"},
       {"vllm:spec_decode_num_drafts{engine=\"0\" 3\n", "is no line of Prometheus' text form"},
       {"vllm:spec_decode_num_drafts{engine=\"0\n", "is no line of Prometheus' text form"},
       {"vllm:spec_decode_num_drafts{engine\n", "is no line of Prometheus' text form"},
       {"vllm:spec_decode_num_drafts\n", "is '', not a number"}});
}

TEST_CASE("a chain deeper than any strategy is refused") {
  std::string page = counter("drafts", "", "9");
  for (int i = 0; i < 40; ++i) {
    page += position(i, "1");
  }
  test::check_refusals(read_vllm_counters, {{page, "out of range: depth 1 to 32"}});
}

TEST_CASE("a page of the V0 engine is the mean of what its drafts emitted") {
  const std::string page =
      "vllm:spec_decode_draft_acceptance_rate{model_name=\"m\"} 0.6\n"
      "vllm:spec_decode_efficiency{model_name=\"m\"} 0.55\n"
      "vllm:spec_decode_num_accepted_tokens_total{model_name=\"m\"} 900.0\n"
      "vllm:spec_decode_num_draft_tokens_total{model_name=\"m\"} 1500.0\n"
      "vllm:spec_decode_num_emitted_tokens_total{model_name=\"m\"} 825.0\n";
  const auto read = [&](const std::string& text) {
    return read_vllm_counters(
        {.file = "its.name", .text = text, .context_len = 2048, .draft = DraftChoice{5, 1, 6}});
  };
  const ImportedPoints points = read(page);
  REQUIRE(points.points.size() == 1);
  CHECK(points.points[0].key.strategy == "dense/d5k1n6/bfs/c1/F*");
  CHECK(points.points[0].acceptance->steps == 300);
  CHECK(points.points[0].acceptance->accepted_per_step == Approx(2.75));
  test::check_refusals(read_vllm_counters, {{page, "V0 engine, which does not say how long"}});
  std::string endless = page;
  endless.replace(endless.find("825"), 3, "9825");
  CHECK(test::contains(test::error_of([&] { read(endless); }).what(), "more than the 6 tokens"));
}
