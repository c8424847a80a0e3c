// Bounds that both ReSA families of the door share.
#pragma once

#include <cstdint>

namespace versieve::engine {

// Far beyond any model, small enough that counts never overflow.
inline constexpr std::int64_t kMaxKeyBlock = INT32_MAX;

}  // namespace versieve::engine
