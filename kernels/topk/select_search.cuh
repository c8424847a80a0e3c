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

// After the cluster's barrier: the range shrinks to the bin that holds the k-th, or to what lies
// below the bins if they hold too few. Every warp finds the same. Synchronises the block unless
// the bins hold too few.
__device__ inline KeyRange narrow(const cooperative_groups::cluster_group& cluster,
                                  const KeyRange& range, const TopkBins& bins, int turn, int k,
                                  SelectShared& shared) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int warp = static_cast<int>(threadIdx.x / 32);
  const int wanted = k - range.above;
  const int upper = static_cast<int>(shared.coarse_sum[turn][kCoarseBins - 1 - 2 * lane]);
  const int lower = static_cast<int>(shared.coarse_sum[turn][kCoarseBins - 2 - 2 * lane]);
  const int held = __reduce_add_sync(kAllLanes, upper + lower);
  KeyRange next = range;
  if (held < wanted) {
    next.last = bins.low - 1;
    next.above += held;
    next.inside -= held;
    return next;
  }
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
  return next;
}

// A whole pass. `turn` alternates from call to call, so that no block clears what another still
// reads: what a turn uses was cleared in the turn before, after everybody had read it.
template <int kItems>
__device__ inline KeyRange narrow_pass(const cooperative_groups::cluster_group& cluster,
                                       const std::uint32_t (&key)[kItems], const KeyRange& range,
                                       const TopkBins& bins, int turn, int k,
                                       SelectShared& shared) {
  count_keys(key, bins, shared.histogram[turn]);
  __syncthreads();
  if (threadIdx.x < kCoarseBins) {
    shared.coarse_sum[1 - turn][threadIdx.x] = 0;
  }
  share_coarse_sums(cluster, turn, shared);
  cluster.sync();
  for (int bin = static_cast<int>(threadIdx.x); bin < kTopkBins; bin += kSelectThreads) {
    shared.histogram[1 - turn][bin] = 0;
  }
  const KeyRange next = narrow(cluster, range, bins, turn, k, shared);
  __syncthreads();  // the cleared bins, and fine_part for the next pass
  return next;
}

}  // namespace versieve::kernels
