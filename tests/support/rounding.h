// Doubles to the kernels' element types and back, as the tests need them.
#pragma once

#include <algorithm>
#include <iterator>
#include <random>
#include <type_traits>
#include <vector>

#include "kernels/common/bf16.h"

namespace versieve::testing {

inline std::size_t at(std::int64_t i) {
  return static_cast<std::size_t>(i);
}

inline std::int64_t pick(std::mt19937_64& rng, std::int64_t low, std::int64_t high) {
  return std::uniform_int_distribution<std::int64_t>(low, high)(rng);
}

inline std::vector<double> random_rows(std::mt19937_64& rng, std::int64_t count) {
  std::normal_distribution<double> normal;
  std::vector<double> rows(at(count));
  std::generate(rows.begin(), rows.end(), [&] { return normal(rng); });
  return rows;
}

template <class T>
T narrowed(double x) {
  if constexpr (std::is_same_v<T, Bf16>) {
    return to_bf16(x);
  } else {
    return static_cast<T>(x);
  }
}

template <class T>
double widened(T x) {
  if constexpr (std::is_same_v<T, Bf16>) {
    return static_cast<double>(to_float(x));
  } else {
    return static_cast<double>(x);
  }
}

template <class T>
std::vector<T> narrowed_rows(const std::vector<double>& rows) {
  std::vector<T> r;
  std::transform(rows.begin(), rows.end(), std::back_inserter(r),
                 [](double x) { return narrowed<T>(x); });
  return r;
}

template <class T>
std::vector<double> widened_rows(const std::vector<T>& rows) {
  std::vector<double> r;
  std::transform(rows.begin(), rows.end(), std::back_inserter(r), [](T x) { return widened(x); });
  return r;
}

template <class T>
std::vector<double> rounded_rows(const std::vector<double>& rows) {
  return widened_rows(narrowed_rows<T>(rows));
}

}  // namespace versieve::testing
