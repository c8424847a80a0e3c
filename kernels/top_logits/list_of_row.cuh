// The k best of a row and their log-probabilities. A warp a piece of 1,024 logits.
// 1. The k-th best of the bests of the block's lanes is a floor under the block's k-th best, so at
//    most k lanes hold anything that reaches it. What does is collected, and its first k are
//    pushed to the first block.
// 2. Each warp pushes its piece's largest logit and sum of exp(logit - largest).
// 3. The first block merges the lists, but for entries that cannot be among the first k. The
//    normaliser adds the pieces in an order fixed by their place in the row, so that its bits do
//    not depend on how many blocks share the row.
// All sorting is by counting how many entries stand above one.
#pragma once

#include "kernels/cpu.h"
#include "kernels/ops.h"
#include "kernels/top_logits/row_cluster.cuh"
#include "kernels/top_logits/row_piece.cuh"

namespace versieve::kernels {

template <class T>
inline constexpr int kListWords = 1024 / (32 * kWordElements<T>);
template <class T>
using ListPiece = RowPiece<T, kListWords<T>>;

template <class T>
struct ListShared {
  std::uint64_t list_pushed, law_pushed;            // barriers
  alignas(16) LocalRank<T> lane[kMaxRowWarps][32];  // best of each lane
  LocalRank<T> best[kMaxRowWarps * 32];  // [warps, min(k, 32)]: each warp's first of them
  LocalRank<T> candidate[kMaxTopLogits * 32];
  LocalRank<T> floor;
  int candidate_count;
  // Of the first block:
  int survivor_count;
  std::uint64_t list[kMaxRowBlocks * kMaxTopLogits];  // [blocks, k], descending
  std::uint64_t survivor[kMaxRowBlocks * kMaxTopLogits];
  uint2 law[kMaxRowBlocks * kMaxRowWarps];  // [pieces]: largest logit and sum, as floats
};

constexpr float kMinusInfinity = -__builtin_huge_valf();

// What exp_sum may subtract: a row or piece of nothing but -infinity sums to 0.
__device__ inline float subtrahend(float largest) {
  return largest == kMinusInfinity ? 0.0F : largest;
}

// found(entry, how many of the list stand above it) for each of `count` distinct entries, by all
// threads of the block, several an entry where there are enough.
template <class Rank, class Found>
__device__ inline void count_above(const Rank* list, int count, const Found& found) {
  const int threads = static_cast<int>(blockDim.x);
  const int thread = static_cast<int>(threadIdx.x);
  const int bits = count < threads ? min(5, 31 - __clz(threads / count)) : 0;
  const int group = 1 << bits;
  for (int start = 0; start < count; start += threads >> bits) {
    const int at = start + (thread >> bits);
    const Rank mine = at < count ? list[at] : 0;
    int above = 0;
#pragma unroll 4
    for (int i = thread & (group - 1); i < count; i += group) {
      above += list[i] > mine ? 1 : 0;
    }
    for (int distance = group / 2; distance > 0; distance /= 2) {
      above += __shfl_xor_sync(0xFFFFFFFFU, above, distance);
    }
    if (at < count && (thread & (group - 1)) == 0) {
      found(mine, above);
    }
  }
}

// The first `count` of the warp's lanes' bests into `best`, best first.
template <class T>
__device__ inline void sort_bests(LocalRank<T> own, int count, LocalRank<T>* lanes /* [32] */,
                                  LocalRank<T>* best /* [count] */) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  lanes[lane] = own;
  __syncwarp();
  int above = 0;
#pragma unroll
  for (int i = 0; i < 32; ++i) {
    above += lanes[i] > own ? 1 : 0;
  }
  if (above < count) {
    best[above] = own;
  }
}

// What reaches the floor, in any order. `start`: index of the block's first logit.
template <class T>
__device__ inline void collect(const ListPiece<T>& own, int start, LocalRank<T> floor,
                               LocalRank<T>* candidate, int& candidate_count) {
  using Register = LogitRegister<T>;
  const unsigned least = Register::everywhere(bits_of_key<T>(key_of_local<T>(floor)));
  own.for_at_least(least, [&](unsigned bits, int r, int half) {
    const LocalRank<T> rank =
        local_rank_of_key<T>(Register::key(bits, half), own.index(r, half) - start);
    if (rank >= floor) {
      candidate[atomicAdd(&candidate_count, 1)] = rank;
    }
  });
}

struct RowLaw {
  float largest, log_normaliser;
};
// By all lanes of a warp; lane l adds pieces l, l + 32, ... ascending, lanes pairwise.
__device__ inline RowLaw row_law(const uint2* law, int pieces) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  float largest = kMinusInfinity;
#pragma unroll 4
  for (int i = lane; i < pieces; i += 32) {
    largest = fmaxf(largest, __uint_as_float(law[i].x));
  }
  for (int distance = 16; distance > 0; distance /= 2) {
    largest = fmaxf(largest, __shfl_xor_sync(0xFFFFFFFFU, largest, distance));
  }
  float sum = 0.0F;
#pragma unroll 4
  for (int i = lane; i < pieces; i += 32) {
    sum += __uint_as_float(law[i].y) * expf(__uint_as_float(law[i].x) - subtrahend(largest));
  }
  return {largest, logf(warp_sum(sum))};
}

// Largest logit and sum of exp(logit - largest) of a warp's piece.
template <class T, bool kVector>
__device__ inline uint2 piece_law(const ListPiece<T>& own, int vocab, std::uint32_t key) {
  const unsigned bits = bits_of_key<T>(__reduce_max_sync(0xFFFFFFFFU, key));
  const float largest = fmaxf(LogitRegister<T>::value(bits, 0), kMinusInfinity);  // not NaN
  const float sum = exp_sum<T, kListWords<T>, kVector>(own, vocab, subtrahend(largest));
  return make_uint2(__float_as_uint(largest), __float_as_uint(sum));
}

// A floor under the k-th best of `blocks` descending lists of k, by all lanes of a warp: the worst
// entry of a place that as many lists fill as k takes.
__device__ inline std::uint64_t list_floor(const std::uint64_t* list, int blocks, int k) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int place = (k + blocks - 1) / blocks - 1;
  return ~best_of_warp(~(lane < blocks ? list[lane * k + place] : ~std::uint64_t{0}));
}

template <class T>
__device__ inline void merge_lists(const TopLogitsParams<T>& p, ListShared<T>& shared, int blocks) {
  const int k = static_cast<int>(p.k);
  const std::int64_t row = blockIdx.y;
  RowLaw law{};
  if (p.log_probability != nullptr) {  // the laws come before the lists
    barrier_wait(shared_address(&shared.law_pushed), 0);
    law = row_law(shared.law,
                  static_cast<int>((p.vocab + ListPiece<T>::kLogits - 1) / ListPiece<T>::kLogits));
  }
  barrier_wait(shared_address(&shared.list_pushed), 0);
  const std::uint64_t floor = list_floor(shared.list, blocks, k);
  for (int i = static_cast<int>(threadIdx.x); i < blocks * k; i += static_cast<int>(blockDim.x)) {
    const std::uint64_t rank = shared.list[i];
    if (rank >= floor) {
      shared.survivor[atomicAdd(&shared.survivor_count, 1)] = rank;
    }
  }
  __syncthreads();
  count_above(shared.survivor, shared.survivor_count, [&](std::uint64_t rank, int above) {
    if (above >= k) {
      return;
    }
    p.index[row * k + above] = index_of(rank);
    if (p.log_probability != nullptr) {
      const unsigned bits = bits_of_key<T>(static_cast<std::uint32_t>(rank >> 32));
      p.log_probability[row * k + above] =
          (LogitRegister<T>::value(bits, 0) - law.largest) - law.log_normaliser;
    }
  });
}

template <class T, bool kVector>
__global__ void __launch_bounds__(kMaxRowWarps * 32, 2)
    top_logits_list_kernel(const __grid_constant__ TopLogitsParams<T> p) {
  __shared__ ListShared<T> shared;
  const Place place = cluster_place();
  const int warps = static_cast<int>(blockDim.x) / 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int k = static_cast<int>(p.k);
  const bool scores = p.log_probability != nullptr;
  const std::uint32_t list_pushed = shared_address(&shared.list_pushed);
  const std::uint32_t law_pushed = shared_address(&shared.law_pushed);
  release_successors();
  if (threadIdx.x == 0) {
    shared.floor = 0;
    shared.candidate_count = 0;
    shared.survivor_count = 0;
    barrier_init(list_pushed, 1);
    barrier_init(law_pushed, 1);
    publish_barriers();
    if (place.rank == 0) {
      barrier_expect(list_pushed, place.blocks * k * kPushBytes);
      barrier_expect(law_pushed, scores ? place.blocks * warps * kPushBytes : 0);
    }
  }
  __syncwarp();
  cluster_arrive_relaxed();
  wait_for_predecessors();

  const int vocab = static_cast<int>(p.vocab);
  const int piece = place.rank * warps + warp;
  const int start = place.rank * warps * ListPiece<T>::kLogits;  // of the block
  const ListPiece<T> own = load_piece<T, kListWords<T>, kVector>(
      p.logits + static_cast<std::int64_t>(blockIdx.y) * p.vocab, vocab, piece);
  const unsigned best = own.best();
  const std::uint32_t key = LogitRegister<T>::key(best, 0);
  const LocalRank<T> rank = local_rank_of_key<T>(key, own.first_index_of(best) - start);
  const int sorted = min(k, 32);
  sort_bests<T>(rank, sorted, shared.lane[warp], shared.best + warp * sorted);
  const uint2 law = scores ? piece_law<T, kVector>(own, vocab, key) : uint2{};
  __syncthreads();
  cluster_wait();
  if (scores && threadIdx.x % 32 == 0) {
    push_pair(address_in_block(shared_address(&shared.law[piece]), 0), law,
              address_in_block(law_pushed, 0));
  }
  count_above(shared.best, warps * sorted, [&](LocalRank<T> entry, int above) {
    if (above == k - 1) {
      shared.floor = entry;  // stays 0 if there are fewer
    }
  });
  __syncthreads();
  if (rank >= shared.floor) {
    collect<T>(own, start, shared.floor, shared.candidate, shared.candidate_count);
  }
  __syncthreads();
  const std::uint32_t list_there =
      address_in_block(shared_address(&shared.list[place.rank * k]), 0);
  count_above(shared.candidate, shared.candidate_count, [&](LocalRank<T> entry, int above) {
    if (above < k) {
      const unsigned index = static_cast<unsigned>(local_index<T>(entry) + start);
      push_pair(list_there + static_cast<unsigned>(above * kPushBytes),
                make_uint2(~index, key_of_local<T>(entry)), address_in_block(list_pushed, 0));
    }
  });
  if (place.rank == 0) {
    merge_lists(p, shared, place.blocks);
  }
}

}  // namespace versieve::kernels
