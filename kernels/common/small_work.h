// When a CPU kernel is too small to share between threads: waking a helper of parallel_for costs a
// few microseconds, so a share must be worth more than that.
#pragma once

#include <cstdint>

namespace versieve::kernels {

// Elements that cost a few nanoseconds each (an exponential, a copy with arithmetic).
inline constexpr std::int64_t kSmallElements = 1 << 15;
// Multiply-adds of a vectorised product, some 25 a nanosecond.
inline constexpr std::int64_t kSmallProducts = 1 << 20;

}  // namespace versieve::kernels
