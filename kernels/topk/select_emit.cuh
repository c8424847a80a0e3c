// The end of a row: marks what is chosen, one bit a score, ranks the few candidates inside the
// range exactly or takes the lowest indices of a plateau, and writes indices in ascending order.
#pragma once

#include "kernels/common/block_reduce.cuh"
#include "kernels/topk/select_row.cuh"

namespace versieve::kernels {

// Adds a warp's counts to the block's.
__device__ inline void add_counts(int above, int equal, SelectShared& shared) {
  above = __reduce_add_sync(kAllLanes, above);
  equal = __reduce_add_sync(kAllLanes, equal);
  if (threadIdx.x % 32 == 0 && above > 0) {
    atomicAdd(&shared.counts.above, above);
  }
  if (threadIdx.x % 32 == 0 && equal > 0) {
    atomicAdd(&shared.counts.equal, equal);
  }
}

// A score inside the range: to the candidates' list, or its bit in equal_map.
__device__ inline int keep_inside(std::uint32_t key, int index, int position, bool lists,
                                  const SelectMemory& memory) {
  if (!lists) {
    atomicOr(&memory.equal_map[position / 32], 1U << (position % 32));
    return 1;
  }
  memory.fixed.own_list[atomicAdd(&memory.fixed.counts.candidates, 1)] =
      rank_of(key, static_cast<std::uint32_t>(index));
  return 0;
}

// Marks a chunk's scores by their keys: bits in above_map for keys > last, the others in the range
// kept. Counts are added to fixed.counts.
template <class T, int kItems>
__device__ inline void mark_own(const OwnScores<T, kItems>& own, const std::uint32_t (&key)[kItems],
                                const RowPart<T>& part, const KeyRange& range, bool lists,
                                const SelectMemory& memory) {
  using Own = OwnScores<T, kItems>;
  int above_count = 0;
  int equal_count = 0;
#pragma unroll
  for (int w = 0; w < Own::kWords; ++w) {
    const int position = own.position(w);
    std::uint32_t above = 0;
#pragma unroll
    for (int e = 0; e < Own::kWord; ++e) {
      const std::uint32_t its = key[w * Own::kWord + e];
      if (its > range.last) {
        above |= 1U << e;
      } else if (its >= range.low) {
        equal_count += keep_inside(its, part.index_at(position + e), position + e, lists, memory);
      }
    }
    if (above != 0) {
      atomicOr(&memory.above_map[position / 32], above << (position % 32));
      above_count += __popc(above);
    }
  }
  add_counts(above_count, equal_count, memory.fixed);
}

// The same of a list that holds all that reach the range.
template <class T>
__device__ inline void mark_list(int count, const RowPart<T>& part, const KeyRange& range,
                                 bool lists, const SelectMemory& memory) {
  int above_count = 0;
  int equal_count = 0;
  for (int i = static_cast<int>(threadIdx.x); i < count; i += kSelectThreads) {
    const std::uint64_t rank = memory.list[i];
    const std::uint32_t key = static_cast<std::uint32_t>(rank >> 32);
    const int index = index_of(rank);
    const int position = index + part.lead - part.first_position;
    if (key > range.last) {
      atomicOr(&memory.above_map[position / 32], 1U << (position % 32));
      ++above_count;
    } else if (key >= range.low) {
      equal_count += keep_inside(key, index, position, lists, memory);
    }
  }
  add_counts(above_count, equal_count, memory.fixed);
}

// Sums over the blocks before a block, and over all.
struct CountsBefore {
  SelectCounts own;
  SelectCounts all;
};

// After the cluster's barrier; every warp adds up the same.
__device__ inline int4 counts_of_lane(const cooperative_groups::cluster_group& cluster,
                                      SelectShared& shared) {
  const unsigned lane = threadIdx.x % 32;
  return lane < cluster.num_blocks()
             ? *reinterpret_cast<const int4*>(cluster.map_shared_rank(&shared.counts, lane))
             : int4{0, 0, 0, 0};
}
__device__ inline SelectCounts sum_of_lanes(const int4& counts, unsigned end) {
  const bool in = threadIdx.x % 32 < end;
  return {.above = __reduce_add_sync(kAllLanes, in ? counts.x : 0),
          .equal = __reduce_add_sync(kAllLanes, in ? counts.y : 0),
          .candidates = __reduce_add_sync(kAllLanes, in ? counts.z : 0)};
}
__device__ inline CountsBefore sum_counts(const cooperative_groups::cluster_group& cluster,
                                          SelectShared& shared) {
  const int4 counts = counts_of_lane(cluster, shared);
  return {sum_of_lanes(counts, cluster.block_rank()), sum_of_lanes(counts, 32)};
}

// The same, and warp b copies block b's `list` behind those of the blocks before it. The block is
// to be synchronised before `gathered` is read. REQUIRES: at most kMaxCandidates in all.
__device__ inline CountsBefore gather_lists(const cooperative_groups::cluster_group& cluster,
                                            std::uint64_t* list, SelectShared& shared) {
  const unsigned warp = threadIdx.x / 32;
  const int4 counts = counts_of_lane(cluster, shared);
  const int start = sum_of_lanes(counts, warp).candidates;
  const int count = __shfl_sync(kAllLanes, counts.z, static_cast<int>(warp));
  if (warp < cluster.num_blocks()) {
    const std::uint64_t* theirs = cluster.map_shared_rank(list, warp);
    for (int i = static_cast<int>(threadIdx.x % 32); i < count; i += 32) {
      shared.gathered[start + i] = theirs[i];
      shared.owner[start + i] = static_cast<std::uint8_t>(warp);
    }
  }
  return {sum_of_lanes(counts, cluster.block_rank()), sum_of_lanes(counts, 32)};
}

// Of the gathered candidates, the `wanted` highest are chosen: this block's get their bit, those of
// earlier blocks are counted. REQUIRES: chosen_before is 0. Synchronises the block before and
// after.
template <class T>
__device__ inline void choose_candidates(const RowPart<T>& part, unsigned rank, int count,
                                         int wanted, const SelectMemory& memory) {
  __syncthreads();
  SelectShared& shared = memory.fixed;
  const int i = static_cast<int>(threadIdx.x);
  if (i < count) {
    const std::uint64_t own = shared.gathered[i];
    int higher = 0;
    for (int other = 0; other < count; ++other) {
      higher += shared.gathered[other] > own ? 1 : 0;
    }
    const unsigned owner = shared.owner[i];
    if (higher < wanted && owner == rank) {
      const int position = index_of(own) + part.lead - part.first_position;
      atomicOr(&memory.above_map[position / 32], 1U << (position % 32));
    } else if (higher < wanted && owner < rank) {
      atomicAdd(&shared.chosen_before, 1);
    }
  }
  __syncthreads();
}

// The words [first, end) of the maps that a thread handles, in the order of threads.
struct OwnWords {
  int first;
  int end;
};
__device__ inline OwnWords own_words(int map_words) {
  const int share = (map_words + kSelectThreads - 1) / kSelectThreads;
  const int first = min(static_cast<int>(threadIdx.x) * share, map_words);
  return {first, min(first + share, map_words)};
}
__device__ inline int count_bits(const std::uint32_t* map, const OwnWords& words) {
  int count = 0;
  for (int w = words.first; w < words.end; ++w) {
    count += __popc(map[w]);
  }
  return count;
}

// Of this block's plateau the `quota` lowest indices join above_map. Synchronises the block before.
__device__ inline void choose_equals(int quota, int map_words, const SelectMemory& memory) {
  __syncthreads();
  const OwnWords words = own_words(map_words);
  const int count = count_bits(memory.equal_map, words);
  int left = quota - block_scan<kSelectThreads>(count, memory.fixed.scan).before;
  for (int w = words.first; w < words.end && left > 0; ++w) {
    std::uint32_t bits = memory.equal_map[w];
    while (__popc(bits) > left) {
      bits &= ~(0x80000000U >> __clz(static_cast<int>(bits)));
    }
    memory.above_map[w] |= bits;
    left -= __popc(bits);
  }
}

template <class T>
__device__ inline T minus_infinity_score();
template <>
__device__ inline float minus_infinity_score<float>() {
  return __uint_as_float(0xFF800000U);
}
template <>
__device__ inline Bf16 minus_infinity_score<Bf16>() {
  return Bf16{0xFF80};
}

// Writes this block's chosen scores from place `start` on, ascending. Threads put the positions of
// their bits in order into shared memory; then neighbours write neighbours. Overwrites histogram.
template <class T>
__device__ inline void write_chosen(const TopkParams<T>& p, std::int64_t row,
                                    const RowPart<T>& part, int start, int map_words,
                                    const SelectMemory& memory) {
  constexpr int kBatch = 2 * kTopkBins;
  std::int32_t* indices = p.indices + row * p.k + start;
  T* values = p.values + row * p.k + start;
  std::uint32_t* batch = memory.fixed.histogram[0];
  const OwnWords words = own_words(map_words);
  const ScanResult<int> scan =
      block_scan<kSelectThreads>(count_bits(memory.above_map, words), memory.fixed.scan);
  for (int done = 0; done < scan.total; done += kBatch) {
    int place = scan.before - done;
    for (int w = words.first; w < words.end; ++w) {
      for (std::uint32_t bits = memory.above_map[w]; bits != 0; bits &= bits - 1) {
        if (place >= 0 && place < kBatch) {
          batch[place] = static_cast<std::uint32_t>(w * 32 + __ffs(static_cast<int>(bits)) - 1);
        }
        ++place;
      }
    }
    __syncthreads();
    for (int i = static_cast<int>(threadIdx.x); i < min(kBatch, scan.total - done);
         i += kSelectThreads) {
      const int index = part.index_at(static_cast<int>(batch[i]));
      indices[done + i] = index;
      values[done + i] = part.row[index];
    }
    __syncthreads();
  }
}

// k > length: -1 and -infinity behind the row's scores.
template <class T>
__device__ inline void write_padding(const TopkParams<T>& p, std::int64_t row) {
  for (std::int64_t place = p.length + threadIdx.x; place < p.k; place += kSelectThreads) {
    p.indices[row * p.k + place] = -1;
    p.values[row * p.k + place] = minus_infinity_score<T>();
  }
}

}  // namespace versieve::kernels
