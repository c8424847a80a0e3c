// A short row over one block, or a cluster of few: which scores a warp owns, and what blocks share.
//
// The row is cut into 16-byte words from the boundary at or before its first score. Warp w, counted
// over the row's blocks, owns the 32 kWords words from word 32 kWords w on; lane l holds every 32nd
// of them from the l-th on. So loads are wide and adjacent, and a warp's scores are all before the
// next warp's.
#pragma once

#include <cooperative_groups.h>

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

inline constexpr int kShortBlocks = 8;  // of a row, at most

// What the host fixed for a launch.
struct ShortPlan {
  int sample_rank = -1;   // in a warp's sample, of the guess; -1: no guess, all scores counted
  int rank_of_warps = 0;  // of that among the warps
};

// What a block tells the row's others at the end.
struct ShortCounts {
  std::int32_t above = 0;   // scores past the cut
  std::int32_t inside = 0;  // in it
};

struct alignas(16) ShortShared {
  std::uint32_t histogram[kTopkBins];                 // of this block
  std::uint32_t fine_part[kShortBlocks][64];          // 64 bins that the k-th is in, a block each
  uint2 extents[kShortBlocks * kShortWarps];          // least and largest key, a warp of the row
  std::int32_t bin_sums[kShortBlocks * kShortWarps];  // of 64 bins each, by block
  std::uint64_t own_list[kShortCandidates];           // rank_of scores in the last bin
  std::uint64_t candidates[kShortCandidates];         // of all blocks
  std::uint64_t cut;                                  // rank_of the last chosen candidate
  ShortCounts warp_counts[kShortWarps];
  ShortCounts counts;
  std::uint32_t warp_sample[kShortWarps];
  std::uint32_t threshold;
  std::int32_t list_count;    // of own_list
  std::int32_t staged_count;  // chosen by this block
};

// The blocks of a row. kAlone: one, and meeting is the block's barrier.
template <bool kAlone>
struct ShortTeam {
  cooperative_groups::cluster_group cluster = cooperative_groups::this_cluster();

  __device__ int size() const { return kAlone ? 1 : static_cast<int>(cluster.num_blocks()); }
  __device__ int rank() const { return kAlone ? 0 : static_cast<int>(cluster.block_rank()); }
  __device__ void meet() const {
    if constexpr (kAlone) {
      __syncthreads();
    } else {
      cluster.sync();
    }
  }
  // Where `own` lies in that block's shared memory.
  template <class E>
  __device__ E* of_block(E* own, int block) const {
    if constexpr (kAlone) {
      return own;
    } else {
      return cluster.map_shared_rank(own, static_cast<unsigned>(block));
    }
  }
};

template <class T>
struct ShortRow {
  const T* row;  // [length]
  int length;
  int lead;        // positions before the row's first score, < kWordElements
  int first_warp;  // of this block, counted over the row's

  __device__ int index_of_word(int word) const { return word * kWordElements<T> - lead; }
};

// A thread's scores as keys; 0: no score there.
template <class T, int kItems>
struct ShortKeys {
  static constexpr int kWord = kWordElements<T>;
  static constexpr int kWords = kItems / kWord;
  std::uint32_t key[kItems];

  // One score of each thread's, from words all over the warp's part.
  __device__ std::uint32_t sampled() const {
    std::uint32_t left[kWords];
#pragma unroll
    for (int w = 0; w < kWords; ++w) {
      left[w] = key[w * kWord];
    }
#pragma unroll
    for (int half = kWords / 2; half > 0; half /= 2) {
      const bool upper = (threadIdx.x & static_cast<unsigned>(half)) != 0;
#pragma unroll
      for (int w = 0; w < half; ++w) {
        left[w] = upper ? left[w + half] : left[w];
      }
    }
    return left[0];
  }
  __device__ static int word_of(const ShortRow<T>& row, int w) {
    const int warp = row.first_warp + static_cast<int>(threadIdx.x / 32);
    return (warp * kWords + w) * 32 + static_cast<int>(threadIdx.x % 32);
  }
  __device__ static int index_of_item(const ShortRow<T>& row, int i) {
    return row.index_of_word(word_of(row, i / kWord)) + i % kWord;
  }
  // Requests all whole words before the first is used; those that reach over an end of the row are
  // read score by score.
  __device__ void load(const ShortRow<T>& row) {
    uint4 raw[kWords];
#pragma unroll
    for (int w = 0; w < kWords; ++w) {
      const int i = row.index_of_word(word_of(row, w));
      raw[w] = {0, 0, 0, 0};
      if (i >= 0 && i + kWord <= row.length) {
        raw[w] = __ldg(reinterpret_cast<const uint4*>(row.row + i));
      }
    }
#pragma unroll
    for (int w = 0; w < kWords; ++w) {
      const int i = row.index_of_word(word_of(row, w));
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

// Completes the histograms: each warp tells all blocks the sum of its 64 bins. The blocks meet.
template <bool kAlone>
__device__ inline void sum_bins(const ShortTeam<kAlone>& team, ShortShared& shared) {
  __syncthreads();
  const int lane = static_cast<int>(threadIdx.x % 32);
  const uint2 pair = reinterpret_cast<const uint2*>(shared.histogram)[threadIdx.x];
  const int sum = static_cast<int>(__reduce_add_sync(kAllLanes, pair.x + pair.y));
  if (lane < team.size()) {
    *team.of_block(&shared.bin_sums[team.rank() * kShortWarps + static_cast<int>(threadIdx.x / 32)],
                   lane) = sum;
  }
  team.meet();
}

// The bin in which the running sum from the top reaches `wanted`, after sum_bins; every warp of
// every block finds the same. Synchronises the block if there are others.
struct ShortBin {
  int bin;
  int above;   // scores in higher bins
  int inside;  // in this one
};
template <bool kAlone>
__device__ inline ShortBin find_bin(const ShortTeam<kAlone>& team, int wanted,
                                    ShortShared& shared) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int warp = static_cast<int>(threadIdx.x / 32);
  int count = 0;
  for (int block = 0; block < team.size(); ++block) {
    count += shared.bin_sums[block * kShortWarps + 31 - lane];
  }
  const int total = __reduce_add_sync(kAllLanes, count);
  if (total < wanted) {
    return {-1, total, 0};
  }
  const Reached coarse = reach(count, wanted);
  const int pair_at = (31 - coarse.lane) * 32 + 31 - lane;
  uint2 pair = {0, 0};
  if constexpr (kAlone) {
    pair = reinterpret_cast<const uint2*>(shared.histogram)[pair_at];
  } else {
    if (warp < team.size()) {
      reinterpret_cast<uint2*>(shared.fine_part[warp])[31 - lane] =
          reinterpret_cast<const uint2*>(team.of_block(shared.histogram, warp))[pair_at];
    }
    __syncthreads();
    for (int block = 0; block < team.size(); ++block) {
      const uint2 part = reinterpret_cast<const uint2*>(shared.fine_part[block])[31 - lane];
      pair = {pair.x + part.x, pair.y + part.y};
    }
  }
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
