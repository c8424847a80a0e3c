// The element types kernels are instantiated for and what they accumulate in. F16: samplers alone.
#pragma once

#include "kernels/common/bf16.h"
#include "kernels/common/f16.h"

namespace versieve::kernels {

enum class Dtype { kF64, kF32, kBf16, kF16 };
const char* name_of(Dtype dtype);  // "f64", "f32", "bf16", "f16"

template <class T>
struct Element;
template <>
struct Element<double> {
  using Sum = double;
  static constexpr Dtype kDtype = Dtype::kF64;
};
template <>
struct Element<float> {
  using Sum = float;
  static constexpr Dtype kDtype = Dtype::kF32;
};
template <>
struct Element<Bf16> {
  using Sum = float;
  static constexpr Dtype kDtype = Dtype::kBf16;
};
template <>
struct Element<F16> {
  using Sum = float;
  static constexpr Dtype kDtype = Dtype::kF16;
};
// What a kernel over T computes in: f64 for f64, else f32.
template <class T>
using SumOf = typename Element<T>::Sum;

}  // namespace versieve::kernels
