#include "engine/run/speculate/generate.h"

#include <algorithm>
#include <chrono>
#include <numeric>

#include "engine/run/speculate/draft_choice.h"
#include "engine/run/speculate/draft_source.h"
#include "engine/run/speculate/model_drafter.h"
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

// The target reads chosen tokens while this lives.
template <class T>
class SelectorScope {
 public:
  SelectorScope(Target<T>& target, TokenSelector<T>& selector) : target_(&target) {
    target.set_token_selector(&selector);
  }
  ~SelectorScope() { target_->set_token_selector(nullptr); }
  SelectorScope(const SelectorScope&) = delete;
  SelectorScope& operator=(const SelectorScope&) = delete;

 private:
  Target<T>* target_;
};

}  // namespace

template <class T>
Generator<T>::Generator(kernels::Ops<T>& ops, Target<T>& target, Draft<T>* draft,
                        Target<T>* draft_model)
    : ops_(&ops), target_(&target), draft_(draft), draft_model_(draft_model), runner_(ops, target) {
  VERSIEVE_ASSERT(draft == nullptr || draft_model == nullptr, "one draft at most");
}

template <class T>
std::string Generator<T>::refusal(const GenerateOptions& options) const {
  const Strategy& strategy = options.strategy;
  const bool chooses = strategy.attention == AttentionMethod::kSpecAttn;
  const std::string reason = chooses ? illegal_because(strategy, target_->shape())
                                     : unavailable_because(strategy, target_->shape());
  if (!reason.empty()) {
    return reason;
  }
  if (strategy.draft.speculates() && draft_ == nullptr && draft_model_ == nullptr) {
    return "the model has no draft, so it can only decode with ar";
  }
  if (chooses && draft_model_ == nullptr) {
    return "specattn needs a draft model with attention of its own";
  }
  if (chooses && layer_map_.empty()) {
    return "specattn needs the model's layer_map.json: write it with versieve align";
  }
  if (strategy.sampling == SamplingAlgorithm::kGreedy && options.temperature > 0.0) {
    return "sampling=greedy is for temperature 0";
  }
  if (strategy.sampling == SamplingAlgorithm::kSigmoid) {
    if (options.temperature == 0.0) {
      return "sampling=sigmoid needs a temperature above 0: at 0 the largest logit decides";
    }
    if (draft_ != nullptr && draft_->has_own_vocabulary()) {
      return "sampling=sigmoid compares both models' logits of a token, and this draft has a "
             "vocabulary of its own";
    }
  }
  return {};
}

template <class T>
StepOptions Generator<T>::step_options(const GenerateOptions& options) const {
  VerifyOptions verify = verify_options(options.strategy, target_->shape());
  verify.hide_tree_compressed = options.hide_tree_compressed;
  return {.verify = verify,
          .acceptance = {.temperature = options.temperature,
                         .seed = options.seed,
                         .measures_gap = options.measures_gaps,
                         .sampling = options.strategy.sampling.value_or(SamplingAlgorithm::kExact)},
          .measures_blocks = options.measures_blocks,
          .observer = options.observer};
}

template <class T>
std::unique_ptr<TreeSource<T>> Generator<T>::make_source(const GenerateOptions& options,
                                                         std::vector<std::int32_t> text) {
  const std::string reason = refusal(options);
  VERSIEVE_ASSERT(reason.empty(), "refused strategies are not run");
  if (!options.strategy.draft.speculates()) {
    return std::make_unique<NoDraft<T>>();
  }
  const DraftSourceOptions choice{.choice = options.strategy.draft,
                                  .order = options.strategy.order,
                                  .temperature = options.temperature,
                                  .seed = options.seed};
  if (draft_ != nullptr) {
    return std::make_unique<DraftSource<T>>(*ops_, *draft_, choice);
  }
  const bool chain = options.strategy.draft.width == 1;
  return std::make_unique<DraftSource<T>>(
      *ops_, std::make_unique<ModelDrafter<T>>(*ops_, *draft_model_, std::move(text), chain),
      choice);
}

// Back to the prompt's end, with `first_token` chosen to follow it.
template <class T>
void Generator<T>::rewind(TreeSource<T>& source, std::int32_t first_token) {
  target_->cache().truncate(prompt_len_);
  if (draft_ != nullptr) {
    draft_->set_length(prompt_len_);
  }
  source.observe({.first = prompt_len_ - 1,
                  .next_token = {first_token},
                  .captured = last_captured_.data(),
                  .rows = {0}});
}

template <class T>
void Generator<T>::record(const StepResult& step, const GenerateOptions& options, Generation& run) {
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
Generation Generator<T>::run(const GenerateOptions& options) {
  if (options.strategy.attention == AttentionMethod::kSpecAttn) {
    return run_specattn(options);
  }
  if (options.records_steps && can_record(options)) {
    return run_recorded(options);
  }
  const std::unique_ptr<TreeSource<T>> source = make_source(options, prompt_);
  return run(options, *source);
}

template <class T>
std::int64_t Generator<T>::token_limit(const GenerateOptions& options) const {
  return std::min(options.max_new_tokens, target_->shape().max_position - prompt_len_ + 1);
}

// The token that prefill's logits give; true when it ends the run.
template <class T>
bool Generator<T>::begin_run(const GenerateOptions& options, Generation& run) {
  VERSIEVE_ASSERT(prompt_len_ >= 1, "a run follows a prefill");
  const std::int64_t room = target_->shape().max_position - prompt_len_ + 1;
  const std::int64_t limit = token_limit(options);
  run.stopped = limit == room ? StopReason::kMaxPosition : StopReason::kMaxNewTokens;
  const DraftTree last = NoDraft<T>().propose(0, 0);
  const Acceptance first = runner_.acceptor().accept({.tree = last,
                                                      .position = prompt_len_ - 1,
                                                      .vocab = target_->shape().vocab,
                                                      .logits = last_logits_.data()},
                                                     step_options(options).acceptance);
  run.gaps.push_back(first.logit_gap);
  return run.append({&first.next_token, 1}, limit, options.eos);
}

// For a strategy with ReSA: block keys of the prompt, and who rectifies. Otherwise the block keys
// of an earlier run are dropped.
template <class T>
std::optional<Rectifier<T>> Generator<T>::make_rectifier(const Strategy& strategy) {
  if (strategy.attention != AttentionMethod::kResa) {
    target_->drop_block_keys();
    return std::nullopt;
  }
  target_->keep_block_keys(strategy.resa_key_block);
  if (strategy.resa_rectify_every == 0) {
    return std::nullopt;
  }
  return Rectifier<T>(*target_, strategy.resa_rectify_every);
}

template <class T>
void Generator<T>::rectify(Rectifier<T>& rectifier, std::int32_t token, Generation& run) {
  const std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now();
  if (rectifier.committed(token)) {
    ops_->synchronize();
    ++run.rectifications;
    run.rectify_seconds +=
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }
}

template <class T>
Generation Generator<T>::run_specattn(const GenerateOptions& options) {
  const std::string reason = refusal(options);
  VERSIEVE_ASSERT(reason.empty(), "refused strategies are not run");
  const DraftChoice& chain = options.strategy.draft;
  auto drafter = std::make_unique<ModelDrafter<T>>(*ops_, *draft_model_, prompt_, true);
  const SpecAttnOptions choice{.p = options.strategy.specattn_p};
  // The map ascends: draft layers before the first that is asked keep nothing.
  const std::size_t first =
      std::min(static_cast<std::size_t>(choice.dense_layers), layer_map_.size() - 1);
  drafter->capture_attention(chain.levels(), layer_map_[first]);
  SpecAttnSelector<T> selector(*ops_, *drafter, layer_map_, choice);
  DraftSource<T> source(*ops_, std::move(drafter),
                        {.choice = chain,
                         .order = options.strategy.order,
                         .temperature = options.temperature,
                         .seed = options.seed});
  const SelectorScope<T> scope(*target_, selector);
  Generation run = this->run(options, source);
  run.reads_saved = selector.reads().saved();
  return run;
}

template <class T>
Generation Generator<T>::run(const GenerateOptions& options, TreeSource<T>& source) {
  Generation run;
  bool over = begin_run(options, run);
  const std::int64_t limit = token_limit(options);
  rewind(source, run.tokens.back());
  target_->cache().reserve(prompt_len_ + limit + kDeepestTree);
  std::optional<Rectifier<T>> rectifier = make_rectifier(options.strategy);
  const StepOptions step_choice = step_options(options);
  while (!over) {
    const StepResult step = runner_.run(source, run.tokens.back(), step_choice);
    record(step, options, run);
    if (rectifier) {
      rectify(*rectifier, run.tokens.back(), run);
    }
    run.gaps.push_back(step.acceptance.logit_gap);
    over = run.append(yielded_tokens(step), limit, options.eos);
  }
  finish_overlap(run);
  return run;
}

// Commits tokens of the text itself, whatever the tree held, and tells the source.
template <class T>
void Generator<T>::commit_text(TreeSource<T>& source, std::span<const std::int32_t> tokens,
                               std::int32_t next_token, const std::string& schedule) {
  const std::int64_t first = target_->length();
  const DraftTree chain = chain_tree({tokens.begin(), tokens.end()});
  Acceptance all{.next_token = next_token};
  all.path.resize(tokens.size());
  std::iota(all.path.begin(), all.path.end(), 0);
  target_->verify(chain, {.schedule = schedule, .last_logits_only = true});
  target_->commit(all.path);
  source.observe(observation_of(*target_, chain, all, first));
}

template <class T>
Generation Generator<T>::teacher_forced(const GenerateOptions& options,
                                        std::span<const std::int32_t> text) {
  VERSIEVE_ASSERT(prompt_len_ >= 1 && !text.empty(), "a text follows a prefilled prompt");
  VERSIEVE_ASSERT(options.strategy.attention != AttentionMethod::kSpecAttn,
                  "text is committed densely; engine/run/specattn walks texts with chosen tokens");
  const std::unique_ptr<TreeSource<T>> source = make_source(options, prompt_);
  const StepOptions step_choice = step_options(options);
  Generation run;
  run.stopped = StopReason::kTextEnd;
  make_rectifier(options.strategy);  // the text is committed by dense passes: nothing to rectify
  rewind(*source, text[0]);
  for (std::size_t at = 0; at + 1 < text.size();) {
    const StepResult step = runner_.try_step(*source, text[at], step_choice);
    const std::size_t yield = static_cast<std::size_t>(step.acceptance.yield());
    record(step, options, run);
    run.tokens.push_back(step.acceptance.next_token);
    if (at + yield < text.size()) {
      commit_text(*source, text.subspan(at, yield), text[at + yield], step_choice.verify.schedule);
    }
    at += yield;
  }
  finish_overlap(run);
  return run;
}

template class Generator<double>;
template class Generator<float>;
template class Generator<Bf16>;

}  // namespace versieve::engine
