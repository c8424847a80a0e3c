// How the fused launches of an attention case are cut (model/launches/fused_cut.h), and the scratch
// that they pass partial results through.
#pragma once

#include "engine/analyse/sim/attention_case.h"
#include "model/launches/fused_cut.h"

namespace versieve::engine {

// Throws Error(kAnswerNo) for what the kernels decline for lack of shared memory.
FusedCut fused_cut(const AttentionCase& a, FusedLaunch launch);
// What the cut depends on of a case.
FusedCall fused_call(const AttentionCase& a);

std::int64_t scratch_spans(const AttentionCase& a);   // a row's partial results
std::int64_t scratch_slices(const AttentionCase& a);  // a row's softmax weights, by 16 tokens
// A slice is four blocks (B/s = 4, l/s = 2): weights are kept as sums of blocks, not by token.
bool sums_blocks(const NsaGeometry& nsa);
std::int64_t slice_weights(const NsaGeometry& nsa);  // of a row and slice

// What the finishing CTAs of nsa_route store of their registers: 28 bytes a thread, from the stores
// that L2 counted beyond their outputs'; memory of as many CTAs as are resident.
inline constexpr std::int64_t kRouteSpills = 128 * 28;
inline constexpr std::int64_t kSpillingCtas = 264;

void place_fused_scratch(AddressSpace& space, AttentionCase& attention);

}  // namespace versieve::engine
