// swiglu and sigmoid on the CPU: the two elementwise activations of the engine.
#pragma once

#include "kernels/ops.h"

namespace versieve::kernels {

// T = double or float.
template <class T>
void swiglu_cpu(const SwigluParams<T>& p, int threads);
template <class T>
void sigmoid_cpu(const SigmoidParams<T>& p, int threads);

}  // namespace versieve::kernels
