// An op's calls for several sequences, of which none reads what another writes: one launch, or few,
// where the device has such a launch, else one call after the other. Each has the bits that it has
// alone.
#pragma once

#include <span>

#include "kernels/ops.h"

namespace versieve::kernels {

// T = double, float or Bf16.
template <class T>
void nsa_verify_together(Ops<T>& ops, std::span<const NsaVerifyParams<T>> calls);
template <class T>
void tree_attention_together(Ops<T>& ops, std::span<const TreeAttentionParams<T>> calls);

}  // namespace versieve::kernels
