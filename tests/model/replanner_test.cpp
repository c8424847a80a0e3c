// Planning for machine after machine gives what a whole plan gives.
#include "model/plan/replanner.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "model/cost/batch_fit.h"
#include "model/launches/step_shape.h"
#include "model/plan/concurrency.h"
#include "model/plan/memory_need.h"
#include "model/words/error.h"
#include "tests/support/planned.h"

using namespace versieve;

namespace {

const LlmShape& target() {
  static const LlmShape shape = named_llm_shape("nsa-1b");
  return shape;
}

HardwareSpec with_bandwidth(double terabytes_per_s) {
  HardwareSpec spec = hardware_by_key("h200-sxm");
  spec.key += " changed";
  spec.fields[static_cast<std::size_t>(HardwareField::kRawBandwidthGbps)].value =
      1000.0 * terabytes_per_s;
  return spec;
}

void check_same(const PlanTable& a, const PlanTable& b) {
  REQUIRE(a.entries.size() == b.entries.size());
  for (std::size_t i = 0; i < a.entries.size(); ++i) {
    const PlanEntry& x = a.entries[i];
    const PlanEntry& y = b.entries[i];
    CAPTURE(i, x.evaluation.strategy.text());
    CHECK(x.evaluation.strategy.text() == y.evaluation.strategy.text());
    CHECK(x.evaluation.throughput == y.evaluation.throughput);
    CHECK(x.evaluation.throughput_interval.low == y.evaluation.throughput_interval.low);
    CHECK(x.rank == y.rank);
    CHECK(x.baseline == y.baseline);
    CHECK(x.beats_baseline == y.beats_baseline);
  }
  REQUIRE(a.baselines.size() == b.baselines.size());
  for (std::size_t i = 0; i < a.baselines.size(); ++i) {
    CHECK(a.baselines[i].role == b.baselines[i].role);
    CHECK(a.baselines[i].evaluation.throughput == b.baselines[i].evaluation.throughput);
  }
  CHECK(a.runnable == b.runnable);
  CHECK(a.enumerated == b.enumerated);
  CHECK(a.excluded.size() == b.excluded.size());
  REQUIRE(a.unavailable.size() == b.unavailable.size());
  for (std::size_t i = 0; i < a.unavailable.size(); ++i) {
    CHECK(a.unavailable[i].reason == b.unavailable[i].reason);
  }
  CHECK(a.provenance_note == b.provenance_note);
}

}  // namespace

TEST_CASE("a plan of those near the top is the plan of all, machine after machine") {
  FittedModel fit = synthetic::fitted_by_hand(0.8, 0.9, true);
  // Measured steps differ from composed ones by their depth; one tuple yields more than its like.
  ResidualField::Family deep{.family = 4, .length = 2.0};
  deep.anchors = {step_regime({.target = target(), .context_len = 8192, .num_queries = 16}).at};
  deep.weights = {0.3};
  fit.step_time.families = {deep};
  const Strategy odd = Strategy::parse("nsa/d3k4n16/bfs/c1/F*");
  fit.acceptance.measured.push_back({odd.draft, odd.order, odd.schedule, 6000, 6.0, 0.05});
  PlanOptions options;
  options.buckets = parse_buckets("0-4096,4096-8192");
  const Replanner replanner(fit, target(), options);
  for (const double terabytes : {1.0, 8.0}) {
    const HardwareSpec machine = with_bandwidth(terabytes);
    check_same(replanner.plan_on(machine), plan(fit, machine, target(), options));
  }
  check_same(replanner.plan_on(hardware_by_key("h200-sxm")),
             plan(fit, hardware_by_key("h200-sxm"), target(), options));
}

TEST_CASE("near the top are tuples of both orders, of which a plan lists the better one") {
  FittedModel fit = synthetic::fitted_by_hand(0.8, 0.9, true);
  for (AcceptanceModel::Positional& p : fit.acceptance.positional) {
    p.orders[0] = {.measured = true, .overlap = 0.6, .group = {1.4, 2.2, 3.6}};
    p.orders[1] = {.measured = true, .overlap = 0.62, .group = {1.39, 2.15, 3.5}};
  }
  PlanOptions options;
  options.buckets = parse_buckets("4096-8192");
  const Replanner replanner(fit, target(), options);
  const HardwareSpec machine = with_bandwidth(2.0);
  check_same(replanner.plan_on(machine), plan(fit, machine, target(), options));
}

TEST_CASE("plans with a schedule of one's own are replanned with it") {
  const FittedModel fit = synthetic::fitted_by_hand(0.8, 0.9, true);
  PlanOptions options;
  options.buckets = parse_buckets("0-4096");
  options.schedules = {"F*", "FRRRRRRRFRRRRRRR"};
  const Replanner replanner(fit, target(), options);
  const HardwareSpec machine = with_bandwidth(2.0);
  const PlanTable replanned = replanner.plan_on(machine);
  check_same(replanned, plan(fit, machine, target(), options));
  const auto reuses = [](const PlanEntry& e) {
    return e.evaluation.strategy.schedule == "FRRRRRRRFRRRRRRR";
  };
  CHECK(std::any_of(replanned.entries.begin(), replanned.entries.end(), reuses));
}

TEST_CASE("steps measured on the fit's own machine lift tuples into a plan and out of it") {
  FittedModel fit = synthetic::fitted_by_hand(0.8, 0.9, true);
  PlanOptions options;
  options.buckets = parse_buckets("4096-8192");
  const PlanTable before = plan(fit, hardware_by_key("h200-sxm"), target(), options);
  const auto measure = [&](const Strategy& strategy, double factor) {
    fit.steps.push_back({.strategy = strategy,
                         .context_len = 6000,
                         .time_us = 1000.0 * factor,
                         .log_error = 0.01,
                         .predicted_us = 1000.0,
                         .draft_vocab = usual_draft(target()).vocab,
                         .geometry = target().name});
  };
  const Strategy poor = Strategy::parse("nsa/d3k1n4/bfs/c1/F*");  // far from the first twenty
  measure(poor, 0.1);
  measure(before.entries.front().evaluation.strategy, 10.0);
  const PlanTable after = plan(fit, hardware_by_key("h200-sxm"), target(), options);
  REQUIRE(after.entries.front().evaluation.strategy.draft == poor.draft);
  check_same(Replanner(fit, target(), options).plan_on(hardware_by_key("h200-sxm")), after);
}

// A tuple that gives way to a measured one no longer keeps its own near duplicates out.
TEST_CASE("measured tuples among near duplicates are replanned as a plan of all ranks them") {
  FittedModel fit = synthetic::fitted_by_hand(0.8, 0.9, true);
  PlanOptions options;
  options.buckets = parse_buckets("4096-8192");
  const HardwareSpec& own = hardware_by_key("h200-sxm");
  options.distinct = false;
  options.ranks = 60;
  const PlanTable crowded = plan(fit, own, target(), options);
  options.distinct = true;
  options.ranks = 12;
  std::int64_t place = 0;
  for (const PlanEntry& entry : crowded.entries) {
    place += 1;
    if (entry.baseline.empty() && place % 3 == 0) {
      const double factor = 1.0 + 0.02 * static_cast<double>(place % 7 - 3);
      fit.steps.push_back({.strategy = entry.evaluation.strategy,
                           .context_len = 6000,
                           .time_us = 1000.0 * factor,
                           .log_error = 0.01,
                           .predicted_us = 1000.0,
                           .draft_vocab = usual_draft(target()).vocab});
    }
  }
  REQUIRE(fit.steps.size() > 40);
  check_same(Replanner(fit, target(), options).plan_on(own), plan(fit, own, target(), options));
}

TEST_CASE("those that lead on some machines hold the plans of each of them") {
  const FittedModel fit = synthetic::fitted_by_hand(0.8, 0.9, true);
  PlanOptions options;
  options.buckets = parse_buckets("0-4096,4096-8192");
  const Replanner replanner(fit, target(), options);
  const std::vector<HardwareSpec> machines = {with_bandwidth(1.0), with_bandwidth(8.0)};
  const std::vector<Strategy> leading =
      replanner.leading_on(machines, fit.acceptance, usual_draft(target()), {}, 1);
  for (const HardwareSpec& machine : machines) {
    for (const PlanEntry& entry : replanner.plan_on(machine).entries) {
      CAPTURE(entry.evaluation.strategy.text());
      CHECK((entry.bucket != 1 || std::find(leading.begin(), leading.end(),
                                            entry.evaluation.strategy) != leading.end()));
    }
  }
  CHECK(10 * static_cast<std::int64_t>(leading.size()) < replanner.plan_on(machines[0]).runnable);
}

TEST_CASE("another pair's tokens a step are planned with as if the fit had been theirs") {
  FittedModel fit = synthetic::fitted_by_hand(0.8, 0.9, true);
  PlanOptions options;
  options.buckets = parse_buckets("0-4096");
  const Replanner replanner(fit, target(), options);
  FittedModel other = fit;
  other.acceptance.pair = "pair-7b";
  other.acceptance.origin = AcceptanceOrigin::kImported;
  other.acceptance.positional[0].first = 0.5;
  for (const char* key : {"h200-sxm", "b200"}) {
    const PlanTable table = replanner.plan_on(hardware_by_key(key), other.acceptance);
    check_same(table, plan(other, hardware_by_key(key), target(), options));
    CHECK(table.acceptance_pair == "pair-7b");
    CHECK(table.acceptance_origin == AcceptanceOrigin::kImported);
    CHECK(table.baselines[1].role == "fixed");
    CHECK(table.baselines[1].evaluation.throughput <
          replanner.plan_on(hardware_by_key(key)).baselines[1].evaluation.throughput);
  }
  CHECK_THROWS_AS(replanner.plan_on(hardware_by_key("b200"), AcceptanceModel{}), Error);
}

TEST_CASE("a draft of all tokens is planned with as a whole plan would") {
  const FittedModel fit = synthetic::fitted_by_hand(0.8, 0.9, true);
  PlanOptions options;
  options.buckets = parse_buckets("0-4096");
  const Replanner replanner(fit, target(), options);
  options.draft = draft_shape_for(target());
  REQUIRE(options.draft->vocab == 128256);
  for (const char* key : {"h200-sxm", "b200"}) {
    const HardwareSpec& machine = hardware_by_key(key);
    const PlanTable table = replanner.plan_on(machine, fit.acceptance, *options.draft);
    check_same(table, plan(fit, machine, target(), options));
    const PlanTable usual = replanner.plan_on(machine);  // a draft of 32,000 tokens
    CHECK(usual.entries.front().evaluation.throughput >
          1.05 * table.entries.front().evaluation.throughput);
    CHECK(usual.baselines[0].evaluation.throughput == table.baselines[0].evaluation.throughput);
  }
}

TEST_CASE("nothing is planned again without acceptance") {
  FittedModel fit = synthetic::fitted_by_hand();
  fit.acceptance.positional.clear();
  CHECK_THROWS_AS(Replanner(fit, target(), {}), Error);
}

TEST_CASE("plans of several requests at once are replanned as a whole plan has them") {
  const FittedModel fit = synthetic::fitted_by_hand(0.8, 0.9, true);
  PlanOptions options;
  options.buckets = parse_buckets("4096-8192");
  options.classes = {PrecisionClass::kStrict};
  options.concurrency = {1, 16, 64};
  const HardwareSpec machine = with_bandwidth(2.0);
  for (int round = 0; round < 2; ++round) {
    const PlanTable all = plan(fit, machine, target(), options);
    const PlanTable best = Replanner(fit, target(), options).plan_on(machine);
    check_same(best, all);
    REQUIRE(best.batched.size() == 2);
    check_same(best.batched[0], all.batched[0]);
    check_same(best.batched[1], all.batched[1]);
    REQUIRE(best.switches.size() == all.switches.size());
    for (std::size_t i = 0; i < all.switches.size(); ++i) {
      CHECK(best.switches[i].to == all.switches[i].to);
      CHECK(best.switches[i].requests == all.switches[i].requests);
    }
    REQUIRE(!all.batched[0].entries.empty());
    // What is best of one request is not of many.
    CHECK(!(all.batched[0].entries[0].evaluation.strategy == all.entries[0].evaluation.strategy));
    // Then within a bound that some tuples of 16 requests keep and others do not.
    const std::size_t middle = all.batched[0].entries.size() / 2;
    options.aims.itl_ms =
        inter_token_interval_ms(all.batched[0].entries[middle].evaluation, 16).high;
  }
}

namespace {

// Of many requests: terms by hand, and fields that differ by depth, nodes and reused layers.
BatchFit batches_by_hand() {
  BatchFit batch{.points = 40, .log_latency = 0.08, .most_requests = 128, .most_rows = 4096};
  for (std::size_t i = 0; i < kBatchTermCount; ++i) {
    batch.terms.push_back({batch_term_table()[i].initial, 0.0, 0.0, true});
  }
  batch.terms[static_cast<std::size_t>(BatchTerm::kAttention)].value = 1.6;
  batch.together = 16;
  const auto regime_of = [](const char* strategy) {
    StepShape s = asked_step(Strategy::parse(strategy), target(), usual_draft(target()), 8192, 2);
    s.requests = 16;
    return batch_regime(s);
  };
  const auto family = [](const Regime& regime, double weight) {
    return ResidualField::Family{
        .family = regime.family, .length = 1.0, .anchors = {regime.at}, .weights = {weight}};
  };
  const auto of_kind = [&](const char* strategy, LaunchKind kind, double weight) {
    return family(batch_kind_regime(regime_of(strategy), kind), weight);
  };
  batch.time.families = {family(regime_of("nsa/d4k4n16/bfs/c8e/F*"), 0.2)};
  batch.kinds.families = {of_kind("nsa/d8k4n16/bfs/c8e/F*", LaunchKind::kNsaAttend, 0.3),
                          of_kind("nsa/d3k1n4/bfs/c4e/F*", LaunchKind::kNsaRoute, -0.3),
                          of_kind("nsa/d4k4n16/bfs/c8e/(FR)*", LaunchKind::kNsaReuse, 0.4),
                          of_kind("nsa/d4k4n16/bfs/c8e/F*", LaunchKind::kLinear, -0.2)};
  return batch;
}

}  // namespace

TEST_CASE("steps of many requests are replanned by what was measured of them") {
  FittedModel fit = synthetic::fitted_by_hand(0.8, 0.9, true);
  PlanOptions options;
  options.buckets = parse_buckets("4096-8192");
  options.classes = {PrecisionClass::kStrict, PrecisionClass::kReuseOnly};
  options.concurrency = {1, 8, 64};
  const HardwareSpec& machine = hardware_by_key("h200-sxm");
  const PlanTable unmeasured = plan(fit, machine, target(), options);
  fit.batch = batches_by_hand();
  const PlanTable all = plan(fit, machine, target(), options);
  const PlanTable best = Replanner(fit, target(), options).plan_on(machine);
  check_same(best, all);
  REQUIRE(best.batched.size() == 2);
  check_same(best.batched[0], all.batched[0]);
  check_same(best.batched[1], all.batched[1]);
  CHECK(all.batched[1].entries[0].evaluation.throughput <
        unmeasured.batched[1].entries[0].evaluation.throughput);
  // On a machine that nobody measured too.
  const HardwareSpec faster = with_bandwidth(9.0);
  const PlanTable there = Replanner(fit, target(), options).plan_on(faster);
  check_same(there.batched[1], plan(fit, faster, target(), options).batched[1]);
}

// What a group's queries share is on an axis of what batches showed, and differs by the order.
TEST_CASE("steps of many requests are replanned by what groups share in either order") {
  FittedModel fit = synthetic::fitted_by_hand(0.8, 0.9, true);
  fit.batch = batches_by_hand();
  for (AcceptanceModel::Positional& range : fit.acceptance.positional) {
    range.orders[static_cast<std::size_t>(Traversal::kBfs)] = {.measured = true, .overlap = 0.3};
    range.orders[static_cast<std::size_t>(Traversal::kDfs)] = {.measured = true, .overlap = 0.9};
  }
  StepShape shared = asked_step(Strategy::parse("nsa/d4k4n16/dfs/c8e/F*"), target(),
                                usual_draft(target()), 8192, 2);
  shared.requests = 16;
  shared.group_overlap = 0.9;
  const Regime regime = batch_regime(shared);
  fit.batch.time.families = {
      {.family = regime.family, .length = 0.5, .anchors = {regime.at}, .weights = {-0.9}}};
  PlanOptions options;
  options.buckets = parse_buckets("4096-8192");
  options.classes = {PrecisionClass::kStrict};
  options.concurrency = {1, 16};
  const HardwareSpec& machine = hardware_by_key("h200-sxm");
  const PlanTable all = plan(fit, machine, target(), options);
  REQUIRE(!all.batched[0].entries.empty());
  CHECK(all.batched[0].entries[0].evaluation.strategy.order == Traversal::kDfs);
  const PlanTable best = Replanner(fit, target(), options).plan_on(machine);
  check_same(best.batched[0], all.batched[0]);
}

TEST_CASE("what does not fit into memory is left out of a plan that is made again, too") {
  const FittedModel fit = synthetic::fitted_by_hand(0.8, 0.9, true);
  PlanOptions options;
  options.buckets = parse_buckets("4096-8192");
  options.classes = {PrecisionClass::kStrict, PrecisionClass::kReuseOnly};
  options.concurrency = {1, 2};
  options.baseline = "nsa/ar";  // so that no drafting tuple is in every cell
  // Memory for two requests that do not draft and no more.
  HardwareSpec machine = hardware_by_key("h200-sxm");
  double& mebibytes =
      machine.fields[static_cast<std::size_t>(HardwareField::kMemoryMib)].value;
  const MemoryNeed plain = memory_need({}, target(), usual_draft(target()), nullptr, 8192,
                                       bytes_of(fit.dtype), machine);
  mebibytes *= (plain.weights + 2.02 * plain.request) / plain.usable;
  const PlanTable all = plan(fit, machine, target(), options);
  REQUIRE(all.batched.size() == 1);
  const std::vector<const PlanEntry*> reuse =
      entries_of(all.batched[0], 0, PrecisionClass::kReuseOnly);
  REQUIRE(reuse.size() > 1);
  CHECK(std::none_of(reuse.begin(), reuse.end(), [](const PlanEntry* entry) {
    return entry->evaluation.strategy.draft.speculates();
  }));
  REQUIRE(!all.batched[0].unavailable.empty());
  const Replanner replanner(fit, target(), options);
  const PlanTable best = replanner.plan_on(machine);
  check_same(best, all);
  check_same(best.batched[0], all.batched[0]);
  // And those that lead with so many requests are among what a map looks at.
  const std::vector<HardwareSpec> machines = {machine};
  const std::vector<Strategy> leading =
      replanner.leading_on(machines, fit.acceptance, usual_draft(target()), {}, 0, 2);
  for (const PlanEntry* entry : reuse) {
    CHECK(std::find(leading.begin(), leading.end(), entry->evaluation.strategy) != leading.end());
  }
}

TEST_CASE("of a bound that nothing keeps a plan that is made again names the same nearest tuple") {
  const FittedModel fit = synthetic::fitted_by_hand(0.8, 0.9, true);
  PlanOptions options;
  options.buckets = parse_buckets("4096-8192");
  options.concurrency = {1, 16};
  options.aims.itl_ms = 1e-3;
  const HardwareSpec machine = with_bandwidth(2.0);
  const PlanTable all = plan(fit, machine, target(), options);
  const PlanTable best = Replanner(fit, target(), options).plan_on(machine);
  CHECK(all.entries.empty());
  REQUIRE(all.unavailable.size() == options.classes.size());
  check_same(best, all);
  check_same(best.batched[0], all.batched[0]);
  CHECK(kept_by_none_text(best) ==
        "no tuple keeps 0.001 ms between tokens, in no range of contexts and number of requests");
  options.aims.itl_ms = 1e3;
  CHECK(kept_by_none_text(Replanner(fit, target(), options).plan_on(machine)).empty());
}

TEST_CASE("bounds on a first token are replanned as a whole plan has them") {
  const FittedModel fit = synthetic::fitted_by_hand(0.8, 0.9, true);
  PlanOptions options;
  options.buckets = parse_buckets("4096-8192");
  options.classes = {PrecisionClass::kStrict};
  options.concurrency = {1, 16};
  options.aims.prompts = PromptTimes{.device = "NVIDIA H200",
                                     .geometry = "nsa-1b",
                                     .rows = 2048,
                                     .points = {{8192, 100.0, {99.0, 101.0}}}};
  const HardwareSpec& machine = hardware_by_key("h200-sxm");
  const PlanTable free = plan(fit, machine, target(), options);
  const auto& some = free.batched[0].entries;
  options.aims.ttft_ms =
      first_token(*options.aims.prompts, some[some.size() / 2].evaluation, 16, 8192).interval.high;
  const PlanTable all = plan(fit, machine, target(), options);
  CHECK(!all.batched[0].entries.empty());
  const PlanTable best = Replanner(fit, target(), options).plan_on(machine);
  check_same(best, all);
  check_same(best.batched[0], all.batched[0]);
}
