// swiglu and sigmoid on the CPU: the two elementwise activations of the engine.
#pragma once

#include <cmath>

#include "kernels/ops.h"

namespace versieve::kernels {

// 1 / (1 + exp(-x)): exp overflows to infinity for very negative x, which gives the right 0.
template <class T>
T logistic(T x) {
  return T{1} / (T{1} + std::exp(-x));
}
template <class T>
T silu_product(T gate, T up) {
  return gate * logistic(gate) * up;
}

// T = double or float.
template <class T>
void swiglu_cpu(const SwigluParams<T>& p, int threads);
template <class T>
void sigmoid_cpu(const SigmoidParams<T>& p, int threads);

}  // namespace versieve::kernels
