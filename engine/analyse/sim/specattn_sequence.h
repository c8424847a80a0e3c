// What a step of SpecAttn launches before its target: the chain of a draft model whose attention is
// kept, then its choice of tokens. The draft model of a geometry by name has one layer of the
// target's widths, as plans price it (model/launches/dense_attention.cpp).
#pragma once

#include "engine/analyse/sim/step_sequence.h"

namespace versieve::engine {

struct SpecAttnCase {
  LlmShape target;
  std::int64_t steps = 1;  // of the chain, each of whose rows of weights is kept
  std::int64_t context_len = 0;
  std::int64_t element_bytes = 2;
  std::vector<std::int32_t> tokens;  // that are chosen, ascending
};

// The draft's one layer, whose buffers lie apart from a target's.
LlmShape choosing_draft(const LlmShape& target);

// Appends the launches, and says where the list of the chosen tokens lies.
std::uint64_t append_specattn(const SpecAttnCase& c, LaunchSequence& out);

}  // namespace versieve::engine
