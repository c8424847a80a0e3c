// Second phase of the fused form: the exact selection over the cluster's order keys. Digits of
// (key - least key of the head), 9 bits a pass, so that the first pass already spreads the scores.
// In a pass every block counts its keys and pushes all bins to all blocks; then each knows where
// the cut lies and how many keys the blocks before it take. Usually two passes.
#pragma once

#include "kernels/common/block_reduce.cuh"
#include "kernels/ptx/cluster.cuh"
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

// What the blocks of the cluster pushed in that phase of the barrier is here.
__device__ inline void await_pushes(std::uint32_t barrier, Place place, int parity) {
  if (place.blocks == 1) {
    __syncthreads();
  } else {
    barrier_wait(barrier, parity);
  }
}

// The extremes of all blocks' keys, from those of every warp's. All blocks run.
__device__ inline KeyExtremes share_range(FusedShared& shared, Place place,
                                          const KeyExtremes& own) {
  const int thread = static_cast<int>(threadIdx.x);
  const int lane = thread % 32;
  const std::uint32_t barrier = shared_address(&shared.range_pushed);
  if (thread == 0 && place.blocks > 1) {
    barrier_expect(barrier, place.blocks * static_cast<int>(sizeof(KeyExtremes)));
  }
  if (lane == 0) {
    shared.warp_range[thread / 32] = own;
  }
  __syncthreads();
  if (thread < 32) {
    const KeyExtremes part = shared.warp_range[lane % kFusedWarps];
    const uint2 all{__reduce_min_sync(0xFFFFFFFFU, part.least),
                    __reduce_max_sync(0xFFFFFFFFU, part.most)};
    if (place.blocks == 1) {  // launched without a cluster, which pushes need
      shared.ranges[0] = {all.x, all.y};
    } else if (lane < place.blocks) {
      push_pair(address_in_block(shared_address(shared.ranges + place.rank), lane), all,
                address_in_block(barrier, lane));
    }
  }
  await_pushes(barrier, place, 0);
  const KeyExtremes part = lane < place.blocks ? shared.ranges[lane] : KeyExtremes{};
  return {__reduce_min_sync(0xFFFFFFFFU, part.least), __reduce_max_sync(0xFFFFFFFFU, part.most)};
}

// Counts this block's keys that are equal so far by their next digit, and pushes the bins.
// REQUIRES: fewer than 65,536 keys a block.
__device__ inline void count_digits(FusedShared& shared, DigitMemory& memory, Place place,
                                    const std::uint32_t* keys, int count, const KeyCut& cut,
                                    int shift, int turn) {
  const int thread = static_cast<int>(threadIdx.x);
  const std::uint32_t barrier = shared_address(&shared.bins_pushed[turn]);
  if (thread == 0 && place.blocks > 1) {
    barrier_expect(barrier, place.blocks * kDigitBins * 2);
  }
  for (int bin = thread; bin < kDigitBins; bin += kFusedThreads) {
    memory.bins[bin] = 0;
  }
  __syncthreads();
#pragma unroll 1
  for (int i = thread; i < count; i += kFusedThreads) {
    const std::uint32_t key = keys[i];
    if (cut.place(key) == 1) {
      atomicAdd(&memory.bins[(key - cut.low) >> shift], 1);
    }
  }
  __syncthreads();
  constexpr int kWords = kDigitBins / 8;  // of 16 bytes
  constexpr int kRanksEach = kMostCluster / (kFusedThreads / kWords);
  const int word = thread % kWords;
  const int4 a = reinterpret_cast<const int4*>(memory.bins)[word * 2];
  const int4 b = reinterpret_cast<const int4*>(memory.bins)[word * 2 + 1];
  const auto pair = [](int low, int high) {
    return static_cast<std::uint32_t>(low) | static_cast<std::uint32_t>(high) << 16;
  };
  const uint4 packed{pair(a.x, a.y), pair(a.z, a.w), pair(b.x, b.y), pair(b.z, b.w)};
  const std::uint32_t own =
      shared_address(reinterpret_cast<uint4*>(memory.pushed[turn][place.rank]) + word);
#pragma unroll
  for (int i = 0; i < kRanksEach; ++i) {
    const int rank = thread / kWords * kRanksEach + i;
    if (place.blocks == 1 && rank == 0) {
      reinterpret_cast<uint4*>(memory.pushed[turn][0])[word] = packed;
    } else if (rank < place.blocks) {
      push_word(address_in_block(own, rank), packed, address_in_block(barrier, rank));
    }
  }
}

// Of 64 bins, two a lane, the highest in lane 0: the one that holds the `need`-th from the top.
// Every lane gets the answer. REQUIRES: there are so many.
__device__ inline FoundBin find_bin(int2 all, int2 before, int need) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int sum = all.x + all.y;
  int inclusive = sum;
  for (int distance = 1; distance < 32; distance *= 2) {
    const int other = __shfl_up_sync(0xFFFFFFFFU, inclusive, distance);
    inclusive += lane >= distance ? other : 0;
  }
  const int above = inclusive - sum;
  const bool mine = above < need && inclusive >= need;
  const int owner = __ffs(static_cast<int>(__ballot_sync(0xFFFFFFFFU, mine))) - 1;
  const bool second = above + all.x < need;
  const int passed = lane < owner ? before.x + before.y : mine && second ? before.x : 0;
  return {.bin = 63 - 2 * owner - __shfl_sync(0xFFFFFFFFU, second ? 1 : 0, owner),
          .above = __shfl_sync(0xFFFFFFFFU, second ? above + all.x : above, owner),
          .above_before = warp_sum(passed),
          .count = __shfl_sync(0xFFFFFFFFU, second ? all.y : all.x, owner),
          .count_before = __shfl_sync(0xFFFFFFFFU, second ? before.y : before.x, owner)};
}

// Narrows the cut to one bin; its count. All blocks' bins have been pushed.
__device__ inline int narrow(FusedShared& shared, const DigitMemory& memory, Place place,
                             KeyCut& cut, int shift, int turn) {
  static_assert(kFusedWarps * 64 == kDigitBins, "each warp adds up 64 bins, the highest first");
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int pair = (kFusedWarps - 1 - warp) * 32 + 31 - lane;
  int2 all{};
  int2 before{};
#pragma unroll
  for (int r = 0; r < kMostCluster; ++r) {
    const std::uint32_t bins = r < place.blocks ? memory.pushed[turn][r][pair] : 0U;
    const int high = static_cast<int>(bins >> 16);
    const int low = static_cast<int>(bins & 0xFFFFU);
    all.x += high;
    all.y += low;
    before.x += r < place.rank ? high : 0;
    before.y += r < place.rank ? low : 0;
  }
  const int2 sums{warp_sum(all.x + all.y), warp_sum(before.x + before.y)};
  if (lane == 0) {
    shared.warp_count[warp] = sums;
  }
  __syncthreads();
  int above = 0;
  int above_before = 0;
  int w = 0;
#pragma unroll 1
  for (; above + shared.warp_count[w].x < cut.ties; ++w) {
    above += shared.warp_count[w].x;
    above_before += shared.warp_count[w].y;
  }
  if (w == warp) {
    const FoundBin found = find_bin(all, before, cut.ties - above);
    if (lane == 0) {
      shared.found = found;
    }
  }
  __syncthreads();
  const FoundBin found = shared.found;
  cut.ties -= above + found.above;
  cut.above_before += above_before + found.above_before;
  cut.equal_before = found.count_before;
  cut.low += static_cast<std::uint32_t>((kFusedWarps - 1 - w) * 64 + found.bin) << shift;
  cut.width = shift;
  return found.count;
}

// Where the `kept` best of the cluster's keys end. REQUIRES: 1 <= kept <= all keys.
__device__ inline KeyCut find_cut(FusedShared& shared, DigitMemory& memory, Place place,
                                  const std::uint32_t* keys, int count, int kept,
                                  const KeyExtremes& range) {
  KeyCut cut{.low = range.least,
             .width = max(1, 32 - __clz(static_cast<int>(range.most - range.least))),
             .ties = kept};
#pragma unroll 1
  for (int pass = 0;; ++pass) {
    const int turn = pass % 2;
    const int shift = max(0, cut.width - kDigitBits);
    count_digits(shared, memory, place, keys, count, cut, shift, turn);
    await_pushes(shared_address(&shared.bins_pushed[turn]), place, pass / 2 % 2);
    const int equal = narrow(shared, memory, place, cut, shift, turn);
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
#pragma unroll 1
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
#pragma unroll 1
  for (int w = 0; w < warp; ++w) {
    above_before += shared.above[w];
    equal_before += shared.equal[w];
  }
  const unsigned lower = (1U << lane) - 1U;
#pragma unroll 1
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
