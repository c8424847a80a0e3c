#include "engine/run/speculate/guarded.h"

#include <algorithm>
#include <numeric>

#include "engine/run/speculate/draft_source.h"
#include "engine/run/speculate/host_led.h"

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
std::unique_ptr<TreeSource<T>> GuardedRuns<T>::make_source(const GenerateOptions& options,
                                                           std::span<const std::int32_t> tokens) {
  if (prefilled_->draft() != nullptr && !options.strategy.draft.speculates()) {
    return std::make_unique<FeedingNoDraft<T>>(*prefilled_->draft());
  }
  if (prefilled_->draft_model() != nullptr) {
    // What an earlier tuple drafted lies behind the prompt.
    prefilled_->draft_model()->cache().truncate(
        std::min(prefilled_->draft_model()->length(), prefilled_->length()));
  }
  std::vector<std::int32_t> text = prefilled_->prompt();
  text.insert(text.end(), tokens.begin(), tokens.end());
  return prefilled_->make_source(options, std::move(text));
}

template <class T>
Generation GuardedRuns<T>::run(GenerateOptions options, std::span<const Strategy> ranked,
                               RuntimeGuard& guard) {
  const std::int64_t end = prefilled_->length() + prefilled_->token_limit(options);
  const bool records = options.records_steps && drafts_at(prefilled_->draft_positions(), end) &&
                       std::all_of(ranked.begin(), ranked.end(), [&](const Strategy& strategy) {
                         options.strategy = strategy;
                         return recorded_->can_run(options);
                       });
  options.strategy = ranked[guard.active()];
  return records ? recorded_->run_guarded(options, ranked, guard)
                 : run_by_host(options, ranked, guard);
}

template <class T>
Generation GuardedRuns<T>::run_by_host(GenerateOptions options, std::span<const Strategy> ranked,
                                       RuntimeGuard& guard) {
  Generation run;
  bool over = prefilled_->begin_run(options, run);
  const std::int64_t limit = prefilled_->token_limit(options);
  std::unique_ptr<TreeSource<T>> source = make_source(options, {});
  prefilled_->rewind(*source, run.tokens.back());
  prefilled_->target().cache().reserve(prefilled_->length() + limit + kDeepestTree);
  prefilled_->target().drop_block_keys();
  std::vector<std::int32_t> forced = prefilled_->forced_yields(options);
  while (!over) {
    StepOptions step_choice = prefilled_->step_options(options);
    step_choice.forced_yield = prefilled_->forced_yield(forced);
    const StepResult step = prefilled_->steps().run(*source, run.tokens.back(), step_choice);
    record_step(step, options, run);
    over = run.append(yielded_tokens(step), limit, options.eos);
    const double seconds = std::accumulate(step.seconds.begin(), step.seconds.end(), 0.0);
    if (guard.observe(static_cast<double>(step.acceptance.yield()), 1e6 * seconds) && !over) {
      options.strategy = ranked[guard.active()];
      run.count_move(guard.active());
      forced = prefilled_->forced_yields(options);
      source = make_source(options, run.tokens);
      source->observe(
          observation_of(prefilled_->target(), step.tree, step.acceptance, step.context_len));
    }
  }
  return run;
}

template class GuardedRuns<double>;
template class GuardedRuns<float>;
template class GuardedRuns<Bf16>;

}  // namespace versieve::engine
