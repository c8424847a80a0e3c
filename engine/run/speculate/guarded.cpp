#include "engine/run/speculate/guarded.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "engine/run/speculate/draft_source.h"
#include "engine/run/speculate/host_led.h"
#include "model/words/assert.h"

namespace versieve::engine {
namespace {

// Steps that the draft head does not draft, after which its trees may follow: it takes in what was
// committed.
template <class T>
class FeedingSource final : public TreeSource<T> {
 public:
  FeedingSource(Draft<T>& draft, std::unique_ptr<TreeSource<T>> source)
      : draft_(&draft), source_(std::move(source)) {}

  void observe(const Observation<T>& observation) override {
    pending_ = observation;
    source_->observe(observation);
  }
  DraftTree propose(std::int64_t position, std::int32_t token) override {
    draft_->extend(pending_.first + 1, pending_.next_token, pending_.captured, pending_.rows,
                   false);
    return source_->propose(position, token);
  }
  const T* sampled_logits() const override { return source_->sampled_logits(); }

 private:
  Draft<T>* draft_;
  std::unique_ptr<TreeSource<T>> source_;
  Observation<T> pending_;
};

// What recorded steps do: no block keys, no dense pass, no chosen tokens.
bool attends_plainly(const Strategy& strategy) {
  return strategy.attention == AttentionMethod::kNsa ||
         strategy.attention == AttentionMethod::kDense;
}

}  // namespace

template <class T>
std::unique_ptr<TreeSource<T>> GuardedRuns<T>::make_source(const GenerateOptions& options,
                                                           std::vector<std::int32_t> text) {
  const Strategy& strategy = options.strategy;
  std::unique_ptr<TreeSource<T>> source = prefilled_->make_source(options, std::move(text));
  if (prefilled_->draft() != nullptr && (!strategy.draft.speculates() || strategy.drafts_itself)) {
    return std::make_unique<FeedingSource<T>>(*prefilled_->draft(), std::move(source));
  }
  return source;
}

template <class T>
void GuardedRuns<T>::activate(const GenerateOptions& options, std::span<const std::int32_t> tokens,
                              const std::vector<std::int32_t>& layer_map,
                              std::optional<ActiveTuple>& active) {
  active.reset();  // it gives the target and the draft model back
  active.emplace();
  if (prefilled_->draft_model() != nullptr) {
    // What an earlier tuple drafted lies behind the prompt.
    prefilled_->draft_model()->cache().truncate(
        std::min(prefilled_->draft_model()->length(), prefilled_->length()));
  }
  std::vector<std::int32_t> text = prefilled_->prompt();
  text.insert(text.end(), tokens.begin(), tokens.end());
  if (options.strategy.attention == AttentionMethod::kSpecAttn) {
    active->chosen =
        std::make_unique<SpecAttnChain<T>>(*prefilled_, options, std::move(text), layer_map);
  } else {
    active->drafted = make_source(options, std::move(text));
  }
  active->steps = prefilled_->step_options(options);
  active->forced = prefilled_->forced_yields(options);
}

template <class T>
Generation GuardedRuns<T>::run(GenerateOptions options, std::span<const Strategy> ranked,
                               RuntimeGuard& guard, const std::vector<std::int32_t>& layer_map) {
  const std::int64_t end = prefilled_->length() + prefilled_->token_limit(options);
  const bool records = options.records_steps && prefilled_->draft_model() == nullptr &&
                       drafts_at(prefilled_->draft_positions(), end) &&
                       std::all_of(ranked.begin(), ranked.end(), [&](const Strategy& strategy) {
                         options.strategy = strategy;
                         return attends_plainly(strategy) && recorded_->can_run(options);
                       });
  options.strategy = ranked[guard.active()];
  return records ? recorded_->run_guarded(options, ranked, guard)
                 : run_by_host(options, ranked, guard, layer_map);
}

// Of a step of one token, whose captured row a dense pass is about to write over.
template <class T>
Observation<T> GuardedRuns<T>::kept_observation(const StepResult& step) {
  const std::int64_t width = 3 * prefilled_->target().shape().hidden;
  VERSIEVE_ASSERT(step.acceptance.path.size() == 1, "a tuple that rectifies decodes plainly");
  ensure_count(prefilled_->ops(), captured_, width);
  prefilled_->ops().copy_rows({.rows = 1,
                               .width = width,
                               .src = prefilled_->target().captured(),
                               .dst = captured_.data(),
                               .term = TrafficTerm::kDraft});
  return {.first = step.context_len,
          .next_token = {step.acceptance.next_token},
          .captured = captured_.data(),
          .rows = {0}};
}

template <class T>
Generation GuardedRuns<T>::run_by_host(GenerateOptions options, std::span<const Strategy> ranked,
                                       RuntimeGuard& guard,
                                       const std::vector<std::int32_t>& layer_map) {
  Generation run;
  bool over = prefilled_->begin_run(options, run);
  const std::int64_t limit = prefilled_->token_limit(options);
  ReadCount reads;
  std::optional<ActiveTuple> active;
  activate(options, {}, layer_map, active);
  prefilled_->rewind(active->source(), run.tokens.back());
  prefilled_->target().cache().reserve(prefilled_->length() + limit + kDeepestTree);
  active->rectifier = prefilled_->make_rectifier(options.strategy);
  while (!over) {
    active->steps.forced_yield = prefilled_->forced_yield(active->forced);
    const StepResult step =
        prefilled_->steps().run(active->source(), run.tokens.back(), active->steps);
    record_step(step, options, run);
    Observation<T> seen =
        observation_of(prefilled_->target(), step.tree, step.acceptance, step.context_len);
    if (active->rectifier) {
      if (prefilled_->draft() != nullptr && active->rectifier->steps_left() == 1) {
        seen = kept_observation(step);
        active->source().observe(seen);
      }
      prefilled_->rectify(*active->rectifier, run.tokens.back(), run);
    }
    over = run.append(yielded_tokens(step), limit, options.eos);
    const double seconds = std::accumulate(step.seconds.begin(), step.seconds.end(), 0.0);
    const bool moves = guard.observe(static_cast<double>(step.acceptance.yield()), 1e6 * seconds);
    reads += indexed_reads(options.strategy, step.context_len);
    if (active->chosen && (moves || over)) {
      reads += active->chosen->reads();
    }
    if (moves && !over) {
      options.strategy = ranked[guard.active()];
      run.count_move(guard.active());
      activate(options, run.tokens, layer_map, active);
      active->rectifier = prefilled_->make_rectifier(options.strategy);
      active->source().observe(seen);
    }
  }
  run.reads_saved = reads.saved();
  return run;
}

template class GuardedRuns<double>;
template class GuardedRuns<float>;
template class GuardedRuns<Bf16>;

}  // namespace versieve::engine
