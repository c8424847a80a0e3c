// The bins of one counting pass over a row, and what is known of the k-th largest between passes.
// Keys are those of order_key.h plus 1 for NaN, so that 0 stands for "no score". Used by device
// code and by tests.
#pragma once

#include <cstdint>

#include "kernels/topk/order_key.h"

namespace versieve::kernels {

inline constexpr int kTopkBins = 2048;
inline constexpr int kGuessedLowBins = 512;  // of a guessed pass, below its pivot

// The k-th largest has its key in [low, last]; `above` scores have a key > last, `inside` in it.
struct KeyRange {
  std::uint32_t low = 1;
  std::uint32_t last = 0;
  std::int32_t above = 0;
  std::int32_t inside = 0;
};

// Bins ascend with the key and cover [low, last]: `split` bins of 2^low_shift keys below the pivot,
// bins of 2^high_shift keys from it on, the last bin open to `last`.
struct TopkBins {
  std::uint32_t low = 1;
  std::uint32_t pivot = 1;
  std::uint32_t last = 0;
  int split = 0;
  int low_shift = 0;
  int high_shift = 0;

  VERSIEVE_HOST_DEVICE bool holds(std::uint32_t key) const { return key - low <= last - low; }
  // REQUIRES: holds(key).
  VERSIEVE_HOST_DEVICE int bin_of(std::uint32_t key) const {
    if (key < pivot) {
      return static_cast<int>((key - low) >> low_shift);
    }
    const std::uint32_t bin = static_cast<std::uint32_t>(split) + ((key - pivot) >> high_shift);
    return bin < kTopkBins ? static_cast<int>(bin) : kTopkBins - 1;
  }
  // First and last key of a bin that holds scores.
  VERSIEVE_HOST_DEVICE std::uint32_t low_of(int bin) const {
    return bin < split ? low + (static_cast<std::uint32_t>(bin) << low_shift)
                       : pivot + (static_cast<std::uint32_t>(bin - split) << high_shift);
  }
  VERSIEVE_HOST_DEVICE std::uint32_t last_of(int bin) const {
    if (bin == kTopkBins - 1) {
      return last;
    }
    const std::uint32_t most = bin < split ? pivot - 1 : last;
    const std::uint32_t width = (1U << (bin < split ? low_shift : high_shift)) - 1;
    const std::uint32_t first = low_of(bin);
    return most - first < width ? most : first + width;
  }
};

// The least shift that maps [0, span] into `count` bins.
VERSIEVE_HOST_DEVICE inline int shift_for(std::uint32_t span, int count) {
  int shift = 0;
  while ((span >> shift) >= static_cast<std::uint32_t>(count)) {
    ++shift;
  }
  return shift;
}

// Radix: equal bins over the range. Over all keys these are their leading bits.
VERSIEVE_HOST_DEVICE inline TopkBins uniform_bins(const KeyRange& range) {
  TopkBins bins;
  bins.low = range.low;
  bins.pivot = range.low;
  bins.last = range.last;
  bins.high_shift = shift_for(range.last - range.low, kTopkBins);
  return bins;
}

// Guess: fine bins from `pivot` (a low quantile of the hinted keys) to their largest, more from a
// little under their least to the pivot, so that one stray hint does not widen all of them.
// REQUIRES: 1 <= least <= pivot <= largest <= range.last.
VERSIEVE_HOST_DEVICE inline TopkBins guessed_bins(const KeyRange& range, std::uint32_t least,
                                                  std::uint32_t pivot, std::uint32_t largest) {
  const std::uint32_t margin = (pivot - least) / 4;
  TopkBins bins;
  bins.low = margin < least ? least - margin : 1;
  bins.pivot = pivot;
  bins.last = range.last;
  bins.split = kGuessedLowBins;
  bins.low_shift = shift_for(pivot - bins.low, kGuessedLowBins);
  bins.high_shift = shift_for(largest - pivot, kTopkBins - kGuessedLowBins);
  return bins;
}

}  // namespace versieve::kernels
