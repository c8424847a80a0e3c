// A long row over a cluster of eight CTAs, so that eight SMs read it. Each CTA lists the best k of
// its part, as the one-CTA kernel does of a row; the first gathers the eight lists through the
// cluster's shared memory and ranks them by counting. The normaliser is the parts' sums under their
// own maxima, scaled and added in the parts' order. Parts follow from the vocabulary alone.
#pragma once

#include <cooperative_groups.h>

#include <cstdint>

#include "kernels/common/block_reduce.cuh"
#include "kernels/ops.h"
#include "kernels/topk/ranked_element.cuh"

namespace versieve::kernels {

constexpr int kSpreadBlocks = 8;
constexpr int kSpreadThreads = 512;
constexpr int kSpreadGroups = kSpreadThreads / 8;  // of eight lanes: their bests give the floor
constexpr std::int64_t kSpreadMaxK = 16;
constexpr std::int64_t kSpreadMinVocab = 16384;  // every part has more than k elements

template <class T>
constexpr int kSpreadPiece = 16 / static_cast<int>(sizeof(T));  // elements of one load

// Elements of a part; whole loads.
template <class T>
__host__ __device__ constexpr int part_size(int vocab) {
  constexpr int kStep = kSpreadBlocks * kSpreadPiece<T>;
  return (vocab + kStep - 1) / kStep * kSpreadPiece<T>;
}
// Elements that one group of lanes owns at most: only k groups can reach the floor.
template <class T>
constexpr int group_size(int vocab) {
  constexpr int kStep = kSpreadThreads * kSpreadPiece<T>;
  return (part_size<T>(vocab) + kStep - 1) / kStep * kSpreadPiece<T> * 8;
}

struct SpreadShared {
  std::uint64_t reduce_max[kSpreadThreads / 32];
  float reduce_sum[kSpreadThreads / 32];
  std::uint64_t group_best[kSpreadGroups];
  std::uint64_t floor;
  int candidate_count;
  std::uint64_t best[kSpreadMaxK];  // of the part, in order
  float largest;                    // of the part
  float sum;                        // of exp(x - largest)
};

// visit(index in the row, value) for this thread's elements of its part, ascending.
template <bool kVector, class T, class Visit>
__device__ void for_part_elements(const T* row, int begin, int end, const Visit& visit) {
  constexpr int kPiece = kSpreadPiece<T>;
#pragma unroll 4
  for (int first = begin + static_cast<int>(threadIdx.x) * kPiece; first < end;
       first += kSpreadThreads * kPiece) {
    if constexpr (kVector) {
      const uint4 word = *reinterpret_cast<const uint4*>(row + first);
      T piece[kPiece];
      memcpy(piece, &word, sizeof word);
#pragma unroll
      for (int j = 0; j < kPiece; ++j) {
        visit(first + j, piece[j]);
      }
    } else {
      for (int i = first; i < first + kPiece && i < end; ++i) {
        visit(i, row[i]);
      }
    }
  }
}

// The part's maximum and sum; a part of nothing but -inf adds nothing.
template <bool kVector, class T>
__device__ void sum_part(const T* row, int begin, int end, float largest, SpreadShared& s) {
  const float shift = largest == -INFINITY ? 0.0F : largest;
  float sum = 0.0F;
  for_part_elements<kVector>(row, begin, end,
                             [&](int, T value) { sum += expf(load_f32(&value) - shift); });
  const float total = block_sum<kSpreadThreads>(sum, s.reduce_sum);
  if (threadIdx.x == 0) {
    s.largest = largest;
    s.sum = total;
  }
}

// The best k of the part into s.best: what reaches the k-th best of the groups' bests, by counting.
template <bool kVector, class T>
__device__ void list_part(const T* row, int begin, int end, int k, std::uint64_t own_best,
                          SpreadShared& s, std::uint64_t* candidate) {
  const int thread = static_cast<int>(threadIdx.x);
  std::uint64_t group_best = own_best;
  for (int distance = 4; distance > 0; distance /= 2) {
    const std::uint64_t other = __shfl_xor_sync(0xFFFFFFFFU, group_best, distance);
    group_best = other > group_best ? other : group_best;
  }
  if (thread % 8 == 0) {
    s.group_best[thread / 8] = group_best;
  }
  if (thread == 0) {
    s.floor = 0;
    s.candidate_count = 0;
  }
  __syncthreads();
  if (thread < kSpreadGroups) {
    const std::uint64_t own = s.group_best[thread];
    int above = 0;
    for (int other = 0; other < kSpreadGroups; ++other) {
      above += s.group_best[other] > own ? 1 : 0;
    }
    if (above == k - 1 && own != 0) {
      s.floor = own;  // a group without elements has 0; then the floor stays below everything
    }
  }
  __syncthreads();
  const std::uint64_t floor = s.floor;
  if (own_best >= floor && own_best != 0) {
    for_part_elements<kVector>(row, begin, end, [&](int i, T value) {
      const std::uint64_t rank = rank_of(value, i);
      if (rank >= floor) {
        candidate[atomicAdd(&s.candidate_count, 1)] = rank;  // any order: ranked below
      }
    });
  }
  __syncthreads();
  for (int c = thread; c < s.candidate_count; c += kSpreadThreads) {
    int above = 0;
    for (int other = 0; other < s.candidate_count && above < k; ++other) {
      above += candidate[other] > candidate[c] ? 1 : 0;
    }
    if (above < k) {
      s.best[above] = candidate[c];
    }
  }
}

// First CTA of the cluster: the best k of the parts' lists.
template <class T>
__device__ void gather_parts(const TopLogitsParams<T>& p, const T* row, std::int64_t out,
                             SpreadShared& s, std::uint64_t* gathered) {
  const cooperative_groups::cluster_group cluster = cooperative_groups::this_cluster();
  const int thread = static_cast<int>(threadIdx.x);
  const int k = static_cast<int>(p.k);
  const int count = kSpreadBlocks * k;
  if (thread < count) {
    gathered[thread] =
        cluster.map_shared_rank(&s, static_cast<unsigned>(thread / k))->best[thread % k];
  }
  float largest = 0.0F;
  float log_normaliser = 0.0F;
  if (p.log_probability != nullptr && thread < count) {
    float part_largest[kSpreadBlocks];
    float part_sum[kSpreadBlocks];
    largest = -INFINITY;
#pragma unroll
    for (int part = 0; part < kSpreadBlocks; ++part) {
      const SpreadShared* other = cluster.map_shared_rank(&s, static_cast<unsigned>(part));
      part_largest[part] = other->largest;
      part_sum[part] = other->sum;
      largest = fmaxf(largest, part_largest[part]);
    }
    float sum = 0.0F;
#pragma unroll
    for (int part = 0; part < kSpreadBlocks; ++part) {
      sum += part_sum[part] == 0.0F ? 0.0F : part_sum[part] * expf(part_largest[part] - largest);
    }
    log_normaliser = logf(sum);
  }
  __syncthreads();
  if (thread < count) {
    const std::uint64_t own = gathered[thread];
    int above = 0;
    for (int other = 0; other < count; ++other) {
      above += gathered[other] > own ? 1 : 0;
    }
    if (above < k) {
      p.index[out + above] = index_of(own);
      if (p.log_probability != nullptr) {
        p.log_probability[out + above] = (load_f32(row + index_of(own)) - largest) - log_normaliser;
      }
    }
  }
}

template <class T, bool kVector>
__global__ void __cluster_dims__(kSpreadBlocks, 1, 1) __launch_bounds__(kSpreadThreads)
    top_logits_spread_kernel(const __grid_constant__ TopLogitsParams<T> p) {
  __shared__ SpreadShared s;
  extern __shared__ std::uint64_t candidate[];  // [k * group_size], and the gathered lists
  const int part = static_cast<int>(blockIdx.x) % kSpreadBlocks;
  const std::int64_t row_index = blockIdx.x / kSpreadBlocks;
  const T* row = p.logits + row_index * p.vocab;
  const int vocab = static_cast<int>(p.vocab);
  const int begin = min(vocab, part * part_size<T>(vocab));
  const int end = min(vocab, begin + part_size<T>(vocab));
  std::uint64_t own_best = 0;  // below every element
  for_part_elements<kVector>(row, begin, end, [&](int i, T value) {
    const std::uint64_t rank = rank_of(value, i);
    own_best = rank > own_best ? rank : own_best;
  });
  const bool one = p.k == 1;
  if (one || p.log_probability != nullptr) {
    const std::uint64_t first = block_max<kSpreadThreads>(own_best, s.reduce_max);
    if (threadIdx.x == 0) {
      s.best[0] = first;
    }
    if (p.log_probability != nullptr) {
      sum_part<kVector>(row, begin, end, load_f32(row + index_of(first)), s);
    }
  }
  if (!one) {
    list_part<kVector>(row, begin, end, static_cast<int>(p.k), own_best, s, candidate);
  }
  cooperative_groups::this_cluster().sync();
  if (part == 0) {
    gather_parts(p, row, row_index * p.k, s, candidate);
  }
  cooperative_groups::this_cluster().sync();  // the lists are read no more
}

}  // namespace versieve::kernels
