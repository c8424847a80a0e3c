#include "engine/analyse/sim/specattn_sequence.h"

#include "engine/analyse/sim/dense_traces.h"

namespace versieve::engine {
namespace {

constexpr std::int64_t kFloat = 4, kInt = 4;
constexpr std::uint64_t kDraftMemory = 1ULL << 43, kChoiceMemory = 1ULL << 44;

// One pass of the draft model behind `length` tokens.
void append_pass(const SpecAttnCase& c, std::int64_t length, std::uint64_t weights,
                 LaunchSequence& out) {
  const DraftTree one{.parent = {-1}, .depth = {0}, .token = {0}};
  const LlmShape draft = choosing_draft(c.target);
  DenseCase layer = dense_case(draft, one, length);
  layer.element_bytes = c.element_bytes;
  layer.room = c.context_len + c.steps;
  layer.captures = true;
  layer.at.weights = weights;
  for (std::unique_ptr<LaunchTrace>& launch : step_sequence({.shape = draft,
                                              .tree = one,
                                              .context_len = length,
                                              .element_bytes = c.element_bytes,
                                              .committed = 1,
                                              .dense = {layer},
                                              .memory = kDraftMemory})) {
    out.push_back(std::move(launch));
  }
}

}  // namespace

LlmShape choosing_draft(const LlmShape& target) {
  LlmShape draft = target;
  draft.layers = 1;
  draft.attention = AttentionKind::kDense;
  return draft;
}

std::uint64_t append_specattn(const SpecAttnCase& c, LaunchSequence& out) {
  AddressSpace space(kChoiceMemory);
  DenseCase choice{.context_len = c.context_len, .listed = true, .tokens = c.tokens};
  choice.room = c.context_len + c.steps;
  choice.at.weights = space.place(c.steps * choice.capacity() * kFloat);
  choice.at.mask = space.place(c.context_len * kInt);
  choice.at.mass = space.place(c.steps * kFloat);
  choice.at.tokens = space.place(c.context_len * kInt);
  choice.at.list_counts = space.place(c.context_len * kInt);
  for (std::int64_t step = 0; step < c.steps; ++step) {
    append_pass(c, c.context_len + step,
                choice.at.weights + static_cast<std::uint64_t>(step * choice.capacity() * kFloat),
                out);
  }
  append_top_p(choice, c.steps, out);
  append_token_list(choice, out);
  return choice.at.tokens;
}

}  // namespace versieve::engine
