// A host block of random normal values that is copied to the device over and over, at shifting
// offsets: generating a number for each of a billion parameters would take longer than it is worth.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <type_traits>
#include <vector>

#include "engine/run/model/uniform.h"
#include "kernels/ops.h"

namespace versieve::engine {

template <class T>
T rounded_to(double value) {
  if constexpr (std::is_same_v<T, Bf16>) {
    return to_bf16(value);
  } else {
    return static_cast<T>(to_float(to_bf16(value)));  // the same values in every element type
  }
}

template <class T>
class RandomBlock {
 public:
  // Values of standard deviation 1 times `scale`, as bf16 holds them; `count` of them at most.
  RandomBlock(std::uint64_t seed, std::int64_t count) : seed_(seed) {
    normals_.resize(static_cast<std::size_t>(std::clamp<std::int64_t>(count, 2, kLongest)) / 2 * 2);
    for (std::size_t i = 0; i < normals_.size(); i += 2) {
      // Box and Muller.
      const double u = 1.0 - static_cast<double>(mix_bits(seed + i) >> 11) * 0x1p-53;
      const double angle =
          2.0 * std::numbers::pi * static_cast<double>(mix_bits(seed + i + 1) >> 11) * 0x1p-53;
      const double radius = std::sqrt(-2.0 * std::log(u));
      normals_[i] = static_cast<float>(radius * std::cos(angle));
      normals_[i + 1] = static_cast<float>(radius * std::sin(angle));
    }
  }

  void fill(kernels::Ops<T>& ops, T* destination, std::int64_t count, double scale) {
    std::vector<T> scaled(std::min<std::size_t>(normals_.size(), static_cast<std::size_t>(count)));
    const std::size_t shift = mix_bits(seed_ + ++fills_) % normals_.size();
    for (std::size_t i = 0; i < scaled.size(); ++i) {
      const float normal = normals_[(i + shift) % normals_.size()];
      scaled[i] = rounded_to<T>(scale * static_cast<double>(normal));
    }
    const std::int64_t length = static_cast<std::int64_t>(scaled.size());
    for (std::int64_t at = 0; at < count; at += length) {
      ops.upload(destination + at, scaled.data(),
                 static_cast<std::size_t>(std::min(length, count - at)) * sizeof(T));
    }
    ops.synchronize();
  }

 private:
  static constexpr std::int64_t kLongest = (1 << 22) - 6;  // not a multiple of any row length

  std::uint64_t seed_;
  std::uint64_t fills_ = 0;
  std::vector<float> normals_;
};

}  // namespace versieve::engine
