// Greedy generation through recorded steps (device_step.h): while one step runs the next is already
// enqueued, because nothing in it waits for the host; a step enqueued in vain is dropped.
#include <chrono>

#include "engine/speculate/device_step.h"
#include "engine/speculate/generate.h"
#include "model/assert.h"

namespace versieve::engine {
namespace {

constexpr std::int64_t kDeepestPath = kernels::kMaxPathNodes;

DeviceStepOptions device_options(const GenerateOptions& options, const LlmShape& target) {
  return {.choice = options.strategy.draft,
          .order = options.strategy.order,
          .verify = verify_options(options.strategy, target)};
}

}  // namespace

template <class T>
bool Generator<T>::can_record(const GenerateOptions& options) const {
  // A draft model is led by the host.
  const bool model_drafts = draft_model_ != nullptr && options.strategy.draft.speculates();
  return !model_drafts && options.temperature == 0.0 && !options.measures_blocks &&
         !options.measures_gaps && !options.hide_tree_compressed && options.observer == nullptr &&
         !options.on_step &&
         DeviceStepRunner<T>::refusal(*target_, device_options(options, target_->shape()),
                                      prompt_len_ + token_limit(options) + 2 * kDeepestPath)
             .empty();
}

template <class T>
Generation Generator<T>::run_recorded(const GenerateOptions& options) {
  VERSIEVE_ASSERT(refusal(options).empty(), "refused strategies are not run");
  const std::int64_t limit = token_limit(options);
  Generation run{.recorded = true};
  bool over = begin_run(options, run);
  DeviceStepRunner<T> steps(*ops_, *target_, draft_, device_options(options, target_->shape()));
  target_->cache().truncate(prompt_len_);
  if (draft_ != nullptr) {
    draft_->set_length(prompt_len_);
  }
  steps.begin({.context_len = prompt_len_,
               .token = run.tokens.back(),
               .captured = last_captured_.data(),
               .max_context = prompt_len_ + limit + 2 * steps.longest_yield()});
  const std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now();
  while (!over) {
    // The step after the one under way is needed for sure unless that one may reach the limit.
    const std::int64_t have = static_cast<std::int64_t>(run.tokens.size());
    while (steps.pending() == 0 || (steps.pending() < 2 && have + steps.longest_yield() < limit)) {
      steps.launch();
    }
    const kernels::StepYield yield = steps.wait();
    run.count_yield(yield.count);
    over = run.append({yield.token, static_cast<std::size_t>(yield.count)}, limit, options.eos);
  }
  while (steps.pending() > 0) {
    steps.wait();
  }
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
  run.record_seconds = steps.record_seconds();
  run.recorded_seconds = taken.count() - run.record_seconds;
  return run;
}

template bool Generator<double>::can_record(const GenerateOptions&) const;
template bool Generator<float>::can_record(const GenerateOptions&) const;
template bool Generator<Bf16>::can_record(const GenerateOptions&) const;
template Generation Generator<double>::run_recorded(const GenerateOptions&);
template Generation Generator<float>::run_recorded(const GenerateOptions&);
template Generation Generator<Bf16>::run_recorded(const GenerateOptions&);

}  // namespace versieve::engine
