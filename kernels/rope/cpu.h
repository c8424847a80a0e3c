// rope on the CPU: rotary embedding of queries and keys, HF Llama "rotate half".
#pragma once

#include "kernels/ops.h"

namespace versieve::kernels {

// T = double or float. Angles, sines and cosines in double, rounded once to T.
template <class T>
void rope_cpu(const RopeParams<T>& p, int threads);

}  // namespace versieve::kernels
