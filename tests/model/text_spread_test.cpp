// Texts as units: their ratio and its spread, and what a plan makes of it for so many requests.
#include "model/cost/text_spread.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

#include "model/plan/planner.h"
#include "model/plan/request_intervals.h"
#include "model/words/normal_law.h"
#include "tests/support/planned.h"

using namespace versieve;
using synthetic::fitted_by_hand;

namespace {

double half_width(const Interval& i) {
  return 0.5 * std::log(i.high / i.low);
}

PlanTable planned_for(std::int64_t requests, const TextSpread& texts) {
  FittedModel fit = fitted_by_hand();
  fit.acceptance.texts = texts;
  PlanOptions options;
  options.buckets = {default_buckets().front()};
  options.classes = {PrecisionClass::kStrict};
  options.schedules = {"F*"};
  options.requests = requests;
  return plan(fit, hardware_by_key("h200-sxm"), named_llm_shape("nsa-1b"), options);
}

constexpr TextSpread kSpread{.rate = 0.08, .texts = 20, .evidence = TextEvidence::kDecoded};

}  // namespace

TEST_CASE("the ratio of texts is all tokens over all steps, its spread that of whole texts") {
  CHECK(ratio_of_texts(std::vector<TextCount>{{10.0, 40.0}}).ratio == 4.0);
  CHECK(ratio_of_texts(std::vector<TextCount>{{10.0, 40.0}}).log_error == 0.0);
  const std::vector<TextCount> alike(5, {20.0, 80.0});
  CHECK(ratio_of_texts(alike).log_error == 0.0);
  CHECK(ratio_of_texts(alike).texts == 5);
  // Of as many steps each: the standard deviation of their means over the mean.
  const TextRatio two = ratio_of_texts(std::vector<TextCount>{{10.0, 30.0}, {10.0, 50.0}});
  CHECK(two.ratio == 4.0);
  CHECK(two.log_error == Approx(std::sqrt(2.0) / 4.0));
  // Kinds that weigh alike: as many tokens each, the slow one with more steps.
  const TextRatio kinds =
      ratio_of_texts(std::vector<TextCount>{{100.0, 200.0, 1.0 / 200.0}, {10.0, 40.0, 1.0 / 40.0}});
  CHECK(kinds.ratio == Approx(2.0 / (0.5 + 0.25)));
}

TEST_CASE("few texts widen an interval as Student's t does") {
  CHECK(few_texts_factor(0) == 1.0);
  CHECK(few_texts_factor(5) == Approx(2.1318 / kNinety).epsilon(0.01));
  CHECK(few_texts_factor(9) == Approx(1.8595 / kNinety).epsilon(0.003));
  CHECK(few_texts_factor(31) == Approx(1.6973 / kNinety).epsilon(0.001));
  CHECK(few_texts_factor(1000000) == Approx(1.0).epsilon(1e-5));
}

TEST_CASE("an interval narrows with its requests, down to what is known of the mean") {
  const PlanTable one = planned_for(1, kSpread), sixteen = planned_for(16, kSpread),
                  many = planned_for(kMostRequests, kSpread), none = planned_for(16, {});
  CHECK(sixteen.requests == 16);
  CHECK(sixteen.texts_note == "as the 20 that the pair decoded");
  CHECK(none.texts_note.empty());
  REQUIRE(one.entries.size() == none.entries.size());
  for (std::size_t i = 0; i < one.entries.size(); ++i) {
    const Evaluation &a = one.entries[i].evaluation, &b = sixteen.entries[i].evaluation,
                     &c = many.entries[i].evaluation, &d = none.entries[i].evaluation;
    CAPTURE(a.strategy.text());
    // Ranks, means and odds are of the same texts.
    CHECK(a.strategy == d.strategy);
    CHECK(a.throughput == d.throughput);
    CHECK(one.entries[i].beats_baseline == none.entries[i].beats_baseline);
    CHECK(a.same_texts_interval.low == d.same_texts_interval.low);
    if (!a.strategy.draft.speculates()) {
      CHECK(half_width(a.throughput_interval) == half_width(c.throughput_interval));
      continue;
    }
    CHECK(half_width(a.throughput_interval) > half_width(b.throughput_interval));
    CHECK(half_width(b.throughput_interval) > half_width(c.throughput_interval));
    CHECK(half_width(c.throughput_interval) > half_width(d.throughput_interval));
    const double text = kNinety * a.text_log_error;
    CHECK(half_width(a.throughput_interval) > text);
    CHECK(std::pow(half_width(a.throughput_interval), 2) -
              std::pow(half_width(c.throughput_interval), 2) ==
          Approx(text * text).epsilon(1e-4));
    const Interval again = interval_for(b, 16, 1);
    CHECK(again.low == Approx(a.throughput_interval.low));
    CHECK(again.high == Approx(a.throughput_interval.high));
    CHECK(interval_for(b, 0, 1).low == b.throughput_interval.low);  // an older table's
  }
}

TEST_CASE("deep trees follow a text's rate more than shallow ones, plain decoding not at all") {
  FittedModel fit = fitted_by_hand();
  fit.acceptance.measured.clear();
  fit.acceptance.texts = kSpread;
  const auto error = [&](const char* strategy) {
    return accepted_tokens(fit.acceptance, Strategy::parse(strategy), 0, 4096).text_log_error;
  };
  CHECK(error("nsa/ar") == 0.0);
  CHECK(error("nsa/d2k1n3/bfs/c1/F*") > 0.03);
  CHECK(error("nsa/d7k1n8/bfs/c1/F*") > 1.5 * error("nsa/d2k1n3/bfs/c1/F*"));
  CHECK(error("nsa/d7k1n8/bfs/c1/F*") < 6.0 * 0.08);
}

TEST_CASE("step times that differ over a bucket's contexts widen its intervals") {
  CHECK(contexts_log_error(std::vector<double>{5.0}) == 0.0);
  CHECK(contexts_log_error(std::vector<double>{5.0, 5.0, 5.0}) == Approx(0.0).margin(1e-7));
  // A line from -0.3 to 0.3 has the standard deviation 0.6 / sqrt(12).
  CHECK(contexts_log_error(std::vector<double>{std::exp(-0.2), 1.0, std::exp(0.2)}) ==
        Approx(0.6 / std::sqrt(12.0)));
}

TEST_CASE("a number of requests is said in words") {
  CHECK(requests_text(1) == "one request");
  CHECK(requests_text(16) == "the mean of 16 requests");
  CHECK(requests_text(0) == "the mean over the measured texts");
}
