// Counter-based random numbers: a uniform is a function of (seed, position, use, index) alone, so
// a run can be had again and does not depend on what was drawn before.
#pragma once

#include <cstdint>

#include "kernels/common/counter_random.h"

namespace versieve::engine {

using kernels::mix_bits;

enum class UniformUse : std::uint64_t {
  kDraft = 1,  // tokens that a chain draft samples
  kTest = 2,   // acceptance tests and the final draw of a step
  // 3: kernels/gumbel_top
};

// In [0, 1), 24 bits: the same number in float and double.
inline double uniform_at(std::uint64_t seed, std::int64_t position, UniformUse use,
                         std::int64_t index) {
  std::uint64_t bits = mix_bits(seed);
  bits = mix_bits(bits ^ static_cast<std::uint64_t>(position));
  bits =
      mix_bits(bits ^ (static_cast<std::uint64_t>(use) << 32 ^ static_cast<std::uint64_t>(index)));
  return static_cast<double>(bits >> 40) * 0x1p-24;
}

}  // namespace versieve::engine
