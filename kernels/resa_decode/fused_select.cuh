// Second phase of the fused form: the exact selection over the cluster's order keys. Digits of
// (key - least key of the head), 11 bits a pass, so that the first pass already spreads the scores;
// a pass sums bins over the cluster in two steps: 64 coarse sums that every block pushes to all,
// then the 32 bins of one coarse sum, pulled. Usually two passes; more only for equal leading bits.
#pragma once

#include "kernels/common/block_reduce.cuh"
#include "kernels/resa_decode/fused.cuh"

namespace versieve::kernels {

// Of keys, those with (key - low) >> width above 0 are taken, and `ties` of those where it is 0,
// the first by block. Keys below low are not.
struct KeyCut {
  std::uint32_t low = 0;
  int width = 0;         // bits
  int ties = 0;          // to be taken among equals
  int above_before = 0;  // taken and equal ones in blocks of the cluster before this one
  int equal_before = 0;

  // 0: below, 1: equal, 2: above.
  __device__ int place(std::uint32_t key) const {
    if (key < low) {
      return 0;
    }
    return static_cast<std::uint64_t>(key - low) >> width == 0 ? 1 : 2;
  }
};

// The extremes of all blocks' keys, of every thread's warp before. A barrier of the cluster.
__device__ inline KeyRange share_range(FusedShared& shared, const KeyRange& own) {
  const int thread = static_cast<int>(threadIdx.x);
  const int blocks = cluster_size();
  if (thread % 32 == 0) {
    shared.warp_range[thread / 32] = own;
  }
  __syncthreads();
  if (thread < blocks) {
    KeyRange all;
    for (const KeyRange& range : shared.warp_range) {
      all.least = min(all.least, range.least);
      all.most = max(all.most, range.most);
    }
    in_block(shared.ranges, thread)[cluster_rank()] = all;
  }
  cluster_sync();
  KeyRange all;
  for (int rank = 0; rank < blocks; ++rank) {
    all.least = min(all.least, shared.ranges[rank].least);
    all.most = max(all.most, shared.ranges[rank].most);
  }
  return all;
}

// Counts this block's keys that are equal so far by their next digit, and pushes the coarse sums.
__device__ inline void count_digits(FusedShared& shared, int* bins, const std::uint32_t* keys,
                                    int count, const KeyCut& cut, int shift, int turn) {
  const int thread = static_cast<int>(threadIdx.x);
  for (int i = thread; i < kDigitBins / 4; i += kFusedThreads) {
    reinterpret_cast<int4*>(bins)[i] = int4{};
  }
  __syncthreads();
  for (int i = thread; i < count; i += kFusedThreads) {
    if (cut.place(keys[i]) == 1) {
      atomicAdd(&bins[(keys[i] - cut.low) >> shift], 1);
    }
  }
  __syncthreads();
  static_assert(kFusedThreads == 4 * kCoarse && kDigitBins == 32 * kCoarse, "a quarter a thread");
  const int4 a = reinterpret_cast<const int4*>(bins)[thread * 2];
  const int4 b = reinterpret_cast<const int4*>(bins)[thread * 2 + 1];
  int sum = a.x + a.y + a.z + a.w + b.x + b.y + b.z + b.w;
  sum += __shfl_xor_sync(0xFFFFFFFFU, sum, 1);
  sum += __shfl_xor_sync(0xFFFFFFFFU, sum, 2);
  for (int rank = thread % 4; rank < cluster_size(); rank += 4) {
    in_block(&shared.coarse[turn][cluster_rank()][thread / 4], rank)[0] = sum;
  }
}

struct FoundBin {
  int bin = 0;
  int above = 0;  // in higher bins: all blocks', those of the blocks before this one
  int above_before = 0;
  int count = 0;  // in it
  int count_before = 0;
};

// The bin, among 32 kPer, that holds the `need`-th from the top; lane i holds `kPer` of them, the
// highest bins in lane 0. Every lane gets the answer. REQUIRES: there are so many.
template <int kPer>
__device__ inline FoundBin find_bin(const int (&all)[kPer], const int (&before)[kPer], int need) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  int sum = 0;
#pragma unroll
  for (int i = 0; i < kPer; ++i) {
    sum += all[i];
  }
  int inclusive = sum;
  for (int distance = 1; distance < 32; distance *= 2) {
    const int other = __shfl_up_sync(0xFFFFFFFFU, inclusive, distance);
    inclusive += lane >= distance ? other : 0;
  }
  FoundBin found;
  found.above = inclusive - sum;
  bool mine = found.above < need && inclusive >= need;
  const int owner = __ffs(static_cast<int>(__ballot_sync(0xFFFFFFFFU, mine))) - 1;
  int lower = 0;  // of this lane's bins before the found one, in the blocks before this one
#pragma unroll
  for (int i = 0; i < kPer; ++i) {
    const bool passed = lane < owner || (mine && found.above + all[i] < need);
    if (mine && !passed) {
      found.bin = (31 - lane) * kPer + kPer - 1 - i;
      found.count = all[i];
      found.count_before = before[i];
      mine = false;
    } else if (passed) {
      found.above += lane == owner ? all[i] : 0;
      lower += before[i];
    }
  }
  found.above_before = warp_sum(lower);
  found.bin = __shfl_sync(0xFFFFFFFFU, found.bin, owner);
  found.above = __shfl_sync(0xFFFFFFFFU, found.above, owner);
  found.count = __shfl_sync(0xFFFFFFFFU, found.count, owner);
  found.count_before = __shfl_sync(0xFFFFFFFFU, found.count_before, owner);
  return found;
}

// Narrows the cut to one bin. After the barrier that follows count_digits. By whole warps, all of
// which find the same; the other blocks' bins are read.
__device__ inline int narrow(FusedShared& shared, int* bins, KeyCut& cut, int shift, int turn) {
  const int thread = static_cast<int>(threadIdx.x);
  const int lane = thread % 32;
  const int blocks = cluster_size();
  const int rank = cluster_rank();
  int all[2] = {0, 0};
  int before[2] = {0, 0};
  for (int r = 0; r < blocks; ++r) {
    const int2 low_high = reinterpret_cast<const int2*>(shared.coarse[turn][r])[31 - lane];
    all[0] += low_high.y;
    all[1] += low_high.x;
    before[0] += r < rank ? low_high.y : 0;
    before[1] += r < rank ? low_high.x : 0;
  }
  const FoundBin coarse = find_bin<2>(all, before, cut.ties);
  for (int r = thread / 32; r < blocks; r += kFusedWarps) {
    shared.fine[r][lane] = in_block(bins, r)[coarse.bin * 32 + lane];
  }
  __syncthreads();
  int in_bin[1] = {0};
  int in_bin_before[1] = {0};
  for (int r = 0; r < blocks; ++r) {
    const int x = shared.fine[r][31 - lane];
    in_bin[0] += x;
    in_bin_before[0] += r < rank ? x : 0;
  }
  const FoundBin fine = find_bin<1>(in_bin, in_bin_before, cut.ties - coarse.above);
  cut.ties -= coarse.above + fine.above;
  cut.above_before += coarse.above_before + fine.above_before;
  cut.equal_before = fine.count_before;
  cut.low += static_cast<std::uint32_t>(coarse.bin * 32 + fine.bin) << shift;
  cut.width = shift;
  return fine.count;
}

// Where the `kept` best of the cluster's keys end. REQUIRES: 1 <= kept <= all keys. After the last
// pass other blocks still read this one's bins: the next barrier of the cluster ends that.
__device__ inline KeyCut find_cut(FusedShared& shared, int* bins, const std::uint32_t* keys,
                                  int count, int kept, const KeyRange& range) {
  KeyCut cut{.low = range.least,
             .width = max(1, 32 - __clz(static_cast<int>(range.most - range.least))),
             .ties = kept};
  for (int pass = 0;; ++pass) {
    const int shift = max(0, cut.width - 11);
    int* own = bins + pass % 2 * kDigitBins;
    count_digits(shared, own, keys, count, cut, shift, pass % 2);
    cluster_sync();
    const int equal = narrow(shared, own, cut, shift, pass % 2);
    if (equal == cut.ties || shift == 0) {
      return cut;
    }
  }
}

// Writes this block's chosen key blocks, ascending: `first` is the number of its first key.
__device__ inline void write_chosen(FusedShared& shared, const std::uint32_t* keys, int first,
                                    int count, const KeyCut& cut, std::int32_t* out) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int piece = (count + kFusedThreads - 1) / kFusedThreads * 32;
  const int begin = min(count, warp * piece);
  const int end = min(count, begin + piece);
  int above = 0;
  int equal = 0;
  for (int i = begin + lane; i < end; i += 32) {
    const int place = cut.place(keys[i]);
    above += place == 2 ? 1 : 0;
    equal += place == 1 ? 1 : 0;
  }
  above = warp_sum(above);
  equal = warp_sum(equal);
  if (lane == 0) {
    shared.above[warp] = above;
    shared.equal[warp] = equal;
  }
  __syncthreads();
  int above_before = cut.above_before;
  int equal_before = cut.equal_before;
  for (int w = 0; w < warp; ++w) {
    above_before += shared.above[w];
    equal_before += shared.equal[w];
  }
  const unsigned lower = (1U << lane) - 1U;
  for (int base = begin; base < end; base += 32) {
    const int i = base + lane;
    const int place = i < end ? cut.place(keys[i]) : 0;
    const unsigned above_lanes = __ballot_sync(0xFFFFFFFFU, place == 2);
    const unsigned equal_lanes = __ballot_sync(0xFFFFFFFFU, place == 1);
    const int equal_rank = equal_before + __popc(equal_lanes & lower);
    if (place == 2 || (place == 1 && equal_rank < cut.ties)) {
      out[above_before + __popc(above_lanes & lower) + min(equal_rank, cut.ties)] = first + i;
    }
    above_before += __popc(above_lanes);
    equal_before += __popc(equal_lanes);
  }
}

}  // namespace versieve::kernels
