// block_keys on the CPU.
#pragma once

#include "kernels/block_keys/params.h"

namespace versieve::kernels {

// T = double, float or Bf16. NaN in a block: which value is taken is not defined.
template <class T>
void block_keys_cpu(const BlockKeysParams<T>& p, int threads);

}  // namespace versieve::kernels
