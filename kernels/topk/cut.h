// Where a row is cut: everything above `key` is chosen, and of the scores with that key the first
// `ties` by index. The CPU forms of `radix` and `gvr` differ in how they find it
// (Guess-Verify-Refine top-k).
#pragma once

#include <cstdint>
#include <span>

namespace versieve::kernels {

// Key = std::uint16_t, std::uint32_t or std::uint64_t (order_key.h).
template <class Key>
struct TopkCut {
  Key key = 0;            // of the k-th largest score
  std::int64_t ties = 0;  // >= 1: how many scores with that key are among the k
};

// What a search did, for tests and reports.
struct GvrTrace {
  std::int64_t hints = 0;          // entries that are in range and not repeated
  int counts = 0;                  // passes that counted the row against a threshold
  bool finished_by_radix = false;  // no count fell in [k, k + slack]
};

// Candidates beyond k that the exact finish takes: a count in [k, k + slack] ends the search.
std::int64_t gvr_slack(std::int64_t k);

// Digit by digit from the top: histogram, the digit that holds the k-th, on with its scores only.
// REQUIRES for both: 1 <= k <= keys.size().
template <class Key>
TopkCut<Key> radix_cut(std::span<const Key> keys, std::int64_t k);

// Guess a threshold from the hinted scores, verify it by counting, move it like a secant until the
// count is in [k, k + slack], rank the candidates exactly. Otherwise radix_cut.
template <class Key>
TopkCut<Key> gvr_cut(std::span<const Key> keys, std::int64_t k, std::span<const std::int32_t> hint,
                     GvrTrace* trace = nullptr);

}  // namespace versieve::kernels
