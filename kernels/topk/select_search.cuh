// One pass that narrows the range of the k-th largest: a histogram of the keys inside the range in
// each block, summed over the cluster at two levels (64 coarse bins, then the 32 of one of them),
// so that little crosses between blocks.
#pragma once

#include "kernels/topk/select_row.cuh"

namespace versieve::kernels {

// Counts the keys that `bins` holds. Equal neighbours of a thread are added at once, so that a
// plateau does not queue at one address.
template <int kItems>
__device__ inline void count_keys(const std::uint32_t (&key)[kItems], const TopkBins& bins,
                                  std::uint32_t* histogram) {
  int run_bin = 0;
  std::uint32_t run = 0;
#pragma unroll
  for (int i = 0; i < kItems; ++i) {
    if (bins.holds(key[i])) {
      const int bin = bins.bin_of(key[i]);
      if (bin != run_bin) {
        if (run > 0) {
          atomicAdd(&histogram[run_bin], run);
        }
        run_bin = bin;
        run = 0;
      }
      ++run;
    }
  }
  if (run > 0) {
    atomicAdd(&histogram[run_bin], run);
  }
}

// The same of a list of ranks, some of which the bins hold.
__device__ inline void count_list(int count, const TopkBins& bins, const std::uint64_t* list,
                                  std::uint32_t* histogram) {
  for (int i = static_cast<int>(threadIdx.x); i < count; i += kSelectThreads) {
    const std::uint32_t key = static_cast<std::uint32_t>(list[i] >> 32);
    if (bins.holds(key)) {
      atomicAdd(&histogram[bins.bin_of(key)], 1U);
    }
  }
}

// Turns a list of indices, all of scores that the bins hold, into ranks and counts them.
template <class T>
__device__ inline void count_list_indices(int count, const RowPart<T>& part, const TopkBins& bins,
                                          std::uint64_t* list, std::uint32_t* histogram) {
  for (int i = static_cast<int>(threadIdx.x); i < count; i += kSelectThreads) {
    const std::uint32_t index = static_cast<std::uint32_t>(list[i]);
    const std::uint32_t key = select_key(part.row[index]);
    list[i] = rank_of(key, index);
    atomicAdd(&histogram[bins.bin_of(key)], 1U);
  }
}

// Adds this block's coarse sums to every block's. Eight threads a coarse bin.
__device__ inline void share_coarse_sums(const cooperative_groups::cluster_group& cluster, int turn,
                                         SelectShared& shared) {
  const int coarse = static_cast<int>(threadIdx.x) / 8;
  const int part = static_cast<int>(threadIdx.x) % 8;
  const uint4 four = reinterpret_cast<const uint4*>(shared.histogram[turn])[coarse * 8 + part];
  std::uint32_t sum = four.x + four.y + four.z + four.w;
  sum += __shfl_xor_sync(kAllLanes, sum, 1);
  sum += __shfl_xor_sync(kAllLanes, sum, 2);
  sum += __shfl_xor_sync(kAllLanes, sum, 4);
  if (sum == 0) {
    return;
  }
  for (unsigned block = static_cast<unsigned>(part); block < cluster.num_blocks(); block += 8) {
    atomicAdd(cluster.map_shared_rank(&shared.coarse_sum[turn][coarse], block), sum);
  }
}

// The position, from the top, of the bin in which the running sum reaches `wanted`; and the sum
// before it. Lane l holds the l-th count from the top. REQUIRES: the counts reach `wanted`.
struct Reached {
  int lane;
  int before;
};
__device__ inline Reached reach(int count, int wanted) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  int sum = count;
#pragma unroll
  for (int distance = 1; distance < 32; distance *= 2) {
    const int other = __shfl_up_sync(kAllLanes, sum, distance);
    sum += lane >= distance ? other : 0;
  }
  const unsigned there = __ballot_sync(kAllLanes, sum >= wanted);
  const int first = __ffs(static_cast<int>(there)) - 1;
  return {first, __shfl_sync(kAllLanes, sum - count, first)};
}

// Scores of all blocks that the turn's bins hold. After the cluster's barrier.
__device__ inline int held_scores(int turn, const SelectShared& shared) {
  const unsigned lane = threadIdx.x % 32;
  return static_cast<int>(__reduce_add_sync(
      kAllLanes, shared.coarse_sum[turn][lane] + shared.coarse_sum[turn][lane + 32]));
}

// After the cluster's barrier: the range shrinks to the bin that holds the k-th, or to what lies
// below the bins if they hold too few (`held`). Every warp finds the same. Synchronises the block.
__device__ inline KeyRange narrow(const cooperative_groups::cluster_group& cluster,
                                  const KeyRange& range, const TopkBins& bins, int held, int turn,
                                  int k, SelectShared& shared) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int warp = static_cast<int>(threadIdx.x / 32);
  const int wanted = k - range.above;
  KeyRange next = range;
  if (held < wanted) {
    next.last = bins.low - 1;
    next.above += held;
    next.inside -= held;
    __syncthreads();
    return next;
  }
  const int upper = static_cast<int>(shared.coarse_sum[turn][kCoarseBins - 1 - 2 * lane]);
  const int lower = static_cast<int>(shared.coarse_sum[turn][kCoarseBins - 2 - 2 * lane]);
  const Reached pair = reach(upper + lower, wanted);
  const int pair_upper = __shfl_sync(kAllLanes, upper, pair.lane);
  const bool in_upper = pair.before + pair_upper >= wanted;
  const int coarse = kCoarseBins - 1 - 2 * pair.lane - (in_upper ? 0 : 1);
  const int before = pair.before + (in_upper ? 0 : pair_upper);
  if (warp < static_cast<int>(cluster.num_blocks())) {
    shared.fine_part[warp][lane] = *cluster.map_shared_rank(
        &shared.histogram[turn][coarse * 32 + 31 - lane], static_cast<unsigned>(warp));
  }
  __syncthreads();
  std::uint32_t fine = 0;
  for (unsigned block = 0; block < cluster.num_blocks(); ++block) {
    fine += shared.fine_part[block][lane];
  }
  const Reached one = reach(static_cast<int>(fine), wanted - before);
  const int bin = coarse * 32 + 31 - one.lane;
  next.low = bins.low_of(bin);
  next.last = bins.last_of(bin);
  next.above += before + one.before;
  next.inside = __shfl_sync(kAllLanes, static_cast<int>(fine), one.lane);
  __syncthreads();  // fine_part is free again, the other turn's bins are clear
  return next;
}

// Between counting and narrowing: this block's sums go to all, and the other turn is made ready.
// Turns alternate, so that no block clears what another still reads: coarse sums are cleared while
// no block can be a pass ahead, bins when all have read them.
__device__ inline void exchange_counts(const cooperative_groups::cluster_group& cluster, int turn,
                                       SelectShared& shared) {
  __syncthreads();
  if (threadIdx.x < kCoarseBins) {
    shared.coarse_sum[1 - turn][threadIdx.x] = 0;
  }
  share_coarse_sums(cluster, turn, shared);
  cluster.sync();
  for (int bin = static_cast<int>(threadIdx.x); bin < kTopkBins; bin += kSelectThreads) {
    shared.histogram[1 - turn][bin] = 0;
  }
}

}  // namespace versieve::kernels
