// A node's law while its children are tested and rejected one after the other: what the launches of
// every variant share, so that they decide alike. Rejected tokens leave the row (their logits count
// as -infinity) and the rest is measured from its own largest logit, so that a tail far below the
// rejected tokens keeps its precision.
#pragma once

#include "kernels/ops.h"
#include "kernels/ptx/arithmetic.cuh"
#include "kernels/spec_sample/chunk_law.cuh"

namespace versieve::kernels {

// What all nodes share.
template <class T>
struct TreeSetting {
  TreeSampleParams<T> s;
  LawCut cut;
  LawScale scale;
  bool words = false;           // rows are whole 16-byte words
  const float* cuts = nullptr;  // [N], the least logit kept of each row; or null

  __device__ float least(int node) const { return cuts == nullptr ? -INFINITY : cuts[node]; }
};

template <class T>
TreeSetting<T> tree_setting(const TreeSampleParams<T>& s, const float* cuts) {
  TreeSetting<T> a{.s = s, .cut = cut_law(s.vocab), .scale = law_scale(s.temperature)};
  a.cuts = cuts;
  a.words = s.vocab % kWordElements<T> == 0 &&
            reinterpret_cast<std::uintptr_t>(s.target_logits) % 16 == 0;
  return a;
}

// Whether logits this far below the whole row's largest have mass: exp underflows in the reference.
__device__ inline bool has_mass(float logit, const LawStat& whole, const LawScale& scale) {
  return (double{logit} - double{whole.largest}) * scale.inverse > kLeastExponent;
}

// w(x) / sum of w for a token that was not rejected yet; `left` are the statistics of what is left.
__device__ inline float node_tau(int token, float logit, const LawStat& whole, const LawStat& left,
                                 const LawScale& scale) {
  if (scale.one_hot) {
    return token == whole.argmax() ? 1.0F : 0.0F;
  }
  if (!has_mass(logit, whole, scale)) {
    return 0.0F;
  }
  const float weight = exp2_flushed(__fmul_rn(logit - left.largest, scale.per_logit));
  return fminf(1.0F, __fdiv_rn(weight, left.sum));
}

// Takes a token out of a lane's logits of a round.
template <class T>
__device__ inline void leave_out(float (&z)[kLaneElements], int first, int token) {
  if (token < first || token >= first + kRoundElements) {
    return;
  }
#pragma unroll
  for (int j = 0; j < kLaneElements; ++j) {
    z[j] = element_index<T>(first, j) == token ? -INFINITY : z[j];
  }
}

}  // namespace versieve::kernels
