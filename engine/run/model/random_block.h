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

// `count` or one more, so that they are even in number, by Box and Muller.
inline std::vector<float> random_normals(std::uint64_t seed, std::int64_t count) {
  std::vector<float> normals(static_cast<std::size_t>(count + 1) / 2 * 2);
  for (std::size_t i = 0; i < normals.size(); i += 2) {
    const double u = 1.0 - static_cast<double>(mix_bits(seed + i) >> 11) * 0x1p-53;
    const double angle =
        2.0 * std::numbers::pi * static_cast<double>(mix_bits(seed + i + 1) >> 11) * 0x1p-53;
    const double radius = std::sqrt(-2.0 * std::log(u));
    normals[i] = static_cast<float>(radius * std::cos(angle));
    normals[i + 1] = static_cast<float>(radius * std::sin(angle));
  }
  return normals;
}

template <class T>
class RandomBlock {
 public:
  // Values of standard deviation 1 times `scale`, as bf16 holds them; `count` of them at most.
  RandomBlock(std::uint64_t seed, std::int64_t count)
      : seed_(seed),
        normals_(random_normals(seed, std::clamp<std::int64_t>(count, 2, kLongest) / 2 * 2)) {}

  void fill(kernels::Ops<T>& ops, T* destination, std::int64_t count, double scale) {
    round_at(scale);
    const auto length = static_cast<std::int64_t>(rounded_.size());
    auto from =
        static_cast<std::int64_t>(mix_bits(seed_ + ++fills_) % static_cast<std::uint64_t>(length));
    for (std::int64_t at = 0; at < count;) {
      const std::int64_t run = std::min(length - from, count - at);
      ops.upload(destination + at, rounded_.data() + from,
                 static_cast<std::size_t>(run) * sizeof(T));
      at += run;
      from = 0;
    }
    ops.synchronize();
  }

 private:
  static constexpr std::int64_t kLongest = (1 << 22) - 6;  // not a multiple of any row length

  // Once a scale: contexts are filled page by page, thousands of them.
  void round_at(double scale) {
    if (!rounded_.empty() && scale == scale_) {
      return;
    }
    scale_ = scale;
    rounded_.resize(normals_.size());
    std::transform(normals_.begin(), normals_.end(), rounded_.begin(), [scale](float normal) {
      return rounded_to<T>(scale * static_cast<double>(normal));
    });
  }

  std::uint64_t seed_;
  std::uint64_t fills_ = 0;
  std::vector<float> normals_;
  double scale_ = 0.0;
  std::vector<T> rounded_;
};

}  // namespace versieve::engine
