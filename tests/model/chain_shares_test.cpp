// What SpecAttn reads and sigmoids keep is the planned pair's own where it was measured, and called
// assumed where it was not.
#include "model/plan/chain_shares.h"

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cmath>

#include "model/plan/planner.h"
#include "model/plan/system_grid.h"
#include "tests/support/planned.h"

using namespace versieve;
using synthetic::fitted_by_hand;

namespace {

constexpr const char* kSpecAttn = "specattn:p0.97/d5k1n6/bfs/c1/F*";
constexpr const char* kShortSigmoid = "nsa/d3k1n4/bfs/c1/F*/sampling=sigmoid";
constexpr const char* kSigmoid = "nsa/d7k1n8/bfs/c1/F*/sampling=sigmoid";

// A fit that has points of both systems.
FittedModel fit_with(const std::vector<ChainShare>& shares) {
  FittedModel fit = fitted_by_hand();
  fit.systems = {
      {.name = "decode specattn", .log_latency = 0.1, .points = 5, .longest = 1 << 17},
      {.name = "sampling sigmoid chain", .log_latency = 0.1, .points = 5, .longest = 1 << 17}};
  fit.chain_shares = shares;
  return fit;
}

// Of a vocabulary at which the sigmoids' sampler is the faster one for chains of seven and more.
LlmShape wide_target() {
  LlmShape target = named_llm_shape("nsa-1b");
  target.vocab = 262144;
  return target;
}

PlanTable planned(const std::vector<ChainShare>& shares, const LentShares& lent = {}) {
  PlanOptions options;
  options.buckets = {{8192, 16384}};
  options.classes = {PrecisionClass::kSparse, PrecisionClass::kApproxSampling};
  options.ranks = 1000;
  options.distinct = false;
  FittedModel fit = fit_with(shares);
  fit.lent_shares = lent;
  return plan(fit, hardware_by_key("h200-sxm"), wide_target(), options);
}

std::int64_t choosing_entries(const PlanTable& table) {
  return std::count_if(table.entries.begin(), table.entries.end(), [](const PlanEntry& e) {
    return e.evaluation.strategy.attention == AttentionMethod::kSpecAttn;
  });
}

const PlanEntry& entry_of(const PlanTable& table, const std::string& strategy) {
  const auto at = std::find_if(table.entries.begin(), table.entries.end(), [&](const PlanEntry& e) {
    return e.evaluation.strategy.text() == strategy;
  });
  REQUIRE(at != table.entries.end());
  return *at;
}

ChainShare share_of(const std::string& strategy, double value, double off = 0.0) {
  return {.strategy = strategy, .share = {value, value - off, value + off}, .counted = 1000};
}

// Of every share p and of sigmoids, at the depths that a sweep measures.
std::vector<ChainShare> all_shares(double chosen = 0.1) {
  std::vector<ChainShare> shares = {share_of(kShortSigmoid, 0.9), share_of(kSigmoid, 0.9)};
  for (const char* p : {"0.9", "0.95", "0.97", "0.99"}) {
    shares.push_back(share_of("specattn:p" + std::string(p) + "/d3k1n4/bfs/c1/F*", chosen));
    shares.push_back(share_of("specattn:p" + std::string(p) + "/d7k1n8/bfs/c1/F*", chosen));
  }
  return shares;
}

}  // namespace

TEST_CASE("a chain's share lies between those of the measured depths, beyond them at the nearest") {
  const ChainShares shares({share_of("specattn:p0.97/d8k1n9/bfs/c1/F*", 0.4, 0.04),
                            share_of("specattn:p0.97/d2k1n3/bfs/c1/F*", 0.2, 0.02),
                            share_of(kShortSigmoid, 0.9)});
  const auto value = [&](const std::string& text) {
    return shares.of(Strategy::parse(text))->value;
  };
  CHECK(value("specattn:p0.97/d2k1n3/bfs/c1/F*") == 0.2);
  CHECK(value("specattn:p0.97/d4k1n5/bfs/c1/F*") == Approx(0.3));  // halfway in the logarithm
  CHECK(shares.of(Strategy::parse("specattn:p0.97/d4k1n5/bfs/c1/F*"))->high == Approx(0.33));
  CHECK(value("specattn:p0.97/d8k1n9/bfs/c1/F*") == 0.4);
  CHECK(value("specattn:p0.97/d1k1n2/bfs/c1/F*") == 0.2);
  CHECK(value("specattn:p0.97/d10k1n11/bfs/c1/F*") == 0.4);
  CHECK(value("nsa/d10k1n11/bfs/c1/F*/sampling=sigmoid") == 0.9);
  CHECK(!shares.of(Strategy::parse("specattn:p0.9/d2k1n3/bfs/c1/F*")));  // of another p
  CHECK(!shares.of(Strategy::parse("nsa/d3k1n4/bfs/c1/F*")));
  CHECK(!shares.of(Strategy::parse("resa:b16p0.1f32/ar")));
}

TEST_CASE("chains of a pair that was measured are priced by its own shares") {
  const PlanTable own = planned(all_shares());
  const PlanTable more = planned(all_shares(0.6));
  const PlanEntry& chosen = entry_of(own, kSpecAttn);
  CHECK(chosen.evaluation.cost->time_us < entry_of(more, kSpecAttn).evaluation.cost->time_us);
  CHECK(chosen.evaluation.cost->dram_bytes < entry_of(more, kSpecAttn).evaluation.cost->dram_bytes);
  CHECK_THAT(chosen.note, Catch::Contains("10 % of the context chosen, measured of the pair"));
  const PlanEntry& kept = entry_of(own, kSigmoid);
  CHECK(kept.evaluation.expected_accepted == Approx((1.0 - std::pow(0.9, 8)) / 0.1));
  CHECK_THAT(kept.note, Catch::Contains("(0.9000, measured of the pair)") &&
                            Catch::Contains("its sampler takes"));
  REQUIRE(own.sources);
  CHECK(own.sources->chosen_share == EvidenceFrom::kOwn);
  CHECK(own.sources->sigmoid_acceptance == EvidenceFrom::kOwn);
  CHECK_THAT(sources_text(own), Catch::Contains("; SpecAttn's share of the context own; "
                                                "acceptance under sigmoids own"));
}

TEST_CASE("SpecAttn without a share of its own has a lender's, and is not planned without one") {
  const PlanTable none = planned({});
  CHECK(choosing_entries(none) == 0);
  REQUIRE(none.unavailable.size() == 1);
  CHECK(none.unavailable[0].precision == PrecisionClass::kSparse);
  const PlanTable lent = planned({}, {.lender = "another pair", .rows = all_shares(0.8)});
  const PlanEntry& borrows = entry_of(lent, kSpecAttn);
  CHECK_THAT(borrows.note,
             Catch::Contains("80 % of the context chosen, measured of another pair; drafted by a "
                             "model of 4 layers, which is assumed"));
  CHECK(lent.sources->chosen_share == EvidenceFrom::kBorrowed);
  CHECK_THAT(sources_text(lent),
             Catch::Contains("; SpecAttn's share of the context borrowed from another pair;"));
  // What was measured of the pair wins, share by share.
  const PlanTable few = planned({share_of("specattn:p0.97/d3k1n4/bfs/c1/F*", 0.1)},
                                {.lender = "another pair", .rows = all_shares(0.8)});
  CHECK_THAT(entry_of(few, kSpecAttn).note,
             Catch::Contains("10 % of the context chosen, measured of the pair"));
  CHECK_THAT(entry_of(few, "specattn:p0.9/d5k1n6/bfs/c1/F*").note,
             Catch::Contains("80 % of the context chosen, measured of another pair"));
  CHECK(few.sources->chosen_share == EvidenceFrom::kBorrowed);
  CHECK(choosing_entries(planned({share_of("specattn:p0.97/d3k1n4/bfs/c1/F*", 0.1)})) == 9);
}

TEST_CASE("SpecAttn's draft is priced as the model that it has to be, head or not") {
  // Five passes of four of sixteen layers and of the output layer are more than a head's.
  const PlanTable table = planned(all_shares());
  const double step_us = entry_of(table, kSpecAttn).evaluation.cost->time_us;
  const double plain_us = entry_of(table, "nsa/ar").evaluation.cost->time_us;
  CHECK(step_us > 2.0 * plain_us);
}

TEST_CASE(
    "sigmoids of a pair that nobody measured are assumed to be the demo pair's, and said so") {
  const PlanTable none = planned({});
  const PlanEntry& kept = entry_of(none, kSigmoid);
  CHECK(kept.evaluation.expected_accepted == Approx(8.0).epsilon(4e-4));
  CHECK_THAT(kept.note, Catch::Contains("(0.9999, assumed: the demo pair's)"));
  CHECK_THAT(sources_text(none), Catch::Contains("; acceptance under sigmoids assumed"));
  CHECK(none.sources->sigmoid_acceptance == EvidenceFrom::kAssumed);
  PlanOptions strict;
  strict.buckets = {{0, 4096}};
  strict.classes = {PrecisionClass::kStrict};
  const PlanTable without = plan(fit_with({}), hardware_by_key("h200-sxm"), wide_target(), strict);
  CHECK(!without.sources->chosen_share);
  CHECK(sources_text(without).find("sigmoids") == std::string::npos);
}

TEST_CASE("what sigmoids keep is lent by a pair that was measured, and so said") {
  const PlanTable lent =
      planned({}, {.lender = "another pair",
                   .rows = {share_of("dense/d3k1n4/bfs/c1/F*/sampling=sigmoid", 0.98, 0.001)}});
  const PlanEntry& kept = entry_of(lent, kSigmoid);
  CHECK(kept.evaluation.expected_accepted == Approx((1.0 - std::pow(0.98, 8)) / 0.02));
  CHECK_THAT(kept.note, Catch::Contains("(0.9800, lent by another pair)"));
  CHECK(lent.sources->sigmoid_acceptance == EvidenceFrom::kBorrowed);
  CHECK_THAT(sources_text(lent),
             Catch::Contains("; acceptance under sigmoids borrowed from another pair"));
  // A lent share reaches down to 0.99 in its interval, an assumed one as far.
  const auto width = [](const PlanTable& table) {
    const Interval interval = entry_of(table, kSigmoid).evaluation.same_texts_interval;
    return std::log(interval.high / interval.low);
  };
  const std::string own = "nsa/d3k1n4/bfs/c1/F*/sampling=sigmoid";
  CHECK(width(planned({})) > width(planned({share_of(own, 0.9999)})));
  CHECK(width(planned({}, {.lender = "another pair", .rows = {share_of(own, 0.9999)}})) ==
        Approx(width(planned({}))).epsilon(0.01));
}

TEST_CASE("tokens a step of SpecAttn are its own points', lent, or another verification's") {
  const auto found = [](std::vector<ChainYield> rows) {
    PlanOptions options;
    options.buckets = {{8192, 16384}};
    options.classes = {PrecisionClass::kSparse};
    options.ranks = 1000;
    options.distinct = false;
    options.chain_yields = ChainYields(rows);
    return plan(fit_with(all_shares()), hardware_by_key("h200-sxm"), named_llm_shape("nsa-1b"),
                options);
  };
  const auto width = [](const PlanTable& table) {
    const Interval interval = entry_of(table, kSpecAttn).evaluation.same_texts_interval;
    return std::log(interval.high / interval.low);
  };
  ChainYield counted{.strategy = kSpecAttn,
                     .context_len = 2048,
                     .mean = 3.0,
                     .log_error = 0.02,
                     .texts = 8,
                     .pair = {"theirs", std::string(64, 'b')},
                     .own = true};
  const PlanTable own = found({counted});
  CHECK(entry_of(own, kSpecAttn).evaluation.expected_accepted == 3.0);
  CHECK_THAT(entry_of(own, kSpecAttn).note, Catch::Contains("tokens a step counted of the pair"));
  // Another p has no row of its own: the table as a whole borrows.
  CHECK(own.sources->chain_tokens == EvidenceFrom::kBorrowed);
  counted.own = false;
  const PlanTable lent = found({counted});
  CHECK(entry_of(lent, kSpecAttn).evaluation.expected_accepted == 3.0);
  CHECK_THAT(entry_of(lent, kSpecAttn).note,
             Catch::Contains("tokens a step lent by theirs (sha256 bbbbbbbbbbbb)"));
  CHECK(width(lent) > width(own));
  const PlanTable none = found({});
  CHECK_THAT(entry_of(none, kSpecAttn).note, Catch::Contains("tokens a step lent: those of"));
  CHECK(none.sources->chain_tokens == EvidenceFrom::kBorrowed);
  CHECK_THAT(sources_text(none),
             Catch::Contains("tokens a step of chains that choose tokens borrowed from"));
  CHECK(width(none) > width(lent));
}

TEST_CASE("a chain of another depth keeps each token as often as the counted one") {
  const ChainYields yields({{.strategy = "specattn:p0.9/d3k1n4/bfs/c1/F*",
                             .context_len = 1024,
                             .mean = 1.0 + 0.8 + 0.64 + 0.512,
                             .log_error = 0.01,
                             .texts = 4,
                             .pair = {},
                             .own = true},
                            {.strategy = "specattn:p0.9/d3k1n4/bfs/c1/F*",
                             .context_len = 8192,
                             .mean = 2.0,
                             .log_error = 0.01,
                             .texts = 4,
                             .pair = {},
                             .own = true}});
  const Strategy deeper = Strategy::parse("specattn:p0.9/d5k1n6/bfs/c1/F*");
  const auto found = yields.of(deeper, 0, 4096);  // the nearer context is 1,024
  REQUIRE(found);
  CHECK(found->tokens.mean == Approx(1.0 + 0.8 + 0.64 + 0.512 + 0.4096 + 0.32768));
  CHECK(found->tokens.log_error > 0.01);
  CHECK(found->tokens.source == Provenance::kPredicted);
  CHECK(yields.of(Strategy::parse("specattn:p0.9/d3k1n4/bfs/c1/F*"), 8192, 16384)->tokens.mean ==
        2.0);
  CHECK(!yields.knows(Strategy::parse("specattn:p0.97/d3k1n4/bfs/c1/F*")));
  CHECK(!yields.knows(Strategy::parse("dense/d3k1n4/bfs/c1/F*")));
}

TEST_CASE("a share that was measured on few texts widens the interval") {
  const auto width = [](const PlanTable& table, const char* strategy) {
    const Interval interval = entry_of(table, strategy).evaluation.same_texts_interval;
    return std::log(interval.high / interval.low);
  };
  std::vector<ChainShare> unsure = all_shares();
  for (ChainShare& row : unsure) {
    row.share.low = 0.2 * row.share.value;
    row.share.high = std::min(1.0, 8.0 * row.share.value);
  }
  const PlanTable sure = planned(all_shares()), wide = planned(unsure);
  for (const char* strategy : {kSpecAttn, kSigmoid}) {
    CAPTURE(strategy);
    CHECK(width(wide, strategy) > 1.01 * width(sure, strategy));
  }
}

TEST_CASE(
    "sigmoids are ranked where the whole of their sampler is faster, and left out elsewhere") {
  const PlanTable wide = planned(all_shares());
  for (const PlanEntry& e : wide.entries) {
    const Strategy& s = e.evaluation.strategy;
    CHECK((s.sampling != SamplingAlgorithm::kSigmoid || s.draft.levels() >= 7));
  }
  const auto of_sigmoids = [](const PlanTable& table) {
    std::vector<ExclusionCount> out;
    std::copy_if(
        table.excluded.begin(), table.excluded.end(), std::back_inserter(out),
        [](const ExclusionCount& x) { return x.reason.rfind("sampling=sigmoid of", 0) == 0; });
    return out;
  };
  REQUIRE(of_sigmoids(wide).size() == 6);
  CHECK_THAT(of_sigmoids(wide)[2].reason, Catch::Contains("of a chain of 3: its sampler takes ") &&
                                              Catch::Contains(" us, the exact one "));
  // At nsa-1b's own vocabulary no planned chain gains.
  PlanOptions options;
  options.buckets = {{0, 4096}, {8192, 16384}};
  options.classes = {PrecisionClass::kStrict, PrecisionClass::kApproxSampling};
  const PlanTable none =
      plan(fit_with(all_shares()), hardware_by_key("h200-sxm"), named_llm_shape("nsa-1b"), options);
  CHECK(of_sigmoids(none).size() == 9);
  REQUIRE(none.unavailable.size() == 2);
  for (const UnavailableCell& cell : none.unavailable) {
    CHECK(cell.precision == PrecisionClass::kApproxSampling);
    CHECK_THAT(cell.reason,
               Catch::Contains("Approx-sampling is empty") &&
                   Catch::Contains("nsa/d10k1n11/bfs/c1/F*/sampling=sigmoid, its sampler takes "));
  }
  for (const PlanEntry& e : none.entries) {
    CHECK(e.precision == PrecisionClass::kStrict);
  }
  CHECK(!none.sources->sigmoid_acceptance);
}

TEST_CASE(
    "of several requests, an entry that no batch was measured of says so, and no other does") {
  FittedModel fit = fitted_by_hand(0.8, 0.9, true);
  fit.systems = fit_with({}).systems;
  PlanOptions options;
  options.buckets = {{8192, 16384}};
  options.classes = {PrecisionClass::kStrict, PrecisionClass::kApproxSampling};
  options.concurrency = {1, 8};
  const auto noted = [&] {
    std::array<std::int64_t, 2> out{};  // of samplers and lengths that follow; of others
    for (const PlanTable& table :
         plan(fit, hardware_by_key("h200-sxm"), wide_target(), options).batched) {
      for (const PlanEntry& e : table.entries) {
        const bool says = e.note.ends_with("its time is an assumption");
        const Strategy& tuple = e.evaluation.strategy;
        out[tuple.sampling || tuple.adapts_length ? 0 : 1] += says;
      }
    }
    return out;
  };
  CHECK(noted() == std::array<std::int64_t, 2>{0, 0});  // all alike: the table says it once
  fit.batch = {.points = 40, .log_latency = 0.08, .most_requests = 128, .most_rows = 4096};
  for (const BatchTermInfo& info : batch_term_table()) {
    fit.batch.terms.push_back({info.initial, info.low, info.high, true});
  }
  CHECK(noted()[0] > 0);
  CHECK(noted()[1] == 0);
}
