// Seeded tensors for kernel tests, and the relative norm that agreement is stated in.
#pragma once

#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

namespace versieve::test {

template <class T>
std::vector<T> random_tensor(std::int64_t count, std::uint32_t seed, double scale = 1.0) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal(0.0, scale);
  std::vector<T> values(static_cast<std::size_t>(count));
  for (T& value : values) {
    value = static_cast<T>(normal(random));
  }
  return values;
}

template <class T>
std::vector<T> random_uniforms(std::int64_t count, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<T> values(static_cast<std::size_t>(count));
  for (T& value : values) {
    value = static_cast<T>(random() >> 8) / static_cast<T>(1 << 24);
  }
  return values;
}

// |got - want| / |want|, Euclidean.
template <class T>
double relative_error(const std::vector<T>& got, const std::vector<double>& want) {
  double difference = 0.0;
  double norm = 0.0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    const double d = static_cast<double>(got[i]) - want[i];
    difference += d * d;
    norm += want[i] * want[i];
  }
  return std::sqrt(difference / norm);
}

}  // namespace versieve::test
