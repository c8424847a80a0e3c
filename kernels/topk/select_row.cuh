// A row over a cluster: which scores a block owns, in shared memory what its blocks count and
// exchange, and a thread's scores in registers. A block owns consecutive 16-byte words of the row;
// it goes through them in chunks of kItems scores a thread, thread t holding words t, t + 512, ...
// of a chunk, so that loads are wide and the words of a warp adjacent.
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
inline constexpr unsigned kAllLanes = 0xFFFFFFFFU;
static_assert(kSampleCount == kSelectThreads, "one sampled score a thread");

// What the host fixed for a launch.
struct SelectPlan {
  int map_words = 0;         // 32 positions each: a block's share of the row
  int list_room = 0;         // scores that a block's list takes; 0: no guess, the leading bits
  SampleRanks sample;        // of the guess
  bool looks_at_all = true;  // at all hints: k <= 512
};

// What a block tells the others at the end.
struct SelectCounts {
  std::int32_t above = 0;       // scores past the range
  std::int32_t equal = 0;       // scores with the cut's key, where it is known
  std::int32_t candidates = 0;  // else scores inside the range, listed
  std::int32_t padding = 0;
};

struct alignas(16) SelectShared {
  std::uint32_t histogram[2][kTopkBins];     // of this block, by turns; at the end places
  std::uint32_t coarse_sum[2][kCoarseBins];  // of the cluster, added by all its blocks
  std::uint32_t fine_part[kMaxCluster][32];  // bins of one coarse bin, a block each
  std::uint64_t own_list[kMaxCandidates];    // rank_of scores inside the range
  std::uint64_t gathered[kMaxCandidates];    // of all blocks
  std::uint8_t owner[kMaxCandidates];        // whose they are
  SelectCounts counts;
  std::int32_t chosen_before;  // candidates of earlier blocks that are chosen
  std::int32_t list_count;     // entries of `list`, or more than its room
  std::int32_t overflows;      // blocks of the cluster whose list is too small
  alignas(16) std::uint32_t warp_safe[kSelectWarps];  // of the sample, see SampleRanks
  std::uint32_t warp_most[kSelectWarps];
  std::uint32_t warp_least_hint[kSelectWarps];
  std::uint32_t warp_largest_hint[kSelectWarps];
  std::int32_t scan[kSelectWarps];
};

// The launch's shared memory: the fixed part, then arrays that the plan sizes.
struct SelectMemory {
  SelectShared& fixed;
  std::uint64_t* list;       // [list_room]: rank_of scores that reach the guess
  std::uint32_t* above_map;  // [map_words]: a bit a position: chosen
  std::uint32_t* equal_map;  // [map_words]: equal to the cut
};
inline constexpr std::size_t select_shared_bytes(int map_words, int list_room) {
  return sizeof(SelectShared) + 8 * static_cast<std::size_t>(list_room + map_words);
}

// A block's part of its row, in positions from the 16-byte boundary at or before its first score.
template <class T>
struct RowPart {
  const T* row;  // [length]
  int length;
  int lead;            // positions before the row's first score, < kWordElements
  int first_position;  // of this block's part; the score at position x of it has index `index_at`
  int word_count;      // of this block's part

  __device__ int index_at(int position) const { return first_position + position - lead; }
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

// order_key, but 1 for NaN: 0 is no score.
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

// One chunk of a thread: its scores as loaded, and their keys on request.
template <class T, int kItems>
struct OwnScores {
  static constexpr int kWord = kWordElements<T>;
  static constexpr int kWords = kItems / kWord;
  uint4 raw[kWords];
  int chunk;

  __device__ static int chunks(const RowPart<T>& part) {
    return (part.word_count + kWords * kSelectThreads - 1) / (kWords * kSelectThreads);
  }
  // Of a word's first score, in the block's part.
  __device__ int position(int word) const {
    return ((chunk * kWords + word) * kSelectThreads + static_cast<int>(threadIdx.x)) * kWord;
  }

  // Requests all whole words before the first is used.
  __device__ void load(const RowPart<T>& part, int which) {
    chunk = which;
#pragma unroll
    for (int w = 0; w < kWords; ++w) {
      raw[w] = {kAllLanes, kAllLanes, kAllLanes, kAllLanes};  // NaN
      if (whole(part, w)) {
        raw[w] = __ldg(reinterpret_cast<const uint4*>(part.row + part.index_at(position(w))));
      }
    }
  }
  // Words that reach over an end of the row hold NaN; this one's scores are read one by one.
  __device__ bool partial(const RowPart<T>& part, int w) const {
    return position(w) < part.word_count * kWord && !whole(part, w);
  }
  // 0 where there is no score.
  __device__ std::uint32_t partial_key(const RowPart<T>& part, int w, int e) const {
    const int i = part.index_at(position(w)) + e;
    return i >= 0 && i < part.length ? select_key(part.row[i]) : 0;
  }
  __device__ void keys(const RowPart<T>& part, std::uint32_t (&key)[kItems]) const {
#pragma unroll
    for (int w = 0; w < kWords; ++w) {
      const bool is_whole = whole(part, w);
#pragma unroll
      for (int e = 0; e < kWord; ++e) {
        key[w * kWord + e] = is_whole ? select_key(element_of_word<T>(raw[w], e)) : 0;
      }
      if (partial(part, w)) {
#pragma unroll
        for (int e = 0; e < kWord; ++e) {
          key[w * kWord + e] = partial_key(part, w, e);
        }
      }
    }
  }

 private:
  __device__ bool whole(const RowPart<T>& part, int word) const {
    const int i = part.index_at(position(word));
    return position(word) < part.word_count * kWord && i >= 0 && i + kWord <= part.length;
  }
};

}  // namespace versieve::kernels
