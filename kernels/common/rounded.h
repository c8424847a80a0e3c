// Elements as numbers that CPUs compute with, and results as elements, rounded once.
#pragma once

#include <type_traits>

#include "kernels/common/element.h"

namespace versieve::kernels {

template <class T>
SumOf<T> to_sum(T x) {
  if constexpr (std::is_same_v<T, Bf16>) {
    return to_float(x);
  } else {
    return x;
  }
}

// Of a sum, or of what was computed in double.
template <class T, class Real>
T from_sum(Real x) {
  if constexpr (std::is_same_v<T, Bf16>) {
    return to_bf16(x);
  } else {
    return static_cast<T>(x);
  }
}

}  // namespace versieve::kernels
