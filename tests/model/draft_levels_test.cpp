// Which drafts run their levels in one launch, and what that launch moves.
#include "model/launches/draft_levels.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "model/cost/cost_model.h"
#include "model/launches/step_composition.h"

namespace versieve {
namespace {

// The shipped pair's draft.
DraftShape demo_draft() {
  DraftShape draft = draft_shape_for(named_llm_shape("demo"));
  draft.intermediate = 1280;
  return draft;
}

bool taken(const DraftShape& draft, const DraftChoice& choice, std::int64_t sms = 132) {
  return drafts_in_one_launch(draft, 272, choice, sms);
}

TEST_CASE("the demo's draft runs its levels in one launch") {
  const DraftShape draft = demo_draft();
  const DraftCtas ctas = draft_ctas(draft, {10, 8, 64});
  CHECK(ctas.fuse == 5);
  CHECK(ctas.feature == 12);
  CHECK(ctas.attention == 64);
  CHECK(ctas.output == 5);
  CHECK(ctas.gate_up == 20);
  CHECK(ctas.down == 5);
  CHECK(ctas.head == 5);
  CHECK(ctas.total() == 117);
  for (const DraftChoice& choice : {DraftChoice{1, 1, 2}, DraftChoice{10, 4, 32},
                                    DraftChoice{15, 8, 256}, DraftChoice{33, 8, 9}}) {
    CHECK(taken(draft, choice));
  }
}

TEST_CASE("a launch for all levels has its limits") {
  const DraftShape draft = demo_draft();
  CHECK_FALSE(taken(draft, {16, 4, 32}));  // more entries than a product has columns
  CHECK_FALSE(taken(draft, {5, 9, 32}));   // more nodes a level
  CHECK_FALSE(taken(draft, {0, 0, 1}));    // no draft
  CHECK_FALSE(taken(draft, {5, 8, 32}, 116));
  CHECK(taken(draft, {5, 8, 32}, 117));
  CHECK_FALSE(drafts_in_one_launch(draft, 1025, {5, 4, 32}));
  DraftShape other = draft;
  other.vocab = 1025;
  CHECK_FALSE(taken(other, {5, 4, 32}));
  other = draft;
  other.norm_before_residual = true;
  CHECK_FALSE(taken(other, {5, 4, 32}));
  other = draft;
  other.window = 513;
  CHECK_FALSE(taken(other, {5, 4, 32}));
  other = draft;
  other.head_dim = 128;
  CHECK_FALSE(taken(other, {5, 4, 32}));
  other = draft;
  other.hidden = 512;  // four slices of the joint projection's K
  CHECK_FALSE(taken(other, {5, 4, 32}));
  other.hidden = 448;  // captured streams times 64 rows do not fit a CTA
  CHECK_FALSE(taken(other, {5, 4, 32}));
  const LlmShape large = named_llm_shape("nsa-1b");
  CHECK_FALSE(drafts_in_one_launch(draft_shape_for(large), large.vocab, {5, 4, 32}));
}

TEST_CASE("weights pass once, whatever the levels") {
  const DraftShape draft = demo_draft();
  const double hidden = 320.0;
  const double weights = 2.0 * (3.0 * hidden * hidden + 768.0 * hidden + 512.0 * hidden +
                                3.0 * 1280.0 * hidden + 272.0 * hidden);
  const auto read = [&](const DraftChoice& choice, std::int64_t context_len) {
    return traffic::draft_levels(draft, choice, context_len, 2).total_read();
  };
  // One level: two entries, and the window.
  const double entry = 768.0 * 4.0 + 3.0 * hidden * 2.0;
  CHECK(read({1, 4, 5}, 4096) == Approx(weights + 2.0 * entry + 512.0 * 2.0 * 128.0 * 2.0));
  CHECK(read({1, 4, 5}, 100) == Approx(weights + 2.0 * entry + 100.0 * 2.0 * 128.0 * 2.0));
  // A level more: an entry, and four nodes' rows of the table.
  CHECK(read({2, 4, 32}, 100) - read({1, 4, 32}, 100) == Approx(entry + 4.0 * 768.0 * 4.0));
  CHECK(traffic::draft_levels(draft, {2, 4, 32}, 100, 2).total_write() ==
        Approx(3.0 * 2.0 * 128.0 * 2.0));
}

StepShape recorded_step(const char* model, const DraftChoice& tree) {
  StepShape s{.target = named_llm_shape(model), .tree = tree, .context_len = 4096};
  s.draft = draft_shape_for(s.target);
  s.num_queries = tree.nodes;
  s.refresh_layers = s.target.layers;
  s.recorded = true;
  return s;
}

double launches_of(const StepShape& shape, LaunchKind kind) {
  StepWork work;
  add_step(shape, 1.0, work);
  double launches = 0.0;
  for (const LaunchWork& launch : work) {
    launches += launch.kind == kind ? launch.launches : 0.0;
  }
  return launches;
}

TEST_CASE("a recorded step of the demo has one launch for its draft") {
  StepShape shape = recorded_step("demo", {10, 4, 32});
  CHECK(launches_of(shape, LaunchKind::kDraftLevels) == 1.0);
  CHECK(launches_of(shape, LaunchKind::kTreeAttention) == 0.0);
  CHECK(launches_of(shape, LaunchKind::kGrowTree) == 0.0);
  CHECK(launches_of(shape, LaunchKind::kCopyRows) == 0.0);
  CHECK(launches_of(shape, LaunchKind::kRmsNorm) == 1.0);    // the target's embedding
  CHECK(launches_of(shape, LaunchKind::kTopLogits) == 1.0);  // the target's choice
  CHECK(launches_of(shape, LaunchKind::kFinishTree) == 1.0);
  CHECK(launches_of(recorded_step("demo", {0, 0, 1}), LaunchKind::kDraftLevels) == 0.0);
}

TEST_CASE("other steps draft launch by launch") {
  StepShape led = recorded_step("demo", {10, 4, 32});
  led.recorded = false;
  StepShape wide = recorded_step("demo", {10, 4, 32});
  wide.element_bytes = 4;  // f32
  for (const StepShape& shape :
       {led, wide, recorded_step("demo", {10, 10, 64}), recorded_step("demo", {16, 4, 64}),
        recorded_step("nsa-1b", {10, 4, 32}), recorded_step("nsa-8b", {6, 8, 64})}) {
    CAPTURE(shape.target.name, shape.tree.depth, shape.tree.width);
    CHECK(launches_of(shape, LaunchKind::kDraftLevels) == 0.0);
    CHECK(launches_of(shape, LaunchKind::kTreeAttention) >= 6.0);
    CHECK(launches_of(shape, LaunchKind::kGrowTree) == (shape.recorded ? shape.tree.depth : 0));
  }
}

TEST_CASE("one launch for a draft's levels is priced as it was measured") {
  const auto time_us = [](const DraftChoice& tree) {
    StepWork work;
    add_step(recorded_step("demo", tree), 1.0, work);
    const LaunchWork* const draft = std::find_if(work.begin(), work.end(), [](const auto& launch) {
      return launch.kind == LaunchKind::kDraftLevels;
    });
    REQUIRE(draft != work.end());
    return cost_of(*draft, hardware_by_key("h200-sxm"), initial_parameters(),
                   {false, LaunchMode::kGraph})
        .time_us;
  };
  // Means of its ranges in h200-demo-step.
  CHECK(time_us({7, 1, 8}) == Approx(106.3).epsilon(0.04));
  CHECK(time_us({5, 4, 32}) == Approx(85.7).epsilon(0.04));
  CHECK(time_us({10, 4, 32}) == Approx(147.0).epsilon(0.04));
  CHECK(time_us({6, 8, 64}) == Approx(116.6).epsilon(0.04));
  CHECK(time_us({10, 8, 64}) == Approx(174.7).epsilon(0.04));
  CHECK(time_us({14, 8, 64}) == Approx(231.1).epsilon(0.04));
  for (std::int64_t depth = 2; depth <= 15; ++depth) {
    CHECK(time_us({depth, 8, 64}) > time_us({depth - 1, 8, 64}) + 10.0);
    CHECK(time_us({depth, 8, 64}) > time_us({depth, 4, 64}) - 1e-9);
  }
}

}  // namespace
}  // namespace versieve
