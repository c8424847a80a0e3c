// A step looked into: its launches are all of it, and each knows what holds it.
#include "model/cost/step_parts.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "model/plan/planner.h"
#include "tests/support/planned.h"

using namespace versieve;

namespace {

const HardwareSpec& h200() {
  return hardware_by_key("h200-sxm");
}

std::vector<StepPart> parts_of(const FittedModel& fit, const char* strategy) {
  const LlmShape target = named_llm_shape("nsa-1b");
  return predicted_step_parts(fit, h200(), target, usual_draft(target), Strategy::parse(strategy),
                              16384);
}

const StepPart* find(const std::vector<StepPart>& parts, const std::string& name, Phase phase,
                     LayerKind layer = LayerKind::kNone) {
  const auto found = std::find_if(parts.begin(), parts.end(), [&](const StepPart& p) {
    return p.name == name && p.phase == phase && p.layer == layer;
  });
  return found == parts.end() ? nullptr : &*found;
}

}  // namespace

TEST_CASE("a step's launches add up to its time, by the graph, the host and regimes that differ") {
  FittedModel fit = synthetic::fitted_by_hand(0.8, 0.9, true);
  const LlmShape target = named_llm_shape("nsa-1b");
  ResidualField::Family slow{.family = 4, .length = 2.0};
  slow.anchors = {step_regime({.target = target, .context_len = 8192, .num_queries = 16}).at};
  slow.weights = {0.3};
  fit.step_time.families = {slow};
  for (const LaunchMode launch : {LaunchMode::kGraph, LaunchMode::kStream}) {
    fit.conditions.launch = launch;
    for (const char* text :
         {"nsa/ar", "nsa/d6k8n64/bfs/c8e/F*", "nsa/d6k8n64/dfs/c4a/(FR)*", "nsa/d3k1n4/bfs/c1/F*",
          "dense/ar", "resa:b32p0.1f32/ar", "nsa/d3k1n4/bfs/c1/F*/sampling=sigmoid"}) {
      CAPTURE(text);
      double sum = 0.0;
      for (const StepPart& p : parts_of(fit, text)) {
        CAPTURE(p.name);
        sum += p.time_us;
        double bounds = 0.0;
        for (const double us : p.bound_us) {
          bounds += us;
        }
        CHECK(bounds == Approx(p.time_us));
        CHECK(p.floor_us == Approx(p.dram_bytes / *cold_read_rate(h200()) * 1e6));
        CHECK(p.launches > 0.0);
      }
      CHECK(sum == Approx(predicted_step_us(fit, h200(), target, Strategy::parse(text), 16384)));
    }
    CHECK((find(parts_of(fit, "nsa/d6k8n64/bfs/c8e/F*"), "host waits", Phase::kOther) != nullptr) ==
          (launch == LaunchMode::kStream));
  }
}

TEST_CASE("launches are told apart by what they work for, those that take most first") {
  const FittedModel fit = synthetic::fitted_by_hand(0.8, 0.9, true);
  const std::vector<StepPart> parts = parts_of(fit, "nsa/d6k8n64/bfs/c8e/(FRRR)*");
  CHECK(std::is_sorted(parts.begin(), parts.end(),
                       [](const auto& a, const auto& b) { return a.time_us > b.time_us; }));
  const StepPart* attend = find(parts, "nsa_attend", Phase::kAttention, LayerKind::kRefresh);
  const StepPart* reuse = find(parts, "nsa_reuse", Phase::kAttention, LayerKind::kReuse);
  REQUIRE(attend != nullptr);
  REQUIRE(reuse != nullptr);
  CHECK(attend->launches == 4.0);
  CHECK(reuse->launches == 12.0);
  CHECK(find(parts, "linear", Phase::kDraft) != nullptr);
  const StepPart* matrices = find(parts, "linear", Phase::kMatrices);
  REQUIRE(matrices != nullptr);
  CHECK(matrices->dram_bytes > 2.4e9);  // the weights of nsa-1b in bf16
  const std::vector<StepPart> one_row = parts_of(fit, "nsa/ar");
  const StepPart* plain = find(one_row, "linear", Phase::kMatrices);
  REQUIRE(plain != nullptr);
  CHECK(bottleneck_of(*plain) == Bound::kDram);
}
