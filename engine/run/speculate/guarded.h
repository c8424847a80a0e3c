// Runs whose tuple a runtime guard may change between two steps (model/plan/runtime_guard.h). Exact
// tuples of one schedule give one text, whichever of them verifies which step.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "engine/run/speculate/prefilled.h"
#include "engine/run/speculate/recorded.h"
#include "model/plan/runtime_guard.h"

namespace versieve::engine {

template <class T>
class GuardedRuns {
 public:
  GuardedRuns(Prefilled<T>& prefilled, RecordedRuns<T>& recorded)
      : prefilled_(&prefilled), recorded_(&recorded) {}

  // Each step by the tuple that the guard holds active; options.strategy is not looked at. Recorded
  // if options ask for it and all tuples can be. REQUIRES: no tuple is refused; all attend as the
  // first does.
  Generation run(GenerateOptions options, std::span<const Strategy> ranked, RuntimeGuard& guard);

 private:
  Generation run_by_host(GenerateOptions options, std::span<const Strategy> ranked,
                         RuntimeGuard& guard);
  std::unique_ptr<TreeSource<T>> make_source(const GenerateOptions& options,
                                             std::span<const std::int32_t> tokens);

  Prefilled<T>* prefilled_;
  RecordedRuns<T>* recorded_;
};

}  // namespace versieve::engine
