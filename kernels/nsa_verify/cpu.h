// nsa_verify on the CPU, one (node, KV head) after the other. T = double is the reference that
// every other form of this family is compared with.
#pragma once

#include "kernels/nsa_verify/params.h"

namespace versieve::kernels {

// T = double, float or Bf16 (computed in f32 on the rounded inputs). Results do not depend on
// `threads`.
template <class T>
void nsa_verify_cpu(const NsaVerifyParams<T>& p, int threads);

}  // namespace versieve::kernels
