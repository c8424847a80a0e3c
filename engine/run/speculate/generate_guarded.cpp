// Generation whose tuple a runtime guard may change between two steps (model/plan/runtime_guard.h).
// Exact tuples of one schedule give one text, whichever of them verifies which step.
#include <algorithm>
#include <numeric>

#include "engine/run/speculate/generate.h"

namespace versieve::engine {
namespace {

// Plain decoding after which trees may follow: the draft takes in what was committed.
template <class T>
class FeedingNoDraft final : public TreeSource<T> {
 public:
  explicit FeedingNoDraft(Draft<T>& draft) : draft_(&draft) {}

  void observe(const Observation<T>& observation) override { pending_ = observation; }
  DraftTree propose(std::int64_t position, std::int32_t token) override {
    draft_->extend(pending_.first + 1, pending_.next_token, pending_.captured, pending_.rows,
                   false);
    return NoDraft<T>().propose(position, token);
  }

 private:
  Draft<T>* draft_;
  Observation<T> pending_;
};

}  // namespace

// After `tokens` of this run.
template <class T>
std::unique_ptr<TreeSource<T>> Generator<T>::make_guarded_source(
    const GenerateOptions& options, std::span<const std::int32_t> tokens) {
  if (draft_ != nullptr && !options.strategy.draft.speculates()) {
    return std::make_unique<FeedingNoDraft<T>>(*draft_);
  }
  if (draft_model_ != nullptr) {
    // What an earlier tuple drafted lies behind the prompt.
    draft_model_->cache().truncate(std::min(draft_model_->length(), prompt_len_));
  }
  std::vector<std::int32_t> text = prompt_;
  text.insert(text.end(), tokens.begin(), tokens.end());
  return make_source(options, std::move(text));
}

template <class T>
Generation Generator<T>::run_guarded(GenerateOptions options, std::span<const Strategy> ranked,
                                     RuntimeGuard& guard) {
  const bool records = options.records_steps &&
                       std::all_of(ranked.begin(), ranked.end(), [&](const Strategy& strategy) {
                         options.strategy = strategy;
                         return can_record(options);
                       });
  options.strategy = ranked[guard.active()];
  return records ? run_guarded_recorded(options, ranked, guard)
                 : run_guarded_by_host(options, ranked, guard);
}

template <class T>
Generation Generator<T>::run_guarded_by_host(GenerateOptions options,
                                             std::span<const Strategy> ranked,
                                             RuntimeGuard& guard) {
  Generation run;
  bool over = begin_run(options, run);
  const std::int64_t limit = token_limit(options);
  std::unique_ptr<TreeSource<T>> source = make_guarded_source(options, {});
  rewind(*source, run.tokens.back());
  target_->cache().reserve(prompt_len_ + limit + kDeepestTree);
  target_->drop_block_keys();
  while (!over) {
    const StepResult step = runner_.run(*source, run.tokens.back(), step_options(options));
    record(step, options, run);
    over = run.append(yielded_tokens(step), limit, options.eos);
    const double seconds = std::accumulate(step.seconds.begin(), step.seconds.end(), 0.0);
    if (guard.observe(static_cast<double>(step.acceptance.yield()), 1e6 * seconds) && !over) {
      options.strategy = ranked[guard.active()];
      run.count_move(guard.active());
      source = make_guarded_source(options, run.tokens);
      source->observe(observation_of(*target_, step.tree, step.acceptance, step.context_len));
    }
  }
  return run;
}

template Generation Generator<double>::run_guarded(GenerateOptions, std::span<const Strategy>,
                                                   RuntimeGuard&);
template Generation Generator<float>::run_guarded(GenerateOptions, std::span<const Strategy>,
                                                  RuntimeGuard&);
template Generation Generator<Bf16>::run_guarded(GenerateOptions, std::span<const Strategy>,
                                                 RuntimeGuard&);

}  // namespace versieve::engine
