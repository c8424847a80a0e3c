// Does the cost model compose the launches that the engine enqueues? Counts, bytes and flops of
// whole steps of the demo geometry, kind by kind, against what the kernels announce.
#include <catch2/catch.hpp>

#include "engine/measure/sweep/ranges.h"
#include "engine/run/speculate/device_step.h"
#include "engine/run/speculate/synthetic_session.h"
#include "model/launches/launch_work.h"
#include "model/launches/step_composition.h"
#include "model/launches/step_shape.h"

namespace versieve::engine {
namespace {

constexpr std::int64_t kContext = 609;  // beyond the draft's window; no tree completes a block
constexpr std::int64_t kYield = 4;      // half of depth 6 and the root: the mean that is composed

class Steps {
 public:
  Steps() : ops_(kernels::make_cpu_ops<float>(1)), session_(*ops_, named_llm_shape("demo"), 3) {
    session_.set_context(kContext);
  }

  std::vector<RangeMeasurement> led(const Strategy& strategy) {
    const std::int64_t yield = strategy.draft.speculates() ? kYield : 1;
    session_.step(strategy, yield);  // makes room
    return logged([&] { session_.step(strategy, yield); });
  }

  std::vector<RangeMeasurement> recorded(const Strategy& strategy, double temperature = 0.0) {
    session_.target().cache().set_length(kContext);
    session_.draft().set_length(kContext);
    DeviceStepRunner<float> runner(*ops_, session_.target(), &session_.draft(),
                                   {.choice = strategy.draft,
                                    .order = strategy.order,
                                    .verify = verify_options(strategy, session_.target().shape()),
                                    .temperature = temperature,
                                    .scores_by_rank = true,
                                    .forced_yield = kYield});
    const std::vector<float> captured(3 * 320, 0.1F);
    runner.begin(
        {.context_len = kContext, .captured = captured.data(), .max_context = kContext + 20});
    runner.launch();
    runner.wait();
    return logged([&] {
      runner.launch();
      runner.wait();
    });
  }

 private:
  template <class Work>
  std::vector<RangeMeasurement> logged(const Work& work) {
    LaunchLog log;
    ops_->set_observer(&log);
    work();
    ops_->set_observer(nullptr);
    return ranges_of(log);
  }

  std::unique_ptr<kernels::Ops<float>> ops_;
  SyntheticSession<float> session_;
};

struct Sum {
  double launches = 0.0, bytes = 0.0, flops = 0.0;
};

Sum composed(const Strategy& strategy, bool recorded, LaunchKind kind, double temperature = 0.0) {
  StepShape s{.target = named_llm_shape("demo")};
  s.draft = draft_shape_for(s.target);
  s.tree = strategy.draft;
  s.context_len = kContext;
  s.num_queries = strategy.draft.nodes;
  s.refresh_layers = s.target.layers;
  s.element_bytes = 4;
  s.recorded = recorded;
  s.sampling = sampling_at(strategy, temperature);
  StepWork work;
  add_step(s, 1.0, work);
  Sum sum;
  for (const LaunchWork& launch : work) {
    if (launch.kind == kind) {
      sum.launches += launch.launches;
      sum.bytes += launch.launches * launch.unique.total();
      sum.flops += launch.launches * launch.unique.flops;
    }
  }
  return sum;
}

Sum announced(const std::vector<RangeMeasurement>& ranges, LaunchKind kind) {
  Sum sum;
  for (const RangeMeasurement& range : ranges) {
    // On the CPU compressed tokens are an operation of their own.
    const bool pools = kind == LaunchKind::kRope && range.path == "compress";
    if (range.path == name_of(kind) || pools) {
      sum.launches += pools ? 0.0 : static_cast<double>(range.launches);
      sum.bytes += range.predicted.total();
      sum.flops += range.predicted.flops;
    }
  }
  return sum;
}

// The attention of the target has no launches on the CPU.
bool is_target_attention(LaunchKind kind) {
  return std::string(name_of(kind)).substr(0, 4) == "nsa_";
}

}  // namespace

TEST_CASE("recorded steps are composed of the launches that the engine enqueues") {
  Steps steps;
  for (const char* text :
       {"nsa/d6k8n64/bfs/c1/F*", "nsa/d7k1n8/bfs/c1/F*", "nsa/d3k4n4/bfs/c1/F*"}) {
    const Strategy strategy = Strategy::parse(text);
    const std::vector<RangeMeasurement> ranges = steps.recorded(strategy);
    for (std::size_t i = 0; i < kLaunchKindCount; ++i) {
      const LaunchKind kind = static_cast<LaunchKind>(i);
      if (is_target_attention(kind)) {
        continue;
      }
      CAPTURE(text, name_of(kind));
      const Sum model = composed(strategy, true, kind);
      const Sum engine = announced(ranges, kind);
      CHECK(model.launches == engine.launches);
      CHECK(model.bytes == Approx(engine.bytes).epsilon(0.01));
      CHECK(model.flops == Approx(engine.flops).epsilon(0.01));
    }
  }
}

TEST_CASE("recorded steps that draw are composed of the launches that the engine enqueues") {
  Steps steps;
  for (const char* text : {"nsa/d6k8n64/bfs/c1/F*", "nsa/d7k1n8/bfs/c1/F*"}) {
    const Strategy strategy = Strategy::parse(text);
    const std::vector<RangeMeasurement> ranges = steps.recorded(strategy, 0.7);
    for (std::size_t i = 0; i < kLaunchKindCount; ++i) {
      const LaunchKind kind = static_cast<LaunchKind>(i);
      if (is_target_attention(kind) || kind == LaunchKind::kTopLogits) {
        continue;
      }
      CAPTURE(text, name_of(kind));
      Sum model = composed(strategy, true, kind, 0.7);
      Sum engine = announced(ranges, kind);
      if (kind == LaunchKind::kGumbelNoise) {  // on the CPU one operation, with what follows it
        const Sum listed = composed(strategy, true, LaunchKind::kTopLogits, 0.7);
        CHECK(listed.launches == model.launches);
        model.bytes += listed.bytes;
        model.flops += listed.flops;
        for (const RangeMeasurement& range : ranges) {
          if (range.path == "gumbel_top") {
            engine.launches += static_cast<double>(range.launches);
            engine.bytes += range.predicted.total();
            engine.flops += range.predicted.flops;
          }
        }
        CHECK(engine.launches > 1.0);
      }
      CHECK(model.launches == engine.launches);
      CHECK(model.bytes == Approx(engine.bytes).epsilon(0.01));
      CHECK(model.flops == Approx(engine.flops).epsilon(0.01));
    }
  }
}

TEST_CASE("steps that the host leads are composed of the launches that the engine enqueues") {
  Steps steps;
  const Strategy strategy = Strategy::parse("nsa/d6k8n64/bfs/c1/F*");
  const std::vector<RangeMeasurement> ranges = steps.led(strategy);
  for (std::size_t i = 0; i < kLaunchKindCount; ++i) {
    const LaunchKind kind = static_cast<LaunchKind>(i);
    if (is_target_attention(kind)) {
      continue;
    }
    CAPTURE(name_of(kind));
    const Sum model = composed(strategy, false, kind);
    const Sum engine = announced(ranges, kind);
    // Two more copies where the path completes a block, at their mean.
    const double seldom = kind == LaunchKind::kCopyRows ? 2.0 : 0.0;
    CHECK(model.launches >= engine.launches);
    CHECK(model.launches <= engine.launches + seldom);
    // Levels differ in their rows, which the model takes at their mean; compressed tokens are a
    // mean over alignments.
    const double mean = kind == LaunchKind::kRope ? 0.25 : 0.06;
    CHECK(model.bytes == Approx(engine.bytes).epsilon(mean));
  }
}

}  // namespace versieve::engine
