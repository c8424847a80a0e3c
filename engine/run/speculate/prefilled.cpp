#include "engine/run/speculate/prefilled.h"

#include <algorithm>
#include <chrono>
#include <numeric>

#include "engine/run/speculate/draft_source.h"
#include "engine/run/speculate/model_drafter.h"
#include "engine/run/speculate/self_draft.h"
#include "model/words/assert.h"
#include "model/words/error.h"

namespace versieve::engine {
namespace {

// Tokens of a prompt in one forward: enough rows for matrix products at the rate of arithmetic.
constexpr std::int64_t kPrefillChunk = 2048;

}  // namespace

template <class T>
Prefilled<T>::Prefilled(kernels::Ops<T>& ops, Target<T>& target, Draft<T>* draft,
                        Target<T>* draft_model)
    : ops_(&ops), target_(&target), draft_(draft), draft_model_(draft_model), steps_(ops, target) {
  VERSIEVE_ASSERT(draft == nullptr || draft_model == nullptr, "one draft at most");
}

template <class T>
std::int64_t Prefilled<T>::draft_positions() const {
  if (draft_model_ != nullptr) {
    const std::int64_t own = draft_model_->shape().max_position;
    return own < target_->shape().max_position ? own : 0;
  }
  return draft_ != nullptr ? draft_->shape().max_position : 0;
}

template <class T>
void Prefilled<T>::prefill(std::span<const std::int32_t> prompt) {
  const std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now();
  const std::int64_t tokens = static_cast<std::int64_t>(prompt.size());
  VERSIEVE_ASSERT(tokens >= 1, "a prompt has at least its first token");
  if (tokens > target_->shape().max_position) {
    throw Error(ExitCode::kBadInput, "the prompt has " + std::to_string(tokens) +
                                         " tokens, the model takes " +
                                         std::to_string(target_->shape().max_position));
  }
  prompt_.assign(prompt.begin(), prompt.end());
  target_->cache().truncate(0);
  target_->cache().reserve(length());
  if (draft_ != nullptr) {
    draft_->reserve(length());
    draft_->set_length(1);
  }
  if (draft_model_ != nullptr) {
    draft_model_->cache().truncate(0);
    draft_model_->cache().reserve(length());
  }
  for (std::int64_t at = 0; at < length(); at += kPrefillChunk) {
    const std::int64_t end = std::min(length(), at + kPrefillChunk);
    const std::span<const std::int32_t> chunk =
        prompt.subspan(static_cast<std::size_t>(at), static_cast<std::size_t>(end - at));
    target_->read_prompt(chunk);
    feed_draft(at, end);
    if (draft_model_ != nullptr && drafts_at(draft_positions(), length())) {
      draft_model_->read_prompt(chunk);
    }
  }
  ensure_count(*ops_, last_logits_, target_->shape().vocab);
  ops_->copy_rows({.rows = 1,
                   .width = target_->shape().vocab,
                   .src = target_->logits(),
                   .dst = last_logits_.data()});
  ops_->synchronize();
  seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// Draft entries for the chunk's tokens, as far back as the first step will look. The entry of the
// token after the prompt waits for that token; its captured row is kept.
template <class T>
void Prefilled<T>::feed_draft(std::int64_t begin, std::int64_t end) {
  if (draft_ == nullptr) {
    return;
  }
  const std::int64_t oldest = length() - draft_->shape().window + 1;
  const std::int64_t first = std::max(begin + 1, oldest);
  const std::int64_t last = std::min(end, length() - 1);
  if (first <= last && drafts_at(draft_positions(), length())) {
    std::vector<std::int32_t> rows(static_cast<std::size_t>(last - first + 1));
    std::iota(rows.begin(), rows.end(), static_cast<std::int32_t>(first - 1 - begin));
    draft_->extend(first, std::span(prompt_).subspan(static_cast<std::size_t>(first), rows.size()),
                   target_->captured(), rows, false);
  }
  if (end == length()) {
    const std::int64_t width = 3 * target_->shape().hidden;
    draft_->set_length(length());
    ensure_count(*ops_, last_captured_, width);
    ops_->copy_rows({.rows = 1,
                     .width = width,
                     .src = target_->captured() + (end - 1 - begin) * width,
                     .dst = last_captured_.data(),
                     .term = TrafficTerm::kDraft});
  }
}

template <class T>
std::int64_t Prefilled<T>::token_limit(const GenerateOptions& options) const {
  return std::min(options.max_new_tokens, target_->shape().max_position - length() + 1);
}

template <class T>
StepOptions Prefilled<T>::step_options(const GenerateOptions& options) const {
  VerifyOptions verify = verify_options(options.strategy, target_->shape());
  verify.hide_tree_compressed = options.hide_tree_compressed;
  return {
      .verify = verify,
      .acceptance = {.temperature = options.temperature,
                     .seed = options.seed,
                     .measures_gap = options.measures_gaps,
                     .sampling = options.strategy.sampling.value_or(SamplingAlgorithm::kCoupled),
                     .truncation = options.truncation,
                     .sigmoid = options.sigmoid},
      .measures_blocks = options.measures_blocks,
      .observer = options.observer};
}

template <class T>
std::vector<std::int32_t> Prefilled<T>::forced_yields(const GenerateOptions& options) const {
  return options.acceptance == nullptr || !options.strategy.draft.speculates()
             ? std::vector<std::int32_t>()
             : options.acceptance->yields(options.strategy, token_limit(options) + kDeepestTree);
}

template <class T>
std::int64_t Prefilled<T>::forced_yield(const std::vector<std::int32_t>& forced_yields) const {
  return forced_yields.empty()
             ? 0
             : forced_yields.at(static_cast<std::size_t>(target_->length() - length()));
}

template <class T>
bool Prefilled<T>::begin_run(const GenerateOptions& options, Generation& run) {
  VERSIEVE_ASSERT(length() >= 1, "a run follows a prefill");
  const std::int64_t room = target_->shape().max_position - length() + 1;
  const std::int64_t limit = token_limit(options);
  run.stopped = limit == room ? StopReason::kMaxPosition : StopReason::kMaxNewTokens;
  const DraftTree last = NoDraft<T>().propose(0, 0);
  const Acceptance first = steps_.acceptor().accept({.tree = last,
                                                     .position = length() - 1,
                                                     .vocab = target_->shape().vocab,
                                                     .logits = last_logits_.data()},
                                                    step_options(options).acceptance);
  run.gaps.push_back(first.logit_gap);
  return run.append({&first.next_token, 1}, limit, options.eos);
}

template <class T>
void Prefilled<T>::rewind_caches() {
  target_->cache().truncate(length());
  if (draft_ != nullptr) {
    draft_->set_length(length());
  }
}

template <class T>
void Prefilled<T>::rewind(TreeSource<T>& source, std::int32_t first_token) {
  rewind_caches();
  source.observe({.first = length() - 1,
                  .next_token = {first_token},
                  .captured = last_captured_.data(),
                  .rows = {0}});
}

template <class T>
std::unique_ptr<TreeSource<T>> Prefilled<T>::make_source(const GenerateOptions& options,
                                                         std::vector<std::int32_t> text) {
  if (!options.strategy.draft.speculates()) {
    return std::make_unique<NoDraft<T>>();
  }
  const bool own = options.strategy.drafts_itself;
  const DraftSourceOptions choice{
      .choice = options.strategy.draft,
      .order = options.strategy.order,
      .temperature = options.temperature,
      .seed = options.seed,
      .sampling = options.strategy.sampling.value_or(SamplingAlgorithm::kCoupled),
      .truncation = options.truncation,
      .adapts_length = options.strategy.adapts_length,
      .target_vocab = target_->shape().vocab,
      .draft_positions = own ? 0 : draft_positions()};
  if (own) {
    return std::make_unique<SelfSource<T>>(
        *ops_, *target_, drafting_options(options.strategy, target_->shape()), choice);
  }
  if (draft_ != nullptr) {
    return std::make_unique<DraftSource<T>>(*ops_, *draft_, choice);
  }
  const bool chain = options.strategy.draft.width == 1;
  return std::make_unique<DraftSource<T>>(
      *ops_, std::make_unique<ModelDrafter<T>>(*ops_, *draft_model_, std::move(text), chain),
      choice);
}

template <class T>
std::optional<Rectifier<T>> Prefilled<T>::make_rectifier(const Strategy& strategy) {
  const LlmShape& shape = target_->shape();
  target_->keep_choice_keys(strategy.drafts_itself ? drafting_options(strategy, shape)
                                                   : verify_options(strategy, shape));
  if (strategy.attention != AttentionMethod::kResa || strategy.resa_rectify_every == 0) {
    return std::nullopt;
  }
  return Rectifier<T>(*target_, strategy.resa_rectify_every);
}

template <class T>
void Prefilled<T>::rectify(Rectifier<T>& rectifier, std::int32_t token, Generation& run) {
  const std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now();
  if (rectifier.committed(token)) {
    ops_->synchronize();
    ++run.rectifications;
    run.rectify_seconds +=
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }
}

template class Prefilled<double>;
template class Prefilled<float>;
template class Prefilled<Bf16>;

}  // namespace versieve::engine
