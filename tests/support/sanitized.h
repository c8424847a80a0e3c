// How many times as slow a test may be because a sanitizer watches it: the one factor of all waits
// and bounds of time.
#pragma once

namespace versieve::test {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr int kSanitized = 10;
#else
inline constexpr int kSanitized = 1;
#endif

}  // namespace versieve::test
