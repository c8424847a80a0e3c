// resa_decode on the CPU, one KV head after the other.
#pragma once

#include "kernels/resa_decode/params.h"

namespace versieve::kernels {

// T = double, float or Bf16 (computed in f32). Results depend neither on `threads` nor on splits:
// keys are absorbed in ascending position, so that all blocks active gives tree_attention's bits.
template <class T>
void resa_decode_cpu(const ResaDecodeParams<T>& p, int threads);

}  // namespace versieve::kernels
