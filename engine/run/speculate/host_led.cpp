#include "engine/run/speculate/host_led.h"

#include <algorithm>
#include <memory>
#include <numeric>

#include "engine/run/speculate/specattn_chain.h"
#include "engine/run/speculate/token_lists.h"
#include "model/words/assert.h"

namespace versieve::engine {
namespace {

void add_overlap(const StepResult& step, Generation& run) {
  run.overlap.resize(step.blocks.size());
  for (std::size_t layer = 0; layer < step.blocks.size(); ++layer) {
    LayerOverlap& sum = run.overlap[layer];  // sums until finish_overlap
    const BlockStatistics& blocks = step.blocks[layer];
    sum.unique_blocks += blocks.unique_blocks;
    if (blocks.adjacent_overlap) {
      sum.adjacent_overlap += *blocks.adjacent_overlap;
      ++sum.overlap_steps;
    }
  }
}

void finish_overlap(Generation& run) {
  for (LayerOverlap& layer : run.overlap) {
    layer.unique_blocks /= static_cast<double>(std::max<std::int64_t>(1, run.steps));
    layer.adjacent_overlap /= static_cast<double>(std::max<std::int64_t>(1, layer.overlap_steps));
  }
}

}  // namespace

void record_step(const StepResult& step, const GenerateOptions& options, Generation& run) {
  run.count_yield(step.acceptance.yield());
  for (std::size_t phase = 0; phase < kStepPhaseCount; ++phase) {
    run.seconds[phase] += step.seconds[phase];
  }
  add_overlap(step, run);
  if (options.on_step) {
    options.on_step(step);
  }
}

template <class T>
Generation HostLedRuns<T>::run(const GenerateOptions& options) {
  const std::unique_ptr<TreeSource<T>> source =
      prefilled_->make_source(options, prefilled_->prompt());
  return run(options, *source);
}

template <class T>
Generation HostLedRuns<T>::run_specattn(const GenerateOptions& options,
                                        const std::vector<std::int32_t>& layer_map) {
  SpecAttnChain<T> chain(*prefilled_, options, prefilled_->prompt(), layer_map);
  Generation run = this->run(options, chain.source());
  run.reads_saved = chain.reads().saved();
  return run;
}

template <class T>
Generation HostLedRuns<T>::run(const GenerateOptions& options, TreeSource<T>& source) {
  Generation run;
  bool over = prefilled_->begin_run(options, run);
  const std::int64_t limit = prefilled_->token_limit(options);
  prefilled_->rewind(source, run.tokens.back());
  prefilled_->target().cache().reserve(prefilled_->length() + limit + kDeepestTree);
  std::optional<Rectifier<T>> rectifier = prefilled_->make_rectifier(options.strategy);
  StepOptions step_choice = prefilled_->step_options(options);
  const std::vector<std::int32_t> forced = prefilled_->forced_yields(options);
  ReadCount reads;
  while (!over) {
    step_choice.forced_yield = prefilled_->forced_yield(forced);
    const StepResult step = prefilled_->steps().run(source, run.tokens.back(), step_choice);
    record_step(step, options, run);
    reads += indexed_reads(options.strategy, step.context_len);
    if (rectifier) {
      prefilled_->rectify(*rectifier, run.tokens.back(), run);
    }
    run.gaps.push_back(step.acceptance.logit_gap);
    over = run.append(yielded_tokens(step), limit, options.eos);
  }
  finish_overlap(run);
  run.reads_saved = reads.saved();
  return run;
}

// Commits tokens of the text itself, whatever the tree held, and shows them to the source.
template <class T>
void HostLedRuns<T>::commit_text(TreeSource<T>& source, std::span<const std::int32_t> tokens,
                                 std::int32_t next_token, const std::string& schedule) {
  Target<T>& target = prefilled_->target();
  const std::int64_t first = target.length();
  const DraftTree chain = chain_tree({tokens.begin(), tokens.end()});
  Acceptance all{.next_token = next_token};
  all.path.resize(tokens.size());
  std::iota(all.path.begin(), all.path.end(), 0);
  target.verify(chain, {.schedule = schedule, .last_logits_only = true});
  target.commit(all.path);
  source.observe(observation_of(target, chain, all, first));
}

template <class T>
Generation HostLedRuns<T>::teacher_forced(const GenerateOptions& options,
                                          std::span<const std::int32_t> text) {
  VERSIEVE_ASSERT(prefilled_->length() >= 1 && !text.empty(), "a text follows a prefilled prompt");
  VERSIEVE_ASSERT(options.strategy.attention != AttentionMethod::kSpecAttn,
                  "text is committed densely; engine/run/specattn walks texts with chosen tokens");
  const std::unique_ptr<TreeSource<T>> source =
      prefilled_->make_source(options, prefilled_->prompt());
  const StepOptions step_choice = prefilled_->step_options(options);
  Generation run;
  run.stopped = StopReason::kTextEnd;
  prefilled_->make_rectifier(
      options.strategy);  // the text is committed by dense passes: nothing to rectify
  prefilled_->rewind(*source, text[0]);
  for (std::size_t at = 0; at + 1 < text.size();) {
    const StepResult step = prefilled_->steps().try_step(*source, text[at], step_choice);
    const std::size_t yield = static_cast<std::size_t>(step.acceptance.yield());
    record_step(step, options, run);
    run.tokens.push_back(step.acceptance.next_token);
    if (at + yield < text.size()) {
      commit_text(*source, text.subspan(at, yield), text[at + yield], step_choice.verify.schedule);
    }
    at += yield;
  }
  finish_overlap(run);
  return run;
}

template class HostLedRuns<double>;
template class HostLedRuns<float>;
template class HostLedRuns<Bf16>;

}  // namespace versieve::engine
