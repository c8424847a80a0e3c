// The CUDA engine for tests, and tensors in its element types.
#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <vector>

#include "kernels/ops_cuda.h"
#include "model/words/error.h"
#include "tests/kernels/random_tensor.h"

namespace versieve::test {

// The CUDA engine, or null with a sentence on a machine without a GPU: the case then has nothing to
// say.
template <class T>
std::unique_ptr<kernels::Ops<T>> try_gpu_ops() {
  try {
    return kernels::make_cuda_ops<T>();
  } catch (const Error& error) {
    std::printf("skipped: %s\n", error.what());
    return nullptr;
  }
}

template <class T>
T narrow(float value) {
  return value;
}
template <>
inline Bf16 narrow<Bf16>(float value) {
  return to_bf16(value);
}
template <>
inline F16 narrow<F16>(float value) {
  return to_f16(value);
}
inline double widen(float value) {
  return static_cast<double>(value);
}
inline double widen(Bf16 value) {
  return static_cast<double>(to_float(value));
}

inline double widen(F16 value) {
  return static_cast<double>(to_float(value));
}

template <class T>
std::vector<T> narrow_all(const std::vector<float>& values) {
  std::vector<T> narrowed;
  for (const float value : values) {
    narrowed.push_back(narrow<T>(value));
  }
  return narrowed;
}
template <class T>
std::vector<double> widen_all(const std::vector<T>& values) {
  std::vector<double> widened;
  for (const T value : values) {
    widened.push_back(widen(value));
  }
  return widened;
}
template <class T>
std::vector<T> random_elements(std::int64_t count, std::uint32_t seed, double scale = 1.0) {
  return narrow_all<T>(random_tensor<float>(count, seed, scale));
}

template <class T>
kernels::OpsBuffer<T> poisoned(kernels::Ops<T>& ops, std::int64_t count) {
  return {ops, std::vector<T>(static_cast<std::size_t>(count), narrow<T>(-12345.0F))};
}

// Output rounding: half a unit in the last place of T, as a relative norm with room for the sum.
template <class T>
constexpr double kTolerance = sizeof(T) == 2 ? 4e-3 : 2e-6;

}  // namespace versieve::test
