// A short row over one block: which scores a warp owns, and what its warps share.
//
// The row is cut into 16-byte words from the boundary at or before its first score. Warp w owns the
// 32 kWords words from word 32 kWords w on; lane l holds every 32nd of them from the l-th on. So
// loads are wide and adjacent, and a warp's scores are all before the next warp's.
#pragma once

#include <cstdint>

#include "kernels/topk/bins.h"
#include "kernels/topk/params.h"
#include "kernels/topk/select_guess.cuh"
#include "kernels/topk/select_search.cuh"

namespace versieve::kernels {

inline constexpr int kShortThreads = 1024;
inline constexpr int kShortWarps = kShortThreads / 32;
inline constexpr int kShortCandidates = 128;  // ranked by all pairs
static_assert(kShortWarps == 32, "a lane holds what a warp says");

// What a warp tells the others at the end.
struct ShortCounts {
  std::int32_t above = 0;   // scores past the cut
  std::int32_t inside = 0;  // in it
};

struct alignas(16) ShortShared {
  std::uint32_t histogram[kTopkBins];
  uint2 extents[kShortWarps];                  // least and largest key of a warp
  std::int32_t bin_sums[kShortWarps];          // of 64 bins each
  std::uint64_t candidates[kShortCandidates];  // rank_of scores in the last bin
  std::uint64_t cut;                           // rank_of the last chosen candidate
  ShortCounts warp_counts[kShortWarps];
  std::int32_t candidate_count;
  std::int32_t staged_count;  // chosen scores
};

template <class T>
struct ShortRow {
  const T* row;  // [length]
  int length;
  int lead;  // positions before the row's first score, < kWordElements

  __device__ int index_of_word(int word) const { return word * kWordElements<T> - lead; }
};

// A thread's scores as keys; 0: no score there.
template <class T, int kItems>
struct ShortKeys {
  static constexpr int kWord = kWordElements<T>;
  static constexpr int kWords = kItems / kWord;
  std::uint32_t key[kItems];

  __device__ static int word_of(int w) {
    const int warp = static_cast<int>(threadIdx.x / 32);
    return (warp * kWords + w) * 32 + static_cast<int>(threadIdx.x % 32);
  }
  __device__ static int index_of_item(const ShortRow<T>& row, int i) {
    return row.index_of_word(word_of(i / kWord)) + i % kWord;
  }
  // Requests all whole words before the first is used; those that reach over an end of the row are
  // read score by score.
  __device__ void load(const ShortRow<T>& row) {
    uint4 raw[kWords];
#pragma unroll
    for (int w = 0; w < kWords; ++w) {
      const int i = row.index_of_word(word_of(w));
      raw[w] = {0, 0, 0, 0};
      if (i >= 0 && i + kWord <= row.length) {
        raw[w] = __ldg(reinterpret_cast<const uint4*>(row.row + i));
      }
    }
#pragma unroll
    for (int w = 0; w < kWords; ++w) {
      const int i = row.index_of_word(word_of(w));
      const bool whole = i >= 0 && i + kWord <= row.length;
#pragma unroll
      for (int e = 0; e < kWord; ++e) {
        std::uint32_t its = whole ? select_key(element_of_word<T>(raw[w], e)) : 0;
        if (!whole && i + e >= 0 && i + e < row.length) {
          its = select_key(row.row[i + e]);
        }
        key[w * kWord + e] = its;
      }
    }
  }
};

// Bins of equal width in the scores themselves, or, where all are positive and over a wide range
// (as attention's weights are), in their keys, nearly their logarithms: either is far more even
// than the leading bits. Monotone in the key, so that a bin is a range of keys; scores outside go
// to the end bins.
struct ValueBins {
  std::uint32_t low_key = 0;
  bool by_key = false;
  float low = 0.0F;
  float scale = 0.0F;

  template <class T>
  __device__ static float position_of(std::uint32_t key, bool by_key) {
    constexpr int kDropped = sizeof(T) == 4 ? 8 : 0;  // what is left fits 2^23
    constexpr std::uint32_t kMagnitude = sizeof(T) == 4 ? 0x7FFFFFFFU : 0x7FFFU;
    return by_key ? __uint_as_float(0x4B000000U | (key & kMagnitude) >> kDropped)
                  : score_of_key<T>(key);
  }
  template <class T>
  __device__ int bin_of(std::uint32_t key) const {
    constexpr float kShift = 8388608.0F;  // 2^23: the integer stands in the low bits
    const float position = position_of<T>(max(key, low_key), by_key);
    const float place =
        fminf(__fmaf_rn(position - low, scale, kShift), kShift + static_cast<float>(kTopkBins - 1));
    return static_cast<int>(__float_as_uint(place) - 0x4B000000U);
  }
};

// From `least` to `most`. Ranges without a usable width have all finite scores in one bin.
template <class T>
__device__ inline ValueBins value_bins(std::uint32_t least, std::uint32_t most) {
  constexpr float kWide = 16.0F;
  constexpr float kOctaves = 0x1p-32F;  // of the largest: smaller ones share the lowest bin
  constexpr std::uint32_t kSign = sizeof(T) == 4 ? 0x80000000U : 0x8000U;
  constexpr int kUnused = sizeof(T) == 4 ? 0 : 16;
  constexpr float kLargest = 3.0e38F;
  const float high = fminf(score_of_key<T>(most), kLargest);
  ValueBins bins;
  bins.low_key = least;
  bins.by_key = least >= kSign && high > kWide * score_of_key<T>(least);
  if (bins.by_key) {
    bins.low_key = max(least, __float_as_uint(high * kOctaves) >> kUnused | kSign);
  }
  bins.low = ValueBins::position_of<T>(bins.low_key, bins.by_key);
  const float end = bins.by_key ? ValueBins::position_of<T>(most, true) : high;
  const float scale = static_cast<float>(kTopkBins - 1) / (end - bins.low);
  bins.scale = scale > 0.0F && scale < 1e38F ? scale : 0.0F;
  return bins;
}

// Completes the histogram: each warp adds up its 64 bins. Synchronises the block.
__device__ inline void sum_bins(ShortShared& shared) {
  __syncthreads();
  const uint2 pair = reinterpret_cast<const uint2*>(shared.histogram)[threadIdx.x];
  const int sum = static_cast<int>(__reduce_add_sync(kAllLanes, pair.x + pair.y));
  if (threadIdx.x % 32 == 0) {
    shared.bin_sums[threadIdx.x / 32] = sum;
  }
  __syncthreads();
}

// The bin in which the running sum from the top reaches `wanted`, after sum_bins; every warp finds
// the same.
struct ShortBin {
  int bin;
  int above;   // scores in higher bins
  int inside;  // in this one
};
__device__ inline ShortBin find_bin(int wanted, const ShortShared& shared) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  const Reached coarse = reach(shared.bin_sums[31 - lane], wanted);
  const uint2 pair =
      reinterpret_cast<const uint2*>(shared.histogram)[(31 - coarse.lane) * 32 + 31 - lane];
  const Reached two = reach(static_cast<int>(pair.x + pair.y), wanted - coarse.before);
  const int upper = __shfl_sync(kAllLanes, static_cast<int>(pair.y), two.lane);
  const int lower = __shfl_sync(kAllLanes, static_cast<int>(pair.x), two.lane);
  const int before = coarse.before + two.before;
  const bool in_upper = before + upper >= wanted;
  return {(31 - coarse.lane) * 64 + 2 * (31 - two.lane) + (in_upper ? 1 : 0),
          before + (in_upper ? 0 : upper), in_upper ? upper : lower};
}

__device__ inline void clear_bins(ShortShared& shared) {
  reinterpret_cast<uint2*>(shared.histogram)[threadIdx.x] = {0, 0};
}

// Counts a thread's scores of which `bin_of(key)` is not negative; equal neighbours at once.
template <int kItems, class BinOf>
__device__ inline void count_bins(const std::uint32_t (&key)[kItems], BinOf bin_of,
                                  ShortShared& shared) {
  int run_bin = -1;
  std::uint32_t run = 0;
#pragma unroll
  for (int i = 0; i < kItems; ++i) {
    const int bin = bin_of(key[i]);
    if (bin != run_bin) {
      if (run_bin >= 0) {
        atomicAdd(&shared.histogram[run_bin], run);
      }
      run_bin = bin;
      run = 0;
    }
    ++run;
  }
  if (run_bin >= 0) {
    atomicAdd(&shared.histogram[run_bin], run);
  }
}

}  // namespace versieve::kernels
