// Rows of up to 1,024 logits (small vocabularies, the demo pair's): a warp a row, everything in
// registers. Lane l owns logits l, l + 32, ...; each of k rounds takes the best of what is left.
// The normaliser adds a lane's elements ascending, then lanes pairwise (warp_sum).
#pragma once

#include "kernels/common/block_reduce.cuh"
#include "kernels/common/dependent_launch.cuh"
#include "kernels/ops.h"
#include "kernels/top_logits/local_rank.cuh"

namespace versieve::kernels {

inline constexpr int kShortRow = 1024;
inline constexpr int kShortRowLeast = 320;

// The k best of row `row`, by one warp: put(place, index, log-probability or 0 if nobody asks).
template <class T, int kOwn, class Put>
__device__ __forceinline__ void list_short_row(const TopLogitsParams<T>& p, int row,
                                               const Put& put) {
  using Rank = LocalRank<T>;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int vocab = static_cast<int>(p.vocab);
  const int k = static_cast<int>(p.k);
  const T* logits = p.logits + static_cast<std::int64_t>(row) * p.vocab;
  T own[kOwn];
#pragma unroll
  for (int i = 0; i < kOwn; ++i) {
    if (lane + 32 * i < vocab) {
      own[i] = logits[lane + 32 * i];
    }
  }
  Rank rank[kOwn];
#pragma unroll
  for (int i = 0; i < kOwn; ++i) {
    rank[i] = lane + 32 * i < vocab ? local_rank(own[i], lane + 32 * i) : Rank{0};
  }
  int listed[2] = {};  // places lane and lane + 32
#pragma unroll 1
  for (int place = 0; place < k; ++place) {
    Rank best = rank[0];
#pragma unroll
    for (int i = 1; i < kOwn; ++i) {
      best = rank[i] > best ? rank[i] : best;
    }
    best = best_of_warp(best);
    if (place % 32 == lane) {  // k <= 64
      (place < 32 ? listed[0] : listed[1]) = local_index<T>(best);
    }
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
      rank[i] = rank[i] == best ? Rank{0} : rank[i];
    }
  }
  const bool scores = p.log_probability != nullptr;
  float largest = 0.0F;
  float log_normaliser = 0.0F;
  if (scores) {
    largest = load_f32(logits + __shfl_sync(0xFFFFFFFFU, listed[0], 0));
    float sum = 0.0F;
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
      if (lane + 32 * i < vocab) {
        sum += expf(device_float(own[i]) - largest);
      }
    }
    log_normaliser = logf(warp_sum(sum));
  }
  for (int place = lane; place < k; place += 32) {
    const int index = place < 32 ? listed[0] : listed[1];
    put(place, index, scores ? (load_f32(logits + index) - largest) - log_normaliser : 0.0F);
  }
}

template <class T, int kOwn>
__global__ void __launch_bounds__(32)
    top_logits_short_kernel(const __grid_constant__ TopLogitsParams<T> p) {
  release_successors();
  wait_for_predecessors();
  const int row = static_cast<int>(blockIdx.x);
  list_short_row<T, kOwn>(p, row, [&](int place, int index, float log_probability) {
    const std::int64_t at = static_cast<std::int64_t>(row) * p.k + place;
    p.index[at] = index;
    if (p.log_probability != nullptr) {
      p.log_probability[at] = log_probability;
    }
  });
}

// Calls with the logits that a lane keeps of a row of `vocab` <= kShortRow: every round goes over
// them, so as few as the row takes; no bit depends on it.
template <class Call>
void with_own_logits(std::int64_t vocab, const Call& call) {
  if (vocab <= kShortRowLeast) {
    call.template operator()<kShortRowLeast / 32>();
  } else if (vocab <= kShortRow / 2) {
    call.template operator()<kShortRow / 64>();
  } else {
    call.template operator()<kShortRow / 32>();
  }
}

template <class T>
void launch_short_rows(const TopLogitsParams<T>& p, cudaStream_t stream) {
  with_own_logits(p.vocab, [&]<int kOwn>() {
    launch_dependent({.grid = dim3(static_cast<unsigned>(p.rows)), .threads = 32, .stream = stream},
                     top_logits_short_kernel<T, kOwn>, p);
  });
}

}  // namespace versieve::kernels
