// Tuples priced by parts cost what they cost as steps, and new machines are ranked without asking
// for acceptance again.
#include "model/plan/strategy_space.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "model/plan/tuple_pricer.h"
#include "tests/support/planned.h"

using namespace versieve;

namespace {

const LlmShape& target() {
  static const LlmShape shape = named_llm_shape("nsa-1b");
  return shape;
}

}  // namespace

TEST_CASE("a tuple's time by parts is the time of its step") {
  FittedModel fit = synthetic::fitted_by_hand(0.8, 0.9, true);
  fit.conditions.launch = LaunchMode::kGraph;
  ResidualField::Family slow{.family = 0, .length = 2.0};  // fused refresh layers
  slow.anchors = {
      attention_regime({.target = target(), .context_len = 8192, .num_queries = 16}, false, false)
          .at};
  slow.weights = {0.4};
  fit.attention_time.families = {slow};
  StrategySpace space(fit, target(), {2048, 8192});
  space.add_yields();
  const HardwareSpec& h200 = hardware_by_key("h200-sxm");
  const StrategySpace::Times times = space.times_on(h200);
  std::vector<float> throughput(static_cast<std::size_t>(space.size()));
  space.evaluate(times, 0, throughput);
  const std::int64_t stride = space.size() / 97;
  std::int64_t checked = 0;
  for (std::int64_t t = 0; t < space.size(); t += stride) {
    const std::size_t count = space.strategies().size();
    const Strategy& strategy = space.strategies()[static_cast<std::size_t>(t) % count];
    const std::int64_t context = space.contexts()[static_cast<std::size_t>(t) / count];
    CAPTURE(strategy.text(), context);
    const double whole = predicted_step_us(fit, h200, target(), strategy, context);
    CHECK(space.time_us(times, t) == Approx(whole).epsilon(2e-3));
    const double accepted = accepted_tokens(fit.acceptance, strategy, context - 1, context).mean;
    CHECK(throughput[static_cast<std::size_t>(t)] == Approx(accepted / whole * 1e6).epsilon(3e-3));
    checked += 1;
  }
  CHECK(checked > 90);
}

TEST_CASE("a step of several requests costs by parts what it costs as a step") {
  FittedModel fit = synthetic::fitted_by_hand(0.8, 0.9, true);
  fit.conditions.launch = LaunchMode::kGraph;
  constexpr std::int64_t kRequests = 16;
  StrategySpace space(fit, target(), {8192}, default_schedules(), {}, kRequests);
  space.add_yields();
  const HardwareSpec& h200 = hardware_by_key("h200-sxm");
  const StrategySpace::Times times = space.times_on(h200);
  std::vector<float> throughput(static_cast<std::size_t>(space.size()));
  space.evaluate(times, 0, throughput);
  const Pricer pricer(fit, h200, target(), usual_draft(target()), kUsualRequests, kRequests);
  const double overlap = accepted_overlap(fit.acceptance, 8191, 8192);
  for (std::int64_t t = 0; t < space.size(); t += 211) {
    const Strategy& strategy = space.strategies()[static_cast<std::size_t>(t)];
    CAPTURE(strategy.text());
    const double whole = pricer.predict(strategy, 8192, overlap).time_us;
    CHECK(space.time_us(times, t) == Approx(whole).epsilon(2e-3));
    const double accepted = accepted_tokens(fit.acceptance, strategy, 8191, 8192).mean;
    CHECK(throughput[static_cast<std::size_t>(t)] ==
          Approx(kRequests * accepted / whole * 1e6).epsilon(3e-3));
  }
}

TEST_CASE("orders that share differently have parts of their own") {
  FittedModel fit = synthetic::fitted_by_hand(0.8, 0.9, true);
  for (AcceptanceModel::Positional& p : fit.acceptance.positional) {
    p.orders[0] = {.measured = true, .overlap = 0.6, .group = {1.4, 2.2, 3.6}};
    p.orders[1] = {.measured = true, .overlap = 0.8, .group = {1.2, 1.6, 2.2}};
  }
  const StrategySpace space(fit, target(), {8192});
  const HardwareSpec& h200 = hardware_by_key("h200-sxm");
  const StrategySpace::Times times = space.times_on(h200);
  std::int64_t depth_first = 0;
  for (std::int64_t t = 0; t < space.size(); t += 101) {
    const Strategy& strategy = space.strategies()[static_cast<std::size_t>(t)];
    CAPTURE(strategy.text());
    CHECK(space.time_us(times, t) ==
          Approx(predicted_step_us(fit, h200, target(), strategy, 8192)).epsilon(2e-3));
    depth_first += strategy.order == Traversal::kDfs ? 1 : 0;
  }
  CHECK(depth_first > 50);
}

TEST_CASE("plain steps cost by parts what they cost as steps, in one launch or launch by launch") {
  FittedModel fit = synthetic::fitted_by_hand(0.8, 0.9, true);
  fit.conditions.launch = LaunchMode::kGraph;
  const HardwareSpec& h200 = hardware_by_key("h200-sxm");
  std::vector<double> us;
  for (const bool one_launch : {true, false}) {
    for (std::size_t p = 0; p < kKindParameterCount; ++p) {
      fit.estimates[index_of(LaunchKind::kDecodeLayers, static_cast<KindParameter>(p))].informed =
          one_launch;
    }
    const StrategySpace space(fit, target(), {2048, 65536});
    const StrategySpace::Times times = space.times_on(h200);
    for (std::int64_t t = 0; t < space.size(); ++t) {
      const std::size_t count = space.strategies().size();
      const Strategy& strategy = space.strategies()[static_cast<std::size_t>(t) % count];
      if (!strategy.draft.speculates()) {
        const std::int64_t context = space.contexts()[static_cast<std::size_t>(t) / count];
        CAPTURE(strategy.text(), context, one_launch);
        us.push_back(space.time_us(times, t));
        CHECK(us.back() ==
              Approx(predicted_step_us(fit, h200, target(), strategy, context)).epsilon(2e-3));
      }
    }
  }
  REQUIRE(us.size() == 16);
  for (std::size_t i = 0; i < 8; ++i) {
    CHECK(us[i] < us[i + 8]);
  }
}

TEST_CASE("a machine of less bandwidth ranks lower, tuple by tuple") {
  const FittedModel fit = synthetic::fitted_by_hand();
  const StrategySpace space(fit, target(), {8192});
  const StrategySpace::Times fast = space.times_on(hardware_by_key("h200-sxm"));
  const StrategySpace::Times slow = space.times_on(hardware_by_key("a100-sxm-80g"));
  for (std::int64_t t = 0; t < space.size(); t += 101) {
    CHECK(space.time_us(fast, t) < space.time_us(slow, t));
  }
}

TEST_CASE(
    "a residual field corrects at its anchors, fades away from them, and keeps to its family") {
  StepShape shape{.target = target()};
  shape.context_len = 4096;
  shape.num_queries = 16;
  ResidualField field;
  field.families = {{.family = 0,
                     .length = 1.0,
                     .anchors = {attention_regime(shape, false, false).at},
                     .weights = {0.5}}};
  CHECK(field.at(attention_regime(shape, false, false)) == Approx(0.5));
  CHECK(field.at(attention_regime(shape, true, false)) == 0.0);
  shape.context_len = 8192;
  const double near = field.at(attention_regime(shape, false, false));
  CHECK(near > 0.2);
  CHECK(near < 0.5);
  shape.context_len = 1 << 20;
  CHECK(field.at(attention_regime(shape, false, false)) < 0.02);
}
