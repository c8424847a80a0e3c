// Planning for machine after machine gives what a whole plan gives.
#include "model/replanner.h"

#include <catch2/catch.hpp>

#include "model/error.h"
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
  CHECK(a.unavailable.size() == b.unavailable.size());
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

TEST_CASE("nothing is planned again without acceptance") {
  FittedModel fit = synthetic::fitted_by_hand();
  fit.acceptance.positional.clear();
  CHECK_THROWS_AS(Replanner(fit, target(), {}), Error);
}
