#include "engine/run/speculate/recorded.h"

#include <algorithm>
#include <chrono>

#include "engine/run/speculate/acceptance.h"
#include "engine/run/speculate/draft_source.h"
#include "engine/run/speculate/self_draft.h"
#include "model/words/assert.h"

namespace versieve::engine {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::int64_t kDeepestPath = kernels::kMaxPathNodes;
constexpr std::size_t kMostKeptTuples = 32;

DeviceStepOptions device_options(const Strategy& strategy, const LlmShape& target,
                                 double temperature = 0.0) {
  return {.choice = strategy.draft,
          .order = strategy.order,
          .verify = verify_options(strategy, target),
          .temperature = temperature};
}

// What follows a tuple whose draft takes no more positions.
Strategy without_draft(Strategy strategy) {
  strategy.draft = {};
  strategy.order = Traversal::kBfs;
  strategy.group_size = 1;
  strategy.group_mode = GroupMode::kExact;
  return strategy;
}

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// Enqueues up to two of `window` steps. The step after the one under way is needed for sure unless
// that one may reach the limit.
template <class T>
void launch_ahead(DeviceStepRunner<T>& steps, std::int64_t window, std::int64_t limit,
                  const Generation& run) {
  const std::int64_t have = static_cast<std::int64_t>(run.tokens.size());
  while (steps.pending() == 0 || (steps.pending() < std::min<std::int64_t>(2, window) &&
                                  have + steps.longest_yield() < limit)) {
    steps.launch();
  }
}

// True when generation is over.
bool take(const kernels::StepYield& yield, std::int64_t limit, std::span<const std::int32_t> eos,
          Generation& run) {
  run.count_yield(yield.count);
  return run.append({yield.token, static_cast<std::size_t>(yield.count)}, limit, eos);
}

template <class T>
void drop_pending(DeviceStepRunner<T>& steps) {
  while (steps.pending() > 0) {
    steps.wait();
  }
}

// Steps of one tuple until generation is over or the guard has moved to another. A step that was
// under way then still counts, and the guard does not weigh it: it is not of the tuple that is
// active now. Nor does it weigh steps that were enqueued one by one to be recorded.
template <class T>
bool run_until_move(DeviceStepRunner<T>& steps, std::int64_t limit,
                    std::span<const std::int32_t> eos, RuntimeGuard& guard, Generation& run) {
  bool over = false;
  bool moves = false;
  Clock::time_point begin = Clock::now();
  while (!over && !moves) {
    const std::int64_t recordings = steps.recordings();
    launch_ahead(steps, limit, limit, run);
    const kernels::StepYield yield = steps.wait();
    over = take(yield, limit, eos, run);
    const double seconds = seconds_since(begin);
    begin = Clock::now();
    const double tokens = static_cast<double>(yield.count);
    moves = steps.recordings() == recordings ? guard.observe(tokens, 1e6 * seconds)
                                             : guard.pass(tokens);
  }
  while (!over && steps.pending() > 0) {
    const kernels::StepYield yield = steps.wait();
    over = take(yield, limit, eos, run);
    guard.pass(static_cast<double>(yield.count));
  }
  drop_pending(steps);
  return over;
}

}  // namespace

template <class T>
bool RecordedRuns<T>::can_run(const GenerateOptions& options) const {
  // A draft model's trees are led by the host.
  const bool model_tree = prefilled_->draft_model() != nullptr &&
                          options.strategy.draft.speculates() && options.strategy.draft.width > 1;
  const auto runs = [&](const Strategy& strategy) {
    return DeviceStepRunner<T>::refusal(
               prefilled_->target(), device_options(strategy, prefilled_->target().shape()),
               prefilled_->length() + prefilled_->token_limit(options) + 2 * kDeepestPath)
        .empty();
  };
  return !model_tree && !options.strategy.drafts_itself &&
         !is_led_by_host(options.strategy, options.temperature) && !options.measures_blocks &&
         !options.measures_gaps && !options.hide_tree_compressed && options.observer == nullptr &&
         !options.on_step && runs(options.strategy) &&
         (prefilled_->draft_positions() == 0 || runs(without_draft(options.strategy)));
}

template <class T>
DeviceStepRunner<T>& RecordedRuns<T>::recorded_steps(const Strategy& strategy,
                                                     const GenerateOptions& wanted,
                                                     bool feeds_draft) {
  const double temperature = wanted.temperature;
  const bool forces = wanted.acceptance != nullptr && strategy.draft.speculates();
  auto found = std::find_if(kept_steps_.begin(), kept_steps_.end(), [&](const KeptSteps& kept) {
    return kept.strategy == strategy && kept.temperature == temperature &&
           kept.feeds_draft == feeds_draft && kept.forces_yields == forces;
  });
  if (found != kept_steps_.end()) {
    std::rotate(found, found + 1, kept_steps_.end());
    return *kept_steps_.back().steps;
  }
  if (kept_steps_.size() == kMostKeptTuples) {
    kept_steps_.erase(kept_steps_.begin());
  }
  DeviceStepOptions options = device_options(strategy, prefilled_->target().shape(), temperature);
  options.feeds_draft = feeds_draft;
  options.forces_by_position = forces;
  if (strategy.attention == AttentionMethod::kSpecAttn) {
    options.chooses = specattn_options(strategy);
    options.layer_map = layer_map_;
  }
  kept_steps_.push_back({strategy, temperature, feeds_draft, forces,
                         std::make_unique<DeviceStepRunner<T>>(
                             prefilled_->ops(), prefilled_->target(), prefilled_->draft(), options,
                             prefilled_->draft_model())});
  return *kept_steps_.back().steps;
}

// Caches back to the prompt's end, with room for `limit` tokens and what any of the strategies
// drafts beyond them. Bounds of recordings are then those of any other request, so that it may
// replay them.
template <class T>
typename DeviceStepRunner<T>::Start RecordedRuns<T>::rewind(std::span<const Strategy> strategies,
                                                            std::int64_t limit,
                                                            std::int32_t token) {
  std::int64_t longest_yield = 1;
  for (const Strategy& strategy : strategies) {
    longest_yield = std::max(longest_yield, kernels::longest_path(strategy.draft));
  }
  const std::int64_t needed = prefilled_->length() + limit + 2 * longest_yield;
  const std::int64_t bound = recording_bound(needed);
  const bool take_bound =
      std::all_of(strategies.begin(), strategies.end(), [&](const Strategy& strategy) {
        return DeviceStepRunner<T>::refusal(prefilled_->target(),
                                            device_options(strategy, prefilled_->target().shape()),
                                            bound)
            .empty();
      });
  const std::int64_t max_context = take_bound ? bound : needed;
  prefilled_->rewind_caches();
  prefilled_->target().cache().reserve(max_context + 2 * longest_yield + kDeepestPath);
  return {.context_len = prefilled_->length(),
          .token = token,
          .token_before = prefilled_->prompt().back(),
          .captured = prefilled_->last_captured(),
          .max_context = max_context};
}

template <class T>
void RecordedRuns<T>::begin_steps(DeviceStepRunner<T>& steps, const Strategy& strategy,
                                  GenerateOptions options,
                                  typename DeviceStepRunner<T>::Start start) const {
  options.strategy = strategy;
  const std::vector<std::int32_t> forced = prefilled_->forced_yields(options);
  if (!forced.empty()) {
    start.forced_yields = std::span(forced).subspan(
        static_cast<std::size_t>(start.context_len - prefilled_->length()));
  }
  steps.begin(start);
}

template <class T>
void RecordedRuns<T>::reserve(std::int64_t max_new_tokens) {
  const std::int64_t limit = prefilled_->token_limit({.max_new_tokens = max_new_tokens});
  const std::int64_t rows =
      recording_bound(prefilled_->length() + limit + 2 * kDeepestPath) + 3 * kDeepestPath;
  prefilled_->target().cache().reserve(rows);
  if (prefilled_->draft() != nullptr) {
    prefilled_->draft()->reserve(rows);
  }
  if (prefilled_->draft_model() != nullptr) {
    prefilled_->draft_model()->cache().reserve(rows + kDeepestPath);
  }
}

template <class T>
Generation RecordedRuns<T>::run(const GenerateOptions& options) {
  const std::int64_t limit = prefilled_->token_limit(options);
  Generation run{.recorded = true};
  bool over = prefilled_->begin_run(options, run);
  const std::int64_t positions =
      options.strategy.draft.speculates() ? prefilled_->draft_positions() : 0;
  const Strategy both[] = {options.strategy, without_draft(options.strategy)};
  std::span<const Strategy> left(both, positions > 0 ? 2 : 1);
  if (!drafts_at(positions, prefilled_->length())) {
    left = left.subspan(1);
  }
  typename DeviceStepRunner<T>::Start start = rewind(left, limit, run.tokens.back());
  start.seed = options.seed;
  std::optional<Rectifier<T>> rectifier = prefilled_->make_rectifier(options.strategy);
  if (rectifier) {
    rectifier->reserve();
  }
  for (; !over; left = left.subspan(1)) {
    const bool ends = left.size() > 1;  // where the draft's positions do
    DeviceStepRunner<T>& steps = recorded_steps(left.front(), options, false);
    const double recorded_before = steps.record_seconds();
    const ReadCount reads_before = steps.reads();
    ReadCount indexed;
    begin_steps(steps, left.front(), options, start);
    const Clock::time_point begin = Clock::now();
    const auto goes_on = [&](std::int64_t root) { return !ends || drafts_at(positions, root); };
    while (!over && (steps.pending() > 0 || goes_on(steps.length()))) {
      const std::int64_t window = rectifier ? rectifier->steps_left() : limit;
      const bool sure = goes_on(steps.length() + steps.longest_yield());
      launch_ahead(steps, sure ? window : 1, limit, run);
      indexed += indexed_reads(left.front(), steps.length());
      const kernels::StepYield yield = steps.wait();
      if (rectifier) {
        prefilled_->target().cache().set_length(
            steps.length());  // the host's view, which steps do not move
        prefilled_->rectify(*rectifier, run.tokens.back(), run);
      }
      over = take(yield, limit, options.eos, run);
    }
    drop_pending(steps);
    run.record_seconds += steps.record_seconds() - recorded_before;
    run.recorded_seconds += seconds_since(begin);
    ReadCount reads = steps.reads();
    reads += indexed;
    run.reads_saved = ReadCount{.read = reads.read - reads_before.read,
                                .present = reads.present - reads_before.present}
                          .saved();
    if (!over) {
      start = steps.stop();
    }
  }
  run.recorded_seconds -= run.record_seconds + run.rectify_seconds;
  return run;
}

// Room as HostLedRuns reserves it: a regrown cache would drop the block keys that recordings name.
template <class T>
std::int64_t RecordedRuns<T>::longest_self_drafted(const GenerateOptions& options) const {
  constexpr std::int64_t kSpareRows = 3;  // that steps of one token reserve behind the last
  return prefilled_->length() + prefilled_->token_limit(options) + kDeepestTree - kSpareRows;
}

template <class T>
bool RecordedRuns<T>::can_draft(const GenerateOptions& options) const {
  const Strategy steps = drafting_steps(options.strategy);
  return !is_led_by_host(options.strategy, options.temperature) && options.acceptance == nullptr &&
         DeviceStepRunner<T>::refusal(prefilled_->target(),
                                      device_options(steps, prefilled_->target().shape()),
                                      longest_self_drafted(options))
             .empty();
}

template <class T>
Generation RecordedRuns<T>::run_self_drafted(const GenerateOptions& options,
                                             HostLedRuns<T>& host_led) {
  DeviceStepRunner<T>& steps = recorded_steps(drafting_steps(options.strategy), options, false);
  const double recorded_before = steps.record_seconds();
  RecordedSelfSource<T> source(prefilled_->target(), steps,
                               {.max_context = longest_self_drafted(options), .seed = options.seed},
                               options.strategy.draft.levels());
  Generation run = host_led.run(options, source);
  run.record_seconds = steps.record_seconds() - recorded_before;
  run.seconds[static_cast<std::size_t>(StepPhase::kDraft)] -= run.record_seconds;
  return run;
}

template <class T>
Generation RecordedRuns<T>::run_guarded(const GenerateOptions& options,
                                        std::span<const Strategy> ranked, RuntimeGuard& guard) {
  const std::int64_t limit = prefilled_->token_limit(options);
  Generation run{.recorded = true};
  bool over = prefilled_->begin_run(options, run);
  typename DeviceStepRunner<T>::Start start = rewind(ranked, limit, run.tokens.back());
  start.seed = options.seed;
  prefilled_->target().keep_choice_keys({});
  Clock::time_point begin = Clock::now();
  while (!over) {
    const Strategy& strategy = ranked[guard.active()];
    DeviceStepRunner<T>& steps = recorded_steps(
        strategy, options, prefilled_->draft() != nullptr && !strategy.draft.speculates());
    const double recorded_before = steps.record_seconds();
    begin_steps(steps, strategy, options, start);
    if (run.moves.empty()) {
      begin = Clock::now();  // as without a guard; what a move costs is part of decoding
    }
    over = run_until_move(steps, limit, options.eos, guard, run);
    run.record_seconds += steps.record_seconds() - recorded_before;
    if (!over) {
      run.count_move(guard.active());
      start = steps.stop();
    }
  }
  run.recorded_seconds = seconds_since(begin) - run.record_seconds;
  return run;
}

template class RecordedRuns<double>;
template class RecordedRuns<float>;
template class RecordedRuns<Bf16>;

}  // namespace versieve::engine
