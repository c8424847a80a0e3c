// Tuples of a dense target that are composed once yield on every machine what the planner says, and
// those that are ranked are the planner's.
#include "model/plan/dense_prices.h"

#include <catch2/catch.hpp>
#include <set>

#include "model/plan/concurrency.h"
#include "model/plan/dense_grid.h"
#include "tests/support/planned.h"

using namespace versieve;

namespace {

HardwareSpec turned_machine(double factor) {
  HardwareSpec machine = hardware_by_key("h200-sxm");
  machine.key += " turned";
  machine.fields[static_cast<std::size_t>(HardwareField::kRawBandwidthGbps)].value *= factor;
  return machine;
}

LlmShape dense_target() {
  LlmShape target = named_llm_shape("nsa-1b");
  target.attention = AttentionKind::kDense;
  target.name = "dense-1b";
  return target;
}

PlanOptions dense_options(bool draft_model) {
  PlanOptions options;
  options.buckets = parse_buckets("4096-8192");
  options.classes = {PrecisionClass::kStrict};
  options.schedules = {"F*"};
  options.distinct = false;
  options.ranks = 1'000;
  if (draft_model) {
    options.draft_model = dense_target();
    options.draft_model->layers = 2;
  }
  options.baseline = usual_baseline(dense_target(), options);
  return options;
}

}  // namespace

TEST_CASE("dense tuples composed once are ranked and priced on machines as the planner does") {
  FittedModel fit = synthetic::fitted_by_hand(0.8, 0.9, true);
  fit.systems.push_back(
      {.name = "step dense", .log_latency = 0.08, .points = 40, .longest = 65536});
  const LlmShape target = dense_target();
  for (const bool draft_model : {false, true}) {
    PlanOptions options = dense_options(draft_model);
    options.concurrency = {1, 4};
    DensePrices prices(fit, target, options, options.buckets.front());
    const std::vector<Strategy> ranked =
        ranked_tuples(fit, target, options, options.buckets.front(), PrecisionClass::kStrict);
    REQUIRE(ranked.size() > 5);
    for (const double factor : {0.5, 3.0}) {
      const HardwareSpec machine = turned_machine(factor);
      const PlanTable table = plan(fit, machine, target, options);
      REQUIRE(table.batched.size() == 1);
      for (const PlanTable* of : by_concurrency(table)) {
        const DensePrices::Machine on = prices.on(machine, of->concurrency);
        std::set<std::string> planned;
        for (const PlanEntry& entry : of->entries) {
          const Evaluation& e = entry.evaluation;
          CAPTURE(draft_model, factor, of->concurrency, e.strategy.text());
          planned.insert(e.strategy.text());
          CHECK(prices.throughput(e.strategy, on) == Approx(e.throughput).epsilon(1e-9));
          CHECK(prices.fits(e.strategy, on));
        }
        CHECK(planned.size() == ranked.size());
        for (const Strategy& strategy : ranked) {
          CHECK(planned.count(strategy.text()) == 1);
        }
      }
    }
    // Of machines of less and less memory, as a pricer of each says.
    int fitting = 0, refused = 0;
    for (const double mib : {80'000.0, 5'000.0, 3'000.0, 1'000.0}) {
      HardwareSpec machine = turned_machine(1.0);
      machine.fields[static_cast<std::size_t>(HardwareField::kMemoryMib)].value = mib;
      const DensePrices::Machine on = prices.on(machine, 4);
      const CellPricer pricer(fit, machine, target, options, 4);
      for (const Strategy& strategy : ranked) {
        CHECK(prices.fits(strategy, on) == pricer.fits(strategy, options.buckets.front()));
        (prices.fits(strategy, on) ? fitting : refused) += 1;
      }
    }
    CHECK(fitting > 0);
    CHECK(refused > 0);
  }
}
