#include "engine/run/speculate/step.h"

#include <algorithm>
#include <chrono>

#include "engine/run/speculate/kernel_variants.h"
#include "model/words/assert.h"

namespace versieve::engine {

std::string unavailable_because(const Strategy& strategy, const LlmShape& target) {
  const std::string reason = illegal_because(strategy, target);
  if (!reason.empty()) {
    return reason;
  }
  if (strategy.attention == AttentionMethod::kSpecAttn) {
    return "specattn runs where a draft model chooses the tokens: in generate";
  }
  if (strategy.drafts_itself) {
    return "draft=resa runs where a text goes on: in generate";
  }
  return {};
}

VerifyOptions verify_options(const Strategy& strategy, const LlmShape& target) {
  VerifyOptions options{.schedule = strategy.schedule_for(target.layers),
                        .group_size = strategy.group_size,
                        .group_mode = strategy.group_mode,
                        .form = strategy.form,
                        .topk = variant_of(strategy.topk.value_or(TopkAlgorithm::kSort))};
  if (strategy.attention == AttentionMethod::kResa) {
    options.splits_chain = true;
    options.resa = resa_selection(strategy);
  }
  options.index = index_selection(strategy);
  return options;
}

VerifyOptions drafting_options(const Strategy& strategy, const LlmShape& target) {
  return verify_options(drafting_steps(strategy), target);
}

const char* name_of(StepPhase phase) {
  switch (phase) {
    case StepPhase::kDraft:
      return "draft";
    case StepPhase::kVerify:
      return "verify";
    case StepPhase::kAccept:
      return "accept";
    case StepPhase::kCommit:
      return "commit";
  }
  VERSIEVE_ASSERT(false, "a phase has a name");
}

std::vector<std::int32_t> yielded_tokens(const StepResult& step) {
  std::vector<std::int32_t> tokens;
  for (std::size_t i = 1; i < step.acceptance.path.size(); ++i) {
    tokens.push_back(step.tree.token[static_cast<std::size_t>(step.acceptance.path[i])]);
  }
  tokens.push_back(step.acceptance.next_token);
  return tokens;
}

template <class T>
Observation<T> observation_of(const Target<T>& target, const DraftTree& tree,
                              const Acceptance& acceptance, std::int64_t first) {
  Observation<T> seen{.first = first, .captured = target.captured(), .rows = acceptance.path};
  for (std::size_t i = 1; i < acceptance.path.size(); ++i) {
    seen.next_token.push_back(tree.token[static_cast<std::size_t>(acceptance.path[i])]);
  }
  seen.next_token.push_back(acceptance.next_token);
  return seen;
}

template <class T>
template <class Work>
void StepRunner<T>::timed(StepPhase phase, const StepOptions& options, StepResult& result,
                          const Work& work) {
  if (options.observer != nullptr) {
    options.observer->phase_begins(phase);
  }
  const std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now();
  work();
  ops_->synchronize();
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
  result.seconds[static_cast<std::size_t>(phase)] += taken.count();
  if (options.observer != nullptr) {
    options.observer->phase_ends(phase);
  }
}

template <class T>
StepResult StepRunner<T>::try_step(TreeSource<T>& source, std::int32_t token,
                                   const StepOptions& options) {
  StepResult result{.context_len = target_->length()};
  timed(StepPhase::kDraft, options, result,
        [&] { result.tree = source.propose(result.context_len, token); });
  VERSIEVE_ASSERT(result.tree.token[0] == token, "the root is the newest token");
  timed(StepPhase::kVerify, options, result, [&] { target_->verify(result.tree, options.verify); });
  timed(StepPhase::kAccept, options, result, [&] {
    result.acceptance = acceptor_.accept({.tree = result.tree,
                                          .position = result.context_len,
                                          .vocab = target_->shape().vocab,
                                          .logits = target_->logits(),
                                          .sampled_logits = source.sampled_logits()},
                                         options.acceptance);
  });
  if (options.measures_blocks && target_->shape().attention == AttentionKind::kNsa) {
    for (std::int64_t layer = 0; layer < target_->shape().layers; ++layer) {
      result.selected.push_back(target_->selected_blocks(layer));
      result.blocks.push_back(block_statistics(result.selected.back(), result.tree.size(),
                                               target_->shape().num_kv_heads,
                                               target_->shape().nsa.sel_count));
    }
  }
  return result;
}

template <class T>
StepResult StepRunner<T>::run(TreeSource<T>& source, std::int32_t token,
                              const StepOptions& options) {
  StepResult result = try_step(source, token, options);
  if (options.forced_yield > 0) {
    result.acceptance.path = path_of_yield(result.tree, options.forced_yield);
  }
  timed(StepPhase::kCommit, options, result, [&] {
    target_->commit(result.acceptance.path);
    source.observe(observation_of(*target_, result.tree, result.acceptance, result.context_len));
  });
  return result;
}

template Observation<double> observation_of(const Target<double>&, const DraftTree&,
                                            const Acceptance&, std::int64_t);
template Observation<float> observation_of(const Target<float>&, const DraftTree&,
                                           const Acceptance&, std::int64_t);
template Observation<Bf16> observation_of(const Target<Bf16>&, const DraftTree&, const Acceptance&,
                                          std::int64_t);
template class StepRunner<double>;
template class StepRunner<float>;
template class StepRunner<Bf16>;

}  // namespace versieve::engine
