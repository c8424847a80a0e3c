// The end of a row: marks what is chosen, one bit a score, ranks the few candidates inside the
// range exactly or takes the lowest indices of a plateau, and writes indices in ascending order.
#pragma once

#include "kernels/common/block_reduce.cuh"
#include "kernels/topk/select_row.cuh"

namespace versieve::kernels {

// Sets the bits of a thread's scores with a key > last in above_map; those in [low, last] go to the
// list, or to equal_map where `lists` is false. Counts are added to shared.counts.
template <class T, int kItems>
__device__ inline void mark_own(const OwnKeys<T, kItems>& own, const RowPart<T>& part,
                                const KeyRange& range, bool lists, SelectShared& shared) {
  using Own = OwnKeys<T, kItems>;
  int above_count = 0;
  int equal_count = 0;
#pragma unroll
  for (int w = 0; w < Own::kWords; ++w) {
    const int position = Own::position(w);
    std::uint32_t above = 0;
    std::uint32_t inside = 0;
#pragma unroll
    for (int e = 0; e < Own::kWord; ++e) {
      const std::uint32_t key = own.key[w * Own::kWord + e];
      if (key >= range.low) {
        (key > range.last ? above : inside) |= 1U << e;
        if (lists && key <= range.last) {
          const int index = part.first_position + position + e - part.lead;
          shared.own_list[atomicAdd(&shared.counts.candidates, 1)] =
              static_cast<std::uint64_t>(key) << 32 | static_cast<std::uint32_t>(~index);
        }
      }
    }
    if (above != 0) {
      atomicOr(&shared.above_map[position / 32], above << (position % 32));
      above_count += __popc(above);
    }
    if (inside != 0 && !lists) {
      atomicOr(&shared.equal_map[position / 32], inside << (position % 32));
      equal_count += __popc(inside);
    }
  }
  above_count = __reduce_add_sync(kAllLanes, above_count);
  equal_count = __reduce_add_sync(kAllLanes, equal_count);
  if (threadIdx.x % 32 == 0 && above_count > 0) {
    atomicAdd(&shared.counts.above, above_count);
  }
  if (threadIdx.x % 32 == 0 && equal_count > 0) {
    atomicAdd(&shared.counts.equal, equal_count);
  }
}

// Sums over the blocks before a block, and over all.
struct Before {
  SelectCounts own;
  SelectCounts all;
};

// After the cluster's barrier. Every warp reads the counts of all blocks; warp b copies block b's
// list behind those of the blocks before it. The block is to be synchronised before the list is
// read.
__device__ inline Before gather_lists(const cooperative_groups::cluster_group& cluster,
                                      SelectShared& shared) {
  const unsigned lane = threadIdx.x % 32;
  const unsigned warp = threadIdx.x / 32;
  const unsigned rank = cluster.block_rank();
  int4 counts = {0, 0, 0, 0};
  if (lane < cluster.num_blocks()) {
    counts = *reinterpret_cast<const int4*>(cluster.map_shared_rank(&shared.counts, lane));
  }
  const auto sums = [&](unsigned end) {
    const bool in = lane < end;
    return SelectCounts{.above = __reduce_add_sync(kAllLanes, in ? counts.x : 0),
                        .equal = __reduce_add_sync(kAllLanes, in ? counts.y : 0),
                        .candidates = __reduce_add_sync(kAllLanes, in ? counts.z : 0)};
  };
  const int start = __reduce_add_sync(kAllLanes, lane < warp ? counts.z : 0);
  const int count = __shfl_sync(kAllLanes, counts.z, static_cast<int>(warp));
  if (warp < cluster.num_blocks()) {
    const std::uint64_t* theirs = cluster.map_shared_rank(shared.own_list, warp);
    for (int i = static_cast<int>(lane); i < count; i += 32) {
      shared.list[start + i] = theirs[i];
      shared.owner[start + i] = static_cast<std::uint8_t>(warp);
    }
  }
  return {sums(rank), sums(32)};
}

// Of the gathered candidates, the `wanted` highest are chosen: this block's get their bit, those of
// earlier blocks are counted. REQUIRES: chosen_before is 0. Synchronises the block before and
// after.
template <class T>
__device__ inline void choose_candidates(const RowPart<T>& part, unsigned rank, int count,
                                         int wanted, SelectShared& shared) {
  __syncthreads();
  const int i = static_cast<int>(threadIdx.x);
  if (i < count) {
    const std::uint64_t own = shared.list[i];
    int higher = 0;
    for (int other = 0; other < count; ++other) {
      higher += shared.list[other] > own ? 1 : 0;
    }
    const unsigned owner = shared.owner[i];
    if (higher < wanted && owner == rank) {
      const int position = index_of(own) + part.lead - part.first_position;
      atomicOr(&shared.above_map[position / 32], 1U << (position % 32));
    } else if (higher < wanted && owner < rank) {
      atomicAdd(&shared.chosen_before, 1);
    }
  }
  __syncthreads();
}

// Of this block's plateau the `quota` lowest indices: the bits of this thread's word.
__device__ inline std::uint32_t choose_equals(int quota, SelectShared& shared) {
  __syncthreads();
  std::uint32_t bits = shared.equal_map[threadIdx.x];
  const int before = block_scan<kSelectThreads>(__popc(bits), shared.scan).before;
  const int take = min(max(quota - before, 0), __popc(bits));
  while (__popc(bits) > take) {
    bits &= ~(0x80000000U >> __clz(static_cast<int>(bits)));
  }
  return bits;
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

// Writes this block's chosen scores from place `start` on: thread t those of its word of bits.
template <class T>
__device__ inline void write_chosen(const TopkParams<T>& p, std::int64_t row,
                                    const RowPart<T>& part, std::uint32_t bits, int start,
                                    SelectShared& shared) {
  std::int32_t* indices = p.indices + row * p.k;
  T* values = p.values + row * p.k;
  int place = start + block_scan<kSelectThreads>(__popc(bits), shared.scan).before;
  const int first = part.first_position + static_cast<int>(threadIdx.x) * 32 - part.lead;
  while (bits != 0) {
    const int index = first + __ffs(static_cast<int>(bits)) - 1;
    indices[place] = index;
    values[place] = part.row[index];
    ++place;
    bits &= bits - 1;
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
