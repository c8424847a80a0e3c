// The bins of one counting pass over a row, and what is known of the k-th largest between passes.
// Keys are those of order_key.h but 1 for NaN, so that 0 stands for "no score". Used by device code
// and by tests.
#pragma once

#include <cstdint>

#include "kernels/topk/order_key.h"

namespace versieve::kernels {

inline constexpr int kTopkBins = 2048;

// The k-th largest has its key in [low, last]; `above` scores have a key > last, `inside` in it.
struct KeyRange {
  std::uint32_t low = 1;
  std::uint32_t last = 0;
  std::int32_t above = 0;
  std::int32_t inside = 0;
};

// Bins of 2^shift keys from `low` on, ascending; the last is open to `last`.
struct TopkBins {
  std::uint32_t low = 1;
  std::uint32_t last = 0;
  int shift = 0;

  VERSIEVE_HOST_DEVICE bool holds(std::uint32_t key) const { return key - low <= last - low; }
  // REQUIRES: holds(key).
  VERSIEVE_HOST_DEVICE int bin_of(std::uint32_t key) const {
    const std::uint32_t bin = (key - low) >> shift;
    return bin < kTopkBins ? static_cast<int>(bin) : kTopkBins - 1;
  }
  // First and last key of a bin that holds scores.
  VERSIEVE_HOST_DEVICE std::uint32_t low_of(int bin) const {
    return low + (static_cast<std::uint32_t>(bin) << shift);
  }
  VERSIEVE_HOST_DEVICE std::uint32_t last_of(int bin) const {
    const std::uint32_t width = (1U << shift) - 1;
    const std::uint32_t first = low_of(bin);
    return bin == kTopkBins - 1 || last - first < width ? last : first + width;
  }
};

// Equal bins over [low, largest], the last open to `last`. From 1 to the last key of all and
// largest = last these are the keys' leading bits. REQUIRES: low <= largest <= last.
VERSIEVE_HOST_DEVICE inline TopkBins topk_bins(std::uint32_t low, std::uint32_t largest,
                                               std::uint32_t last) {
  TopkBins bins;
  bins.low = low;
  bins.last = last;
  while (((largest - low) >> bins.shift) >= static_cast<std::uint32_t>(kTopkBins)) {
    ++bins.shift;
  }
  return bins;
}

// How a threshold is guessed from scores spread over the row, 32 in each of some warps (gvr: 16).
// Of a sample of n an expected k n / length are among the k largest.
inline constexpr int kSampleWarps = 16;
inline constexpr int kSampleCount = 32 * kSampleWarps;
struct SampleRanks {
  int safe = 0;  // from the top of the sample: over k scores reach it, almost surely
  // The same as a rank in each warp, and the rank of that among the warps, both from 0.
  int in_warp = 0;
  int of_warps = 0;
  // In how many warps a sampled score reaches every believable threshold.
  int warps_reached = 0;
};
// REQUIRES: 1 <= k < length.
SampleRanks sample_ranks(std::int64_t length, std::int64_t k, int warps = kSampleWarps);

}  // namespace versieve::kernels
