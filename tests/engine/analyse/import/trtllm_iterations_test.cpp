// TensorRT-LLM's statistics of iterations, and Model-Optimizer's profile of a draft.
#include "tests/engine/analyse/import/refusals.h"

using namespace versieve;
using namespace versieve::engine;

namespace {

std::string iteration(int requests, int drafted, int accepted) {
  return R"({"iter": 1, "iterLatencyMS": 9.5, "specDecodingStats": {"numDraftTokens": )" +
         std::to_string(drafted) + R"(, "numAcceptedTokens": )" + std::to_string(accepted) +
         R"(, "numRequestsWithDraftTokens": )" + std::to_string(requests) +
         R"(, "acceptanceLength": 1.0}})" + "\n";
}

ImportedPoints read(const std::string& text, DraftChoice draft = {3, 1, 4}) {
  return read_trtllm_iterations(
      {.file = "its.name", .text = text, .context_len = 2048, .draft = draft});
}

}  // namespace

TEST_CASE("iterations of one request are counted step by step") {
  const ImportedPoints points =
      read(iteration(1, 3, 3) + iteration(1, 3, 0) + iteration(1, 3, 1) + iteration(0, 0, 0));
  CHECK(points.rows_taken == 3);
  REQUIRE(points.points.size() == 1);
  CHECK(points.points[0].acceptance->accepted_histogram ==
        std::vector<std::int64_t>{0, 1, 1, 0, 1});
  CHECK(points.left_out.at("iterations without a draft") == 1);
  CHECK(test::contains(points.remarks.back(), "numAcceptedTokens does not"));
}

TEST_CASE("shorter drafts are censored where each is known, a bound where not") {
  const ImportedPoints one = read(iteration(1, 3, 3) + iteration(1, 1, 1));
  REQUIRE(one.points.size() == 2);
  CHECK(one.points[1].acceptance->accepted_per_step == Approx(4.0));
  const ImportedPoints four = read(iteration(4, 9, 6));
  REQUIRE(four.points.size() == 1);
  CHECK(four.points[0].key.regime == "concurrency 4");
  CHECK(four.points[0].acceptance->accepted_per_step == Approx(2.5));
  CHECK(four.points[0].reliability == Reliability::kAtLeast);
  CHECK(read(iteration(4, 12, 6)).points[0].reliability == Reliability::kUnchecked);
  CHECK(read(iteration(1, 15, 3), {4, 4, 16}).points[0].key.strategy == "dense/d4k4n16/bfs/c1/F*");
}

TEST_CASE("statistics that do not say their tree need it given") {
  const Error error = test::error_of([] {
    read_trtllm_iterations({.file = "f", .text = iteration(1, 3, 1), .context_len = 2048});
  });
  CHECK(error.code() == ExitCode::kBadInput);
  CHECK(test::contains(error.what(), "give --draft d<max_draft_len>"));
  const Error more = test::error_of([] { read(iteration(2, 9, 3)); });
  CHECK(test::contains(more.what(), "are more than --draft d3k1n4 allows 2 requests"));
}

TEST_CASE("a profile of a draft is its histogram") {
  const auto profile = [](const std::string& rest) {
    return R"({"schema_version": "1.0", "num_speculative_tokens": 3, )" + rest + "}";
  };
  const ImportedPoints points = test::read_with(
      read_speculation_profile,
      profile(R"("measured": true, "marginal_accept_rates": [0.8, 0.5, 0.2],)"
              R"("acceptance_length_histogram": {"1": 20, "2": 30, "3": 30, "4": 20})"));
  REQUIRE(points.points.size() == 1);
  CHECK(points.points[0].key.strategy == "dense/d3k1n4/bfs/c1/F*");
  CHECK(points.points[0].acceptance->accepted_per_step == Approx(2.5));
  test::check_refusals(
      read_speculation_profile,
      {{profile(R"("measured": false)"), "measured: false, so nothing was measured yet"},
       {profile(R"("acceptance_length_histogram": null)"), "has no acceptance_length_histogram"},
       {profile(R"("acceptance_length_histogram": {"5": 1})"), "from 0 to 4"},
       {profile(R"("acceptance_length_histogram": {"1": 0})"), "counts no step"},
       {profile(R"("acceptance_length_histogram": {"1": 3, "01": 4})"), "counts 1 twice"},
       {profile(R"("acceptance_length_histogram": {"1": 2.5})"), "holds 2.5, not a count"},
       {R"({"marginal_accept_rates": []})", "lacks the field num_speculative_tokens"}});
  std::string later = profile(R"("acceptance_length_histogram": {"1": 1})");
  CHECK(test::read_with(read_speculation_profile, later).remarks.size() == 1);
  later.replace(later.find("1.0"), 3, "2.0");
  CHECK(test::contains(test::read_with(read_speculation_profile, later).remarks.at(1),
                       "schema_version is '2.0', and what is read here is that of 1.0"));
}

// After the fields that build_profile of Model-Optimizer's specdec_bench writes (schema 1.0).
TEST_CASE("a profile says at how many requests it was measured, and what shorter drafts are") {
  const auto profile = [](const std::string& more) {
    return R"({"schema_version": "1.0", "measured": true, "method": "dspark", )"
           R"("num_speculative_tokens": 3, "mean_accept_length": 1.9, )"
           R"("acceptance_length_histogram": {"0": 7, "1": 40, "2": 30, "3": 30}, )" +
           more + "}";
  };
  const ImportedPoints read = test::read_with(
      read_speculation_profile, profile(R"("conditional_accept_rates": [0.6, 0.5, 0.0], )"
                                        R"("accept_length_model": "measured_per_k", )"
                                        R"("measurement_conditions": {"concurrency": 16})"));
  REQUIRE(read.points.size() == 1);
  CHECK(read.points[0].key.regime == "concurrency 16");
  CHECK(read.points[0].acceptance->steps == 100);
  CHECK(read.points[0].acceptance->accepted_per_step == Approx(1.9));
  CHECK(test::contains(read.points[0].reason, "made anew for each length"));
  CHECK(read.left_out.at("steps that emitted nothing") == 7);
  const ImportedPoints block = test::read_with(read_speculation_profile,
                                               profile(R"("conditional_accept_rates": null, )"
                                                       R"("marginal_accept_rates": null, )"
                                                       R"("verification_method": "block", )"
                                                       R"("vectors_unavailable_reason": "block")"));
  CHECK(test::contains(block.points.at(0).reason, "verified by blocks"));
  CHECK(block.points[0].key.regime.empty());
  test::check_refusals(read_speculation_profile,
                       {{profile(R"("measurement_conditions": {"concurrency": -1})"),
                         "concurrency is -1, not a number from 1"}});
}
