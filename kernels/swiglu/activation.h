// The activations of swiglu and sigmoid on the CPU.
#pragma once

#include <cmath>

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

}  // namespace versieve::kernels
