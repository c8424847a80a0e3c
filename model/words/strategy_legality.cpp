// Which strategies a target can run, and what is missing for the others.
#include "model/words/index_shape.h"
#include "model/words/strategy.h"

namespace versieve {
namespace {

// The target's own steps over chosen blocks as a draft: one query a step.
std::string self_draft_refusal(const Strategy& strategy, const LlmShape& target) {
  if (!strategy.drafts_itself) {
    return {};
  }
  if (target.has_windows()) {
    return "draft=resa chooses from all tokens, and this target has layers that see a window of "
           "them";
  }
  if (!strategy.draft.speculates()) {
    return "draft=resa drafts, and ar asks for no draft";
  }
  if (strategy.draft.width != 1) {
    return "draft=resa decodes token by token: the draft must be a chain, width 1";
  }
  if (strategy.sampling == SamplingAlgorithm::kSigmoid) {
    return "sampling=sigmoid would keep what draft=resa wrote unseen: that is the text of resa";
  }
  return {};
}

std::string attention_refusal(const Strategy& strategy, const LlmShape& target) {
  const bool sparse = strategy.attention == AttentionMethod::kNsa;
  if (sparse != (target.attention == AttentionKind::kNsa)) {
    return sparse ? "nsa needs a target trained with Native Sparse Attention, and this one is dense"
                  : std::string(name_of(strategy.attention)) +
                        " needs a dense target, and this one was trained with Native Sparse "
                        "Attention";
  }
  if (!sparse && strategy.attention != AttentionMethod::kDense && target.has_windows()) {
    return std::string(name_of(strategy.attention)) +
           " chooses from all tokens, and this target has layers that see a window of them";
  }
  if (strategy.attention == AttentionMethod::kResa && strategy.draft.speculates()) {
    return "resa decodes token by token and rectifies what it wrote; it verifies no draft yet";
  }
  if (strategy.attention == AttentionMethod::kSpecAttn && strategy.draft.width != 1) {
    return "specattn chooses tokens by the attention of a draft chain: the draft must be a chain, "
           "width 1";
  }
  if (strategy.attention == AttentionMethod::kIndexer && target.num_kv_heads > kIndexPairs) {
    return "indexer makes an index key of a rotary pair of every KV head and more, and this target "
           "has more than " +
           std::to_string(kIndexPairs) + " KV heads";
  }
  return {};
}

std::string schedule_refusal(const Strategy& strategy, const LlmShape& target) {
  const std::string& schedule = strategy.schedule;
  const bool literal = !schedule.ends_with("*");
  if (literal && static_cast<std::int64_t>(schedule.size()) != target.layers) {
    return "the schedule has " + std::to_string(schedule.size()) + " letters, the model " +
           std::to_string(target.layers) + " layers";
  }
  if (strategy.attention == AttentionMethod::kNsa) {
    return {};
  }
  const std::string why =
      strategy.attention == AttentionMethod::kDense
          ? "a dense target selects no blocks"
          : std::string(name_of(strategy.attention)) + " selects anew for every token and layer";
  if (schedule.find('R') != std::string::npos) {
    return why + ", so there is nothing for an R layer to reuse";
  }
  if (strategy.group_size > 1 && strategy.group_mode == GroupMode::kApprox) {
    return why + ", so there is nothing for an approximate group to share";
  }
  return {};
}

// Which attention can select with a kernel of its own.
std::string selection_refusal(const Strategy& strategy, const LlmShape&) {
  if (!strategy.topk || *strategy.topk == TopkAlgorithm::kSort) {
    return {};
  }
  const std::string option = std::string("topk=") + name_of(*strategy.topk);
  switch (strategy.attention) {
    case AttentionMethod::kNsa:
      if (strategy.form == NsaForm::kFused) {
        return "the fused launches rank blocks within: " + option + " needs form=vanilla";
      }
      return {};
    case AttentionMethod::kDense:
      return "dense attends to every token, so " + option + " has nothing to choose";
    case AttentionMethod::kSpecAttn:
      return "specattn chooses tokens by their share of the attention, not by number, so " +
             option + " has nothing to choose";
    case AttentionMethod::kIndexer:
      return {};
    case AttentionMethod::kResa:
      return "the launches of resa rank blocks within, so " + option + " has nothing to choose";
  }
  return {};
}

std::string sampling_refusal(const Strategy& strategy, const LlmShape&) {
  if (strategy.sampling != SamplingAlgorithm::kSigmoid) {
    return {};
  }
  if (!strategy.draft.speculates()) {
    return "sampling=sigmoid tests drafted tokens, and without a draft there are none";
  }
  if (strategy.draft.width != 1) {
    return "sampling=sigmoid tests a chain that the draft sampled: the draft must be a chain, "
           "width 1";
  }
  return {};
}

std::string length_refusal(const Strategy& strategy, const LlmShape&) {
  if (!strategy.adapts_length) {
    return {};
  }
  if (!strategy.draft.speculates()) {
    return "gamma=adapt says how much a chain drafts, and ar drafts nothing";
  }
  if (strategy.draft.width != 1) {
    return "gamma=adapt is of chains: the draft must have width 1, as in "
           "nsa/d15k1n16/bfs/c1/F*/gamma=adapt";
  }
  if (strategy.draft.levels() < 2) {
    return "gamma=adapt chooses between lengths, and a chain of one token has one";
  }
  if (strategy.attention == AttentionMethod::kSpecAttn) {
    return "specattn chooses tokens by the attention of a chain of its length, and gamma=adapt "
           "drafts shorter ones";
  }
  return {};
}

}  // namespace

std::string illegal_because(const Strategy& strategy, const LlmShape& target) {
  for (const auto& refusal : {attention_refusal, self_draft_refusal, schedule_refusal,
                              selection_refusal, sampling_refusal, length_refusal}) {
    const std::string reason = refusal(strategy, target);
    if (!reason.empty()) {
      return reason;
    }
  }
  return {};
}

}  // namespace versieve
