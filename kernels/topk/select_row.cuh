// A row over a cluster: which scores a block owns, their keys in registers, and the hinted keys'
// spread. A block owns consecutive 16-byte words of the row; thread t holds words t, t + 512, ...
// of them, so that loads are wide and the words of a warp adjacent.
#pragma once

#include <cooperative_groups.h>

#include <cstdint>

#include "kernels/common/device_element.cuh"
#include "kernels/topk/bins.h"
#include "kernels/topk/params.h"
#include "kernels/topk/ranked_element.cuh"

namespace versieve::kernels {

inline constexpr int kSelectThreads = 512;
inline constexpr int kSelectWarps = kSelectThreads / 32;
inline constexpr int kMaxCluster = 16;
inline constexpr int kCoarseBins = 64;  // of 32 bins each
inline constexpr int kMaxCandidates = 256;
inline constexpr int kMaxMapWords = kSelectThreads;  // 32 scores a thread
inline constexpr unsigned kAllLanes = 0xFFFFFFFFU;

// What a block tells the others at the end.
struct SelectCounts {
  std::int32_t above = 0;       // scores past the range
  std::int32_t equal = 0;       // scores with the cut's key, where it is known
  std::int32_t candidates = 0;  // else scores inside the range, listed
  std::int32_t padding = 0;
};

struct alignas(16) SelectShared {
  std::uint32_t histogram[2][kTopkBins];     // of this block, by turns
  std::uint32_t coarse_sum[2][kCoarseBins];  // of the cluster, added by all its blocks
  std::uint32_t fine_part[kMaxCluster][32];  // bins of one coarse bin, a block each
  std::uint32_t above_map[kMaxMapWords];     // a bit a score: chosen
  std::uint32_t equal_map[kMaxMapWords];     // a bit a score: equal to the cut
  std::uint64_t own_list[kMaxCandidates];    // rank_of scores inside the range
  std::uint64_t list[kMaxCandidates];        // of all blocks
  std::uint8_t owner[kMaxCandidates];        // whose they are
  SelectCounts counts;
  std::int32_t chosen_before;  // candidates of earlier blocks that are chosen
  std::uint32_t warp_least[kSelectWarps];
  std::uint32_t warp_largest[kSelectWarps];
  std::int32_t scan[kSelectWarps];
};

// A block's part of its row, in positions from the 16-byte boundary at or before the row's start.
template <class T>
struct RowPart {
  const T* row;  // [length]
  int length;
  int lead;            // positions before the row's first score, < kWordElements
  int first_position;  // of this block's part; the score at position x has index x - lead
  int word_count;      // of this block's part
};

template <class T>
__device__ inline RowPart<T> row_part(const TopkParams<T>& p, std::int64_t row, int rank,
                                      int blocks) {
  constexpr int kWord = kWordElements<T>;
  RowPart<T> part;
  part.row = p.scores + row * p.length;
  part.length = static_cast<int>(p.length);
  part.lead = static_cast<int>(reinterpret_cast<std::uintptr_t>(part.row) % 16 / sizeof(T));
  const int words = (part.lead + part.length + kWord - 1) / kWord;
  const int share = (words + blocks - 1) / blocks;
  const int first = min(rank * share, words);
  part.first_position = first * kWord;
  part.word_count = min(share, words - first);
  return part;
}

// order_key, with 1 for NaN: 0 is no score.
template <class T>
__device__ inline std::uint32_t select_key(T score) {
  const std::uint32_t key = order_key<T>(bits_of(score));
  return key == 0 ? 1 : key;
}

template <class T>
__device__ inline T element_of_word(const uint4& word, int e) {
  const std::uint32_t quarter[4] = {word.x, word.y, word.z, word.w};
  if constexpr (sizeof(T) == 4) {
    return __uint_as_float(quarter[e]);
  } else {
    return T{static_cast<std::uint16_t>(quarter[e / 2] >> (e % 2 * 16))};
  }
}

// Keys of a thread's words: all whole words are requested before the first is used; words that
// reach over an end of the row are read score by score.
template <class T, int kItems>
struct OwnKeys {
  static constexpr int kWord = kWordElements<T>;
  static constexpr int kWords = kItems / kWord;
  std::uint32_t key[kItems];  // word by word

  __device__ static int position(int word) {  // in the block's part
    return (word * kSelectThreads + static_cast<int>(threadIdx.x)) * kWord;
  }

  __device__ void request(const RowPart<T>& part, uint4 (&raw)[kWords]) {
#pragma unroll
    for (int w = 0; w < kWords; ++w) {
      if (whole(part, w)) {
        raw[w] = __ldg(reinterpret_cast<const uint4*>(part.row + index(part, w)));
      }
    }
  }
  __device__ void convert(const RowPart<T>& part, const uint4 (&raw)[kWords]) {
#pragma unroll
    for (int w = 0; w < kWords; ++w) {
      const bool is_whole = whole(part, w);
#pragma unroll
      for (int e = 0; e < kWord; ++e) {
        key[w * kWord + e] = is_whole ? select_key(element_of_word<T>(raw[w], e)) : 0;
      }
      if (!is_whole && mine(part, w)) {
#pragma unroll
        for (int e = 0; e < kWord; ++e) {
          const int i = index(part, w) + e;
          key[w * kWord + e] = i >= 0 && i < part.length ? select_key(part.row[i]) : 0;
        }
      }
    }
  }

 private:
  __device__ static bool mine(const RowPart<T>& part, int word) {
    return word * kSelectThreads + static_cast<int>(threadIdx.x) < part.word_count;
  }
  __device__ static int index(const RowPart<T>& part, int word) {
    return part.first_position + position(word) - part.lead;
  }
  __device__ static bool whole(const RowPart<T>& part, int word) {
    const int i = index(part, word);
    return mine(part, word) && i >= 0 && i + kWord <= part.length;
  }
};

// At most one hint a thread: entries evenly over the row of hints, neighbours in different warps.
// -1 where there is none.
template <class T>
__device__ inline std::int32_t own_hint(const TopkParams<T>& p, std::int64_t row) {
  const int sample = p.k < kSelectThreads ? static_cast<int>(p.k) : kSelectThreads;
  const int order =
      static_cast<int>(threadIdx.x % 32) * kSelectWarps + static_cast<int>(threadIdx.x / 32);
  if (p.hint == nullptr || order >= sample) {
    return -1;
  }
  return __ldg(p.hint + row * p.k + order * p.k / sample);
}

// Bins from the hinted scores: the pivot is the lower quartile of the warps' least keys. All blocks
// of a row see the same hints and agree. Hints that tell nothing (none, or one key) leave
// the radix bins. Synchronises the block.
template <class T>
__device__ inline TopkBins first_bins(const RowPart<T>& part, std::int32_t hint,
                                      const KeyRange& range, SelectShared& shared) {
  const bool valid = hint >= 0 && hint < part.length;
  const std::uint32_t key = valid ? select_key(part.row[hint]) : 0;
  const std::uint32_t least = __reduce_min_sync(kAllLanes, valid ? key : kAllLanes);
  const std::uint32_t largest = __reduce_max_sync(kAllLanes, key);
  const unsigned lane = threadIdx.x % 32;
  if (lane == 0) {
    shared.warp_least[threadIdx.x / 32] = least;
    shared.warp_largest[threadIdx.x / 32] = largest;
  }
  __syncthreads();
  std::uint32_t left = lane < kSelectWarps ? shared.warp_least[lane] : kAllLanes;
  const std::uint32_t row_largest =
      __reduce_max_sync(kAllLanes, lane < kSelectWarps ? shared.warp_largest[lane] : 0);
  const int groups = __popc(__ballot_sync(kAllLanes, left != kAllLanes));
  const std::uint32_t row_least = __reduce_min_sync(kAllLanes, left);
  if (groups == 0 || row_least == row_largest) {
    return uniform_bins(range);
  }
  std::uint32_t pivot = row_least;
  for (int taken = 0; taken <= groups / 4; ++taken) {  // the (groups / 4 + 1)-th smallest
    pivot = __reduce_min_sync(kAllLanes, left);
    const unsigned holders = __ballot_sync(kAllLanes, left == pivot);
    if (lane == static_cast<unsigned>(__ffs(static_cast<int>(holders)) - 1)) {
      left = kAllLanes;
    }
  }
  return guessed_bins(range, row_least, pivot, row_largest);
}

}  // namespace versieve::kernels
