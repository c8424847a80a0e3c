// The rotary table on the device: a cosine and a sine of each position and pair, a thread each.
#pragma once

#include <cmath>
#include <string>

#include "kernels/ops.h"
#include "model/words/assert.h"
#include "model/words/error.h"

namespace versieve::kernels {

inline constexpr int kMaxRotaryPairs = 128;  // head_dim up to 256

// theta^(-2i/d), computed once a call on the host: the same numbers as the CPU form's.
struct RotaryFrequencies {
  double value[kMaxRotaryPairs];
};
inline RotaryFrequencies rotary_frequencies(double theta, std::int64_t head_dim) {
  VERSIEVE_ASSERT(head_dim >= 2 && head_dim % 2 == 0, "rotary pairs need an even head size");
  if (head_dim / 2 > kMaxRotaryPairs) {
    throw Error(ExitCode::kAnswerNo, "the CUDA kernels turn heads of at most 256 elements, not " +
                                         std::to_string(head_dim));
  }
  RotaryFrequencies frequencies{};
  for (std::int64_t i = 0; i < head_dim / 2; ++i) {
    frequencies.value[i] =
        std::pow(theta, -2.0 * static_cast<double>(i) / static_cast<double>(head_dim));
  }
  return frequencies;
}

// Place `at` of the table [n, d/2], if it exists.
template <class T>
__device__ inline void write_angle(const RopeTableParams<T>& p,
                                   const RotaryFrequencies& frequencies, int at) {
  const int half = static_cast<int>(p.head_dim / 2);
  const int row = at / half;
  if (row < p.n) {
    double s = 0.0;
    double c = 0.0;
    const int i = at - row * half;
    sincos(p.position[row] * (p.frequency != nullptr ? p.frequency[i] : frequencies.value[i]), &s,
           &c);
    p.cosine[at] = static_cast<float>(c * p.scale);
    p.sine[at] = static_cast<float>(s * p.scale);
  }
}

}  // namespace versieve::kernels
