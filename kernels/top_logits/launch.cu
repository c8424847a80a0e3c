// top_logits: one block of 1,024 threads a row; thread t owns elements [4t, 4t + 4) of every piece
// of 4,096. The k-th best of the threads' own bests is a floor under the k-th best of all, so only
// what reaches it is collected (at most k threads' elements) and ranked by counting. Logits are
// read once, or twice with log-probabilities, and a third time by the few threads that collect.
// Bound by one SM's reads.
#include "kernels/common/block_reduce.cuh"
#include "kernels/common/cuda_check.h"
#include "kernels/common/launch_range.h"
#include "kernels/top_logits/launch.h"
#include "kernels/topk/ranked_element.cuh"
#include "model/assert.h"
#include "model/op_traffic.h"

namespace versieve::kernels {
namespace {

constexpr int kThreads = 1024;
constexpr int kPiece = 4;
constexpr std::int64_t kMaxK = 64;
constexpr std::int64_t kMaxVocab = 1 << 18;  // keeps the worst case's candidates in shared memory

template <class T>
struct alignas(kPiece * sizeof(T)) Piece {
  T value[kPiece];
};

// visit(index, value) for the elements of this thread, ascending. kVector: whole pieces, one load
// each; the elements and their order are the same without.
template <bool kVector, class T, class Visit>
__device__ void for_own_elements(const T* row, int vocab, const Visit& visit) {
#pragma unroll 4
  for (int first = static_cast<int>(threadIdx.x) * kPiece; first < vocab;
       first += kThreads * kPiece) {
    if constexpr (kVector) {
      const Piece<T> piece = *reinterpret_cast<const Piece<T>*>(row + first);
      for (int j = 0; j < kPiece; ++j) {
        visit(first + j, piece.value[j]);
      }
    } else {
      for (int i = first; i < first + kPiece && i < vocab; ++i) {
        visit(i, row[i]);
      }
    }
  }
}

// Sorts 1,024 ranks, highest first: a bitonic network.
__device__ void sort_descending(std::uint64_t* rank /* [kThreads] */) {
  const int i = static_cast<int>(threadIdx.x);
  for (int width = 2; width <= kThreads; width *= 2) {
    for (int distance = width / 2; distance > 0; distance /= 2) {
      const int partner = i ^ distance;
      if (partner > i) {
        const std::uint64_t a = rank[i];
        const std::uint64_t b = rank[partner];
        const bool descending = (i & width) == 0;
        if (descending ? a < b : a > b) {
          rank[i] = b;
          rank[partner] = a;
        }
      }
      __syncthreads();
    }
  }
}

template <class T, bool kVector>
__global__ void __launch_bounds__(kThreads, 1)
    top_logits_kernel(const __grid_constant__ TopLogitsParams<T> p) {
  __shared__ std::uint64_t best[kThreads];
  __shared__ std::uint64_t shared_max[kThreads / 32];
  __shared__ float shared_sum[kThreads / 32];
  __shared__ int candidate_count;
  extern __shared__ std::uint64_t candidate[];  // [candidate_capacity]
  const int vocab = static_cast<int>(p.vocab);
  const int k = static_cast<int>(p.k);
  const T* logits = p.logits + static_cast<std::int64_t>(blockIdx.x) * p.vocab;
  const std::int64_t out = static_cast<std::int64_t>(blockIdx.x) * p.k;

  std::uint64_t own_best = 0;  // below every element
  for_own_elements<kVector>(logits, vocab, [&](int i, T value) {
    const std::uint64_t rank = rank_of(value, i);
    own_best = rank > own_best ? rank : own_best;
  });
  const std::uint64_t first = block_max<kThreads>(own_best, shared_max);

  float log_normaliser = 0.0F;
  const float largest = load_f32(logits + index_of(first));
  if (p.log_probability != nullptr) {
    float sum = 0.0F;
    for_own_elements<kVector>(logits, vocab,
                              [&](int, T value) { sum += expf(load_f32(&value) - largest); });
    log_normaliser = logf(block_sum<kThreads>(sum, shared_sum));
  }
  const auto write = [&](int place, std::uint64_t rank) {
    p.index[out + place] = index_of(rank);
    if (p.log_probability != nullptr) {
      p.log_probability[out + place] =
          (load_f32(logits + index_of(rank)) - largest) - log_normaliser;
    }
  };
  if (k == 1) {
    if (threadIdx.x == 0) {
      write(0, first);
    }
    return;
  }

  best[threadIdx.x] = own_best;
  if (threadIdx.x == 0) {
    candidate_count = 0;
  }
  __syncthreads();
  sort_descending(best);
  const std::uint64_t floor = best[k - 1];
  if (own_best >= floor) {
    for_own_elements<kVector>(logits, vocab, [&](int i, T value) {
      const std::uint64_t rank = rank_of(value, i);
      if (rank >= floor) {
        candidate[atomicAdd(&candidate_count, 1)] = rank;  // any order: ranked below
      }
    });
  }
  __syncthreads();
  for (int c = static_cast<int>(threadIdx.x); c < candidate_count; c += kThreads) {
    int above = 0;
    for (int other = 0; other < candidate_count && above < k; ++other) {
      above += candidate[other] > candidate[c] ? 1 : 0;
    }
    if (above < k) {
      write(above, candidate[c]);
    }
  }
}

// At most k threads reach the floor, or all that own an element where fewer than k do.
std::int64_t candidate_capacity(std::int64_t vocab, std::int64_t k) {
  const std::int64_t pieces = (vocab + kThreads * kPiece - 1) / (kThreads * kPiece);
  return k * pieces * kPiece;
}

template <class T, bool kVector>
void launch_kernel(const TopLogitsParams<T>& p, cudaStream_t stream) {
  const std::size_t shared_bytes =
      static_cast<std::size_t>(candidate_capacity(p.vocab, p.k)) * sizeof(std::uint64_t);
  check(cudaFuncSetAttribute(top_logits_kernel<T, kVector>,
                             cudaFuncAttributeMaxDynamicSharedMemorySize,
                             static_cast<int>(shared_bytes)));
  top_logits_kernel<T, kVector>
      <<<static_cast<unsigned>(p.rows), kThreads, shared_bytes, stream>>>(p);
}

}  // namespace

template <class T>
void launch_top_logits(const TopLogitsParams<T>& p, const LaunchContext& context) {
  VERSIEVE_ASSERT(p.k >= 1 && p.k <= kMaxK, "top_logits takes k of 1 to 64");
  VERSIEVE_ASSERT(p.k <= p.vocab, "top_logits cannot list more logits than there are");
  VERSIEVE_ASSERT(p.vocab <= kMaxVocab, "top_logits on CUDA takes up to 262,144 logits a row");
  if (p.rows == 0) {
    return;
  }
  const LaunchRange range("top_logits", traffic::top_logits(p.rows, p.vocab, p.k, sizeof(T)),
                          context.observer);
  const bool whole_pieces =
      p.vocab % kPiece == 0 && reinterpret_cast<std::uintptr_t>(p.logits) % sizeof(Piece<T>) == 0;
  whole_pieces ? launch_kernel<T, true>(p, context.stream)
               : launch_kernel<T, false>(p, context.stream);
  check(cudaGetLastError());
}

template void launch_top_logits<float>(const TopLogitsParams<float>&, const LaunchContext&);
template void launch_top_logits<Bf16>(const TopLogitsParams<Bf16>&, const LaunchContext&);

}  // namespace versieve::kernels
