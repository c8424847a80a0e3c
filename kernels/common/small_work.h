// When a CPU kernel is too small to share between threads: starting one costs about 70 us (measured
// on two cores of an EPYC 9004), so a share must be worth more than that.
#pragma once

#include <cstdint>

namespace versieve::kernels {

// Elements that cost a few nanoseconds each (an exponential, a copy with arithmetic).
inline constexpr std::int64_t kSmallElements = 1 << 16;
// Multiply-adds of a vectorised product, some 25 a nanosecond.
inline constexpr std::int64_t kSmallProducts = 1 << 22;

}  // namespace versieve::kernels
