// The planner: ranks are by throughput, both baselines are always there, and what was not measured
// is called predicted.
#include "model/plan/planner.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <set>

#include "model/launches/step_composition.h"
#include "model/words/error.h"
#include "tests/model/planner_case.h"

using namespace versieve;
using synthetic::fitted_by_hand;
using test::first_baselines;
using test::first_bucket;
using test::planned;

TEST_CASE(
    "a plan for a small pair says which trees are larger than any whose steps were measured") {
  FittedModel fit = fitted_by_hand(0.8, 0.9, true);
  fit.small_pair_nodes = 4;
  const auto count_warned = [&](const std::string& geometry) {
    std::int64_t warned = 0;
    for (const PlanEntry& e :
         plan(fit, hardware_by_key("h200-sxm"), named_llm_shape(geometry), first_bucket())
             .entries) {
      const bool says = e.note.find("larger than any tree of a small pair") != std::string::npos;
      CAPTURE(e.evaluation.strategy.text(), e.note);
      CHECK(says == (geometry == "demo" && e.evaluation.strategy.draft.nodes > 4));
      warned += says ? 1 : 0;
    }
    return warned;
  };
  CHECK(count_warned("demo") > 0);
  CHECK(count_warned("nsa-1b") == 0);
  fit.small_pair_nodes = 0;
  const PlanTable table =
      plan(fit, hardware_by_key("h200-sxm"), named_llm_shape("demo"), first_bucket());
  REQUIRE(!table.entries.empty());
  CHECK(table.entries[0].note.find("no step of so small a pair") != std::string::npos);
}

TEST_CASE("every available cell has its ranks in falling throughput") {
  const PlanTable table = planned(fitted_by_hand());
  std::map<std::pair<std::int64_t, PrecisionClass>, std::vector<const PlanEntry*>> cells;
  for (const PlanEntry& e : table.entries) {
    cells[{e.bucket, e.precision}].push_back(&e);
  }
  CHECK(cells.size() == 16);  // 4 buckets x 4 classes
  for (const auto& [cell, entries] : cells) {
    REQUIRE(entries.size() == 12);
    for (std::size_t i = 0; i < entries.size(); ++i) {
      const Evaluation& e = entries[i]->evaluation;
      CHECK(entries[i]->rank == static_cast<std::int64_t>(i) + 1);
      CHECK(e.throughput == Approx(e.expected_accepted / e.cost->time_us * 1e6));
      CHECK(e.throughput_interval.low < e.throughput);
      CHECK(e.throughput < e.throughput_interval.high);
      CHECK((i == 0 || e.throughput <= entries[i - 1]->evaluation.throughput));
      const std::string text = e.strategy.text();
      CHECK(
          entries[i]->baseline ==
          (text == "nsa/ar" ? "autoregressive" : (text == PlanOptions{}.baseline ? "fixed" : "")));
    }
  }
}

TEST_CASE("approximate classes are planned from predictions until they are measured") {
  FittedModel fit = fitted_by_hand();
  const auto approximate = [](const PlanTable& table) {
    std::vector<PlanEntry> rows;
    std::copy_if(table.entries.begin(), table.entries.end(), std::back_inserter(rows),
                 [](const PlanEntry& e) { return approximate_group(e.evaluation.strategy) > 1; });
    return rows;
  };
  const PlanTable before = planned(fit);
  CHECK(before.unavailable.empty());
  REQUIRE(!approximate(before).empty());
  for (const PlanEntry& e : approximate(before)) {
    CHECK(e.lossy);
    CHECK(e.evaluation.source == Provenance::kPredicted);
    CHECK(e.note.find("acceptance measured without approximate groups") != std::string::npos);
  }
  // Acceptance of exact groups is evidence, but none of its own; its own is.
  const Strategy best = approximate(before)[0].evaluation.strategy;
  fit.acceptance.measured.push_back({best.draft, Traversal::kBfs, best.schedule, 2048, 3.0, 0.05});
  AcceptedTokens accepted = accepted_tokens(fit.acceptance, best, 0, 4096);
  CHECK(accepted.mean == Approx(3.0));
  CHECK(accepted.source == Provenance::kPredicted);
  CHECK(accepted.other_group);
  fit.acceptance.measured.push_back({.draft = best.draft,
                                     .schedule = best.schedule,
                                     .context_len = 2048,
                                     .mean = 2.5,
                                     .standard_error = 0.05,
                                     .steps = 500,
                                     .approximate_group = best.group_size});
  accepted = accepted_tokens(fit.acceptance, best, 0, 4096);
  CHECK(accepted.mean == Approx(2.5));
  CHECK(accepted.source == Provenance::kMeasured);
  CHECK(!accepted.other_group);
  Strategy exact = best;
  exact.group_mode = GroupMode::kExact;
  CHECK(accepted_tokens(fit.acceptance, exact, 0, 4096).mean == Approx(3.0));
}

TEST_CASE("the grid has trees and chains of 14 levels, which yield little more and say why") {
  const std::vector<Strategy> space = enumerate_space(named_llm_shape("demo"));
  for (const char* text : {"nsa/d12k4n32/bfs/c8e/F*", "nsa/d14k8n64/bfs/c8a/(FRRR)*",
                           "nsa/d14k1n15/bfs/c1/F*", "nsa/d7k1n8/bfs/c1/F*"}) {
    CHECK(std::count(space.begin(), space.end(), Strategy::parse(text)) == 1);
  }
  FittedModel fit = synthetic::fitted_by_hand();
  fit.acceptance.measured.push_back({{10, 4, 64}, Traversal::kBfs, "F*", 2048, 5.0, 0.1});
  const auto at = [&](const char* text) {
    return accepted_tokens(fit.acceptance, Strategy::parse(text), 4096, 8192);
  };
  const AcceptedTokens ten = at("nsa/d10k8n64/bfs/c1/F*");
  const AcceptedTokens twelve = at("nsa/d12k8n64/bfs/c1/F*");
  const AcceptedTokens fourteen = at("nsa/d14k8n64/bfs/c1/F*");
  CHECK(!ten.deeper);
  CHECK(twelve.deeper);
  CHECK(twelve.mean > ten.mean);
  CHECK(fourteen.mean - twelve.mean < twelve.mean - ten.mean);
  CHECK(fourteen.mean < 15.0);
}

TEST_CASE("the first choice is never worse than the baselines, which are always reported") {
  for (const double first : {0.05, 0.4, 0.9}) {
    const PlanTable table = planned(fitted_by_hand(first));
    CHECK(table.baselines.size() == 12);
    for (const PlanEntry& e : table.entries) {
      if (e.rank == 1) {
        CAPTURE(first, e.evaluation.strategy.text());
        CHECK(e.gain_over_ar >= 1.0);
        CHECK(e.gain_over_baseline >= 1.0);
      }
    }
  }
}

TEST_CASE("the best plain chain is reported, listed or not") {
  const PlanTable table = planned(fitted_by_hand(), {.ranks = 100000, .distinct = false});
  for (const PlanBaseline& b : table.baselines) {
    if (b.role != "chain") {
      continue;
    }
    CHECK(is_plain_chain(b.evaluation.strategy));
    const auto first =
        std::find_if(table.entries.begin(), table.entries.end(), [&](const PlanEntry& e) {
          return e.bucket == b.bucket && is_plain_chain(e.evaluation.strategy);
        });
    REQUIRE(first != table.entries.end());
    CHECK(first->evaluation.strategy == b.evaluation.strategy);
    CHECK(first->evaluation.throughput == b.evaluation.throughput);
  }
  // Cells are cut, the chain stays.
  CHECK(planned(fitted_by_hand(), {.ranks = 1}).baselines.at(2).role == "chain");
}

TEST_CASE("a class is known by its name, and any other name is refused with the classes") {
  CHECK(parse_class("Approx+Reuse") == PrecisionClass::kApproxReuse);
  CHECK_THROWS_WITH(parse_class("strict"), Catch::Contains("Strict, Reuse-only, Approx-only"));
}

TEST_CASE("when a draft is useless, plain decoding comes first") {
  const PlanTable table = planned(fitted_by_hand(0.02, 0.02));
  CHECK(table.entries.at(0).evaluation.strategy.text() == "nsa/ar");
  CHECK(table.entries.at(0).evaluation.expected_accepted == 1.0);
}

TEST_CASE("only tuples that the engine runs become rows, the rest is counted by reason") {
  const PlanTable table = planned(fitted_by_hand());
  std::int64_t excluded = 0;
  for (const ExclusionCount& e : table.excluded) {
    excluded += e.tuples;
  }
  CHECK(table.excluded.size() == 3);  // larger approx, exact grouping, order without groups
  CHECK(table.runnable <= table.enumerated - excluded + 1);
  for (const PlanEntry& e : table.entries) {
    const bool approximate = approximate_group(e.evaluation.strategy) > 1;
    CHECK(e.evaluation.strategy.group_size == (approximate ? 2 : 1));
    CHECK(e.lossy == (approximate || e.evaluation.strategy.schedule != "F*"));
    CHECK(e.evaluation.strategy.text() == Strategy::parse(e.evaluation.strategy.text()).text());
  }
}

TEST_CASE(
    "depth-first groups are ranked where their selections were measured, by what they share") {
  FittedModel fit = fitted_by_hand(0.8, 0.9, true);
  const auto is_dfs = [](const PlanEntry& e) {
    return e.evaluation.strategy.order == Traversal::kDfs;
  };
  const auto us = [&fit](const char* text) {
    return predicted_step_us(fit, hardware_by_key("h200-sxm"), named_llm_shape("nsa-1b"),
                             Strategy::parse(text), 8192);
  };
  const PlanTable unmeasured = planned(fit);
  CHECK(std::none_of(unmeasured.entries.begin(), unmeasured.entries.end(), is_dfs));
  CHECK(std::any_of(unmeasured.excluded.begin(), unmeasured.excluded.end(),
                    [](const ExclusionCount& e) {
                      return e.reason.find("groups of dfs share was not") != std::string::npos;
                    }));
  CHECK(us("nsa/d6k8n64/dfs/c8e/F*") == us("nsa/d6k8n64/bfs/c8e/F*"));
  for (AcceptanceModel::Positional& p : fit.acceptance.positional) {
    p.orders[0] = {.measured = true, .overlap = 0.6, .group = {1.4, 2.2, 3.6}};
    p.orders[1] = {.measured = true, .overlap = 0.8, .group = {1.2, 1.6, 2.2}};
  }
  CHECK(us("nsa/d6k8n64/dfs/c8e/F*") < us("nsa/d6k8n64/bfs/c8e/F*"));
  CHECK(us("nsa/d6k8n64/dfs/c1/F*") == us("nsa/d6k8n64/bfs/c1/F*"));
  const PlanTable measured = planned(fit);
  CHECK(measured.runnable > 3 * unmeasured.runnable / 2);
  CHECK(std::any_of(measured.entries.begin(), measured.entries.end(), is_dfs));
  std::set<std::string> listed;
  for (const PlanEntry& e : measured.entries) {
    CHECK(!(is_dfs(e) && e.evaluation.strategy.group_size == 1));
    CHECK(e.note.find("other order") == std::string::npos);
    Strategy twin = e.evaluation.strategy;  // of another order: the better of the two is listed
    twin.order = Traversal::kBfs;
    const bool is_first =
        listed.insert(std::to_string(e.bucket) + name_of(e.precision) + twin.text()).second;
    CHECK((is_first || !e.baseline.empty()));
    CHECK((is_dfs(e) || e.evaluation.strategy.group_size == 1 ||
           e.evaluation.strategy.group_mode == GroupMode::kApprox || !e.baseline.empty()));
  }
}

TEST_CASE(
    "asked for, a tuple of the order that was not measured is priced less surely and says so") {
  FittedModel fit = fitted_by_hand(0.8, 0.9, true);
  for (AcceptanceModel::Positional& p : fit.acceptance.positional) {
    p.orders[0] = {.measured = true, .overlap = 0.6, .group = {1.4, 2.2, 3.6}};
  }
  const auto fixed_entry = [&fit](const std::string& baseline) {
    PlanOptions options;
    options.baseline = baseline;
    options.ranks = 1 << 20;
    const PlanTable table = planned(fit, options);
    const auto found =
        std::find_if(table.entries.begin(), table.entries.end(),
                     [&](const PlanEntry& e) { return e.evaluation.strategy.text() == baseline; });
    REQUIRE(found != table.entries.end());
    return *found;
  };
  const PlanEntry own = fixed_entry("nsa/d6k8n64/bfs/c8e/F*");
  const PlanEntry other = fixed_entry("nsa/d6k8n64/dfs/c8e/F*");
  CHECK(own.note.empty());
  CHECK(other.note == "what its groups share measured in the other order alone");
  CHECK(other.evaluation.cost->time_us == Approx(own.evaluation.cost->time_us));
  CHECK(other.evaluation.latency_interval_us.high > own.evaluation.latency_interval_us.high);
}

TEST_CASE("reuse is labelled lossy, and says when its acceptance was not measured") {
  const PlanTable table = planned(fitted_by_hand());
  for (const PlanEntry& e : table.entries) {
    if (e.lossy && e.evaluation.strategy.draft.speculates()) {
      const bool reuses = e.evaluation.strategy.schedule != "F*";
      CHECK(e.note.find("lossy") != std::string::npos);
      CHECK(reuses == (e.note.find("acceptance measured without reuse") != std::string::npos));
    }
  }
}

TEST_CASE("bucket texts are read strictly") {
  CHECK(parse_buckets("0-4096,4096-8192") == std::vector<ContextBucket>{{0, 4096}, {4096, 8192}});
  CHECK(parse_buckets("65536-262144").size() == 1);
  for (const char* text : {"", "4096", "4096-", "-1-5", "8-4", "0-8,4-16", "0-4096,", "0-999999",
                           "0-4k", "0-4096;4096-8192"}) {
    CAPTURE(text);
    CHECK_THROWS_AS(parse_buckets(text), Error);
  }
}

TEST_CASE("a calibrated schedule is named by its letters, one a layer") {
  PlanOptions options;
  options.baseline = "nsa/d6k8n64/bfs/c1/FRRRFRRFFRRRRFRR";
  options.ranks = 100000;
  const PlanTable table = planned(fitted_by_hand(), options);
  const PlanBaseline& fixed = table.baselines.at(1);
  CHECK(fixed.evaluation.strategy.text() == options.baseline);
  CHECK(std::any_of(table.entries.begin(), table.entries.end(), [&](const PlanEntry& e) {
    return e.evaluation.strategy.text() == options.baseline && e.lossy;
  }));
  options.baseline = "nsa/d6k8n64/bfs/c1/FRRR";  // the model has 16 layers
  CHECK_THROWS_AS(planned(fitted_by_hand(), options), Error);
}

TEST_CASE("a baseline that cannot run is refused, and so is a plan without acceptance") {
  PlanOptions options;
  options.baseline = "nsa/d6k8n64/bfs/c4a/F*";
  CHECK_THROWS_AS(planned(fitted_by_hand(), options), Error);
  FittedModel fit = fitted_by_hand();
  fit.acceptance = {};
  try {
    planned(fit);
    FAIL("planned without acceptance");
  } catch (const Error& e) {
    CHECK(e.code() == ExitCode::kAnswerNo);
  }
}

TEST_CASE("classes that are not planned say why") {
  PlanOptions options;
  options.classes = {PrecisionClass::kStrict, PrecisionClass::kSparse,
                     PrecisionClass::kApproxSampling};
  const PlanTable table = planned(fitted_by_hand(), options);
  for (const PlanEntry& e : table.entries) {
    CHECK(e.precision == PrecisionClass::kStrict);
  }
  REQUIRE(table.unavailable.size() == 8);  // 2 of the classes in 4 buckets
  CHECK_THAT(table.unavailable[0].reason, Catch::Contains("Sparse") && Catch::Contains("dense"));
  CHECK_THAT(table.unavailable[1].reason,
             Catch::Contains("Approx-sampling") && Catch::Contains("was not measured"));
  const LlmShape target = named_llm_shape("nsa-1b");
  CHECK_THAT(not_planned_because(Strategy::parse("nsa/d3k1n4/bfs/c1/F*/sampling=sigmoid"), target,
                                 NsaForm::kFused),
             Catch::Contains("was not measured"));
}
