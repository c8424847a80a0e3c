// The fused form of resa_decode: one launch for bf16 and head sizes 64 and 128.
#pragma once

#include <type_traits>

#include "kernels/common/launch_context.h"
#include "kernels/resa_decode/step.cuh"

namespace versieve::kernels {

template <class T>
bool resa_fused_takes(const ResaDecodeParams<T>& p) {
  return std::is_same_v<T, Bf16> && (p.head_dim == 64 || p.head_dim == 128);
}
// Enqueues, never waits. REQUIRES: resa_fused_takes(p), H/G <= 16.
void launch_resa_fused(const ResaDecodeParams<Bf16>& p, const ResaScratch& scratch,
                       const LaunchContext& context);

}  // namespace versieve::kernels
