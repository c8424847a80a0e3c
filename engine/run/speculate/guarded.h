// Runs whose tuple a runtime guard may change between two steps (model/plan/runtime_guard.h). Exact
// tuples of one schedule give one text, whichever of them verifies which step. ReSA's block keys
// and SpecAttn's chain are made of what is committed when their tuple takes over.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine/run/speculate/prefilled.h"
#include "engine/run/speculate/recorded.h"
#include "engine/run/speculate/specattn_chain.h"
#include "model/plan/runtime_guard.h"

namespace versieve::engine {

template <class T>
class GuardedRuns {
 public:
  GuardedRuns(Prefilled<T>& prefilled, RecordedRuns<T>& recorded)
      : prefilled_(&prefilled), recorded_(&recorded) {}

  // Each step by the tuple that the guard holds active; options.strategy is not looked at. Recorded
  // if options ask for it and all tuples can be. `layer_map`: of SpecAttn's tuples, where there are
  // any. REQUIRES: no tuple is refused.
  Generation run(GenerateOptions options, std::span<const Strategy> ranked, RuntimeGuard& guard,
                 const std::vector<std::int32_t>& layer_map = {});

 private:
  // What the active tuple's steps need beside the target.
  struct ActiveTuple {
    std::unique_ptr<SpecAttnChain<T>> chosen;  // of SpecAttn
    std::unique_ptr<TreeSource<T>> drafted;    // of the others
    std::optional<Rectifier<T>> rectifier;
    StepOptions steps;
    std::vector<std::int32_t> forced;

    TreeSource<T>& source() { return chosen ? chosen->source() : *drafted; }
  };

  Generation run_by_host(GenerateOptions options, std::span<const Strategy> ranked,
                         RuntimeGuard& guard, const std::vector<std::int32_t>& layer_map);
  // After `tokens` of this run.
  void activate(const GenerateOptions& options, std::span<const std::int32_t> tokens,
                const std::vector<std::int32_t>& layer_map, std::optional<ActiveTuple>& active);
  std::unique_ptr<TreeSource<T>> make_source(const GenerateOptions& options,
                                             std::vector<std::int32_t> text);
  Observation<T> kept_observation(const StepResult& step);

  Prefilled<T>* prefilled_;
  RecordedRuns<T>* recorded_;
  kernels::OpsBuffer<T> captured_;  // [3 * hidden]
};

}  // namespace versieve::engine
