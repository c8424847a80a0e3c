// top_logits of more than 1,024 logits (short_rows.cuh takes the others): a cluster of 8 blocks a
// row, 1,024 threads each. Block c owns the pieces p of 8
// logits with p / 1,024 % 8 == c, thread t of it those with p % 1,024 == t; all stay in registers.
// 1. Each thread's best; the row's largest is exchanged first, for the normaliser.
// 2. Block: the k-th best of the threads' bests, found bit by bit, is a floor under the block's
//    k-th best, so at most k threads hold anything that reaches it. What does is collected and
//    ranked by counting: a sorted list of k.
// 3. The first block merges 8 lists: an entry's place is how many entries stand above it.
// The normaliser adds a thread's elements ascending, lanes pairwise (warp_sum), warps pairwise, the
// blocks ascending. Starts under the launch before it. Bound by latency for a
// few rows, by reading the logits for many.
#include <cooperative_groups.h>

#include <cstdint>

#include "kernels/common/block_reduce.cuh"
#include "kernels/common/dependent_launch.cuh"
#include "kernels/common/launch_range.h"
#include "kernels/top_logits/launch.h"
#include "kernels/top_logits/short_rows.cuh"
#include "kernels/topk/ranked_element.cuh"
#include "model/assert.h"
#include "model/op_traffic.h"

namespace versieve::kernels {
namespace {

namespace cg = cooperative_groups;

constexpr int kThreads = 1024;
constexpr int kWarps = kThreads / 32;
static_assert(kWarps == 32, "one lane a warp in the second round");
constexpr int kBlocks = 8;  // of a cluster
constexpr int kPiece = 8;
constexpr int kMaxK = 64;
constexpr int kTurn = kBlocks * kThreads * kPiece;  // logits of one piece of every thread
constexpr std::int64_t kMaxVocab = 4 * kTurn;       // 262,144
constexpr int kIndexBits = 18;

template <class T>
struct alignas(16) Piece {
  T value[kPiece];
};

// The logits of one thread in ascending order; kTurns pieces of 8.
template <class T, int kTurns>
struct OwnLogits {
  T value[kTurns][kPiece];
  int first;  // index of value[0][0]
  int vocab;

  __device__ int index(int turn, int i) const { return first + turn * kTurn + i; }
  __device__ bool exists(int turn, int i) const { return index(turn, i) < vocab; }
};

// kVector: pieces are whole and on 16 bytes; the elements and their order are the same without.
template <class T, int kTurns, bool kVector>
__device__ inline OwnLogits<T, kTurns> load_own(const T* row, int vocab, unsigned block) {
  OwnLogits<T, kTurns> own;
  own.first = (static_cast<int>(block) * kThreads + static_cast<int>(threadIdx.x)) * kPiece;
  own.vocab = vocab;
#pragma unroll
  for (int turn = 0; turn < kTurns; ++turn) {
    const int at = own.index(turn, 0);
    if constexpr (kVector) {
      if (at < vocab) {
        const Piece<T> piece = *reinterpret_cast<const Piece<T>*>(row + at);
        for (int i = 0; i < kPiece; ++i) {
          own.value[turn][i] = piece.value[i];
        }
      }
    } else {
      for (int i = 0; i < kPiece; ++i) {
        if (at + i < vocab) {
          own.value[turn][i] = row[at + i];
        }
      }
    }
  }
  return own;
}

// visit(rank, value) for the elements that exist, ascending.
template <class T, int kTurns, class Visit>
__device__ inline void for_own(const OwnLogits<T, kTurns>& own, const Visit& visit) {
#pragma unroll
  for (int turn = 0; turn < kTurns; ++turn) {
#pragma unroll
    for (int i = 0; i < kPiece; ++i) {
      if (own.exists(turn, i)) {
        visit(own.index(turn, i), own.value[turn][i]);
      }
    }
  }
}

__device__ inline std::uint64_t warp_best(std::uint64_t rank) {
  const unsigned high = static_cast<unsigned>(rank >> 32);
  const unsigned best_high = __reduce_max_sync(0xFFFFFFFFU, high);
  const unsigned low = high == best_high ? static_cast<unsigned>(rank) : 0;
  return static_cast<std::uint64_t>(best_high) << 32 | __reduce_max_sync(0xFFFFFFFFU, low);
}

// The k-th largest of the threads' ranks, or 0 if fewer are above 0: the largest floor that k of
// them reach, bit by bit. Index bits above kIndexBits are ones in every rank.
template <class T>
__device__ inline std::uint64_t kth_rank(std::uint64_t own, int k) {
  constexpr int kKeyBits = static_cast<int>(sizeof(T)) * 8;
  constexpr std::uint64_t kOnes = 0xFFFFFFFFU & ~((std::uint64_t{1} << kIndexBits) - 1);
  if (__syncthreads_count(own > 0 ? 1 : 0) < k) {
    return 0;
  }
  std::uint64_t floor = 0;
  for (int bit = 31 + kKeyBits; bit >= 32; --bit) {
    const std::uint64_t higher = floor | (std::uint64_t{1} << bit);
    floor = __syncthreads_count(own >= higher ? 1 : 0) >= k ? higher : floor;
  }
  floor |= kOnes;
  for (int bit = kIndexBits - 1; bit >= 0; --bit) {
    const std::uint64_t higher = floor | (std::uint64_t{1} << bit);
    floor = __syncthreads_count(own >= higher ? 1 : 0) >= k ? higher : floor;
  }
  return floor;
}

// How many entries of a descending list of k stand above `rank`.
__device__ inline int count_above(const std::uint64_t* list, int k, std::uint64_t rank) {
  int low = 0;
  int high = k;
  while (low < high) {
    const int middle = (low + high) / 2;
    if (list[middle] > rank) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

struct Shared {
  std::uint64_t best[kBlocks];         // each block's largest rank
  float sum[kBlocks];                  // each block's part of the normaliser
  std::uint64_t list[kBlocks][kMaxK];  // each block's k best, descending; 0: none
  std::uint64_t warp_best[kWarps];
  float warp_sum[kWarps];
  std::uint64_t own_list[kMaxK];
  int candidate_count;
};

// This block's k best, descending, into own_list; 0 where there are fewer.
template <class T, int kTurns>
__device__ inline void list_own(const OwnLogits<T, kTurns>& own, std::uint64_t own_best, int k,
                                std::uint64_t* candidate, Shared& shared) {
  if (threadIdx.x == 0) {
    shared.candidate_count = 0;
  }
  if (threadIdx.x < static_cast<unsigned>(k)) {
    shared.own_list[threadIdx.x] = 0;
  }
  const std::uint64_t floor = kth_rank<T>(own_best, k);  // synchronises
  if (own_best > 0 && own_best >= floor) {
    for_own(own, [&](int index, T value) {
      const std::uint64_t rank = rank_of(value, index);
      if (rank >= floor) {
        candidate[atomicAdd(&shared.candidate_count, 1)] = rank;  // any order: ranked below
      }
    });
  }
  __syncthreads();
  for (int c = static_cast<int>(threadIdx.x); c < shared.candidate_count; c += kThreads) {
    int above = 0;
    for (int other = 0; other < shared.candidate_count && above < k; ++other) {
      above += candidate[other] > candidate[c] ? 1 : 0;
    }
    if (above < k) {
      shared.own_list[above] = candidate[c];
    }
  }
  __syncthreads();
}

template <class T, int kTurns, bool kVector>
__global__ void __launch_bounds__(kThreads, sizeof(T) * kTurns <= 4 ? 2 : 1)
    top_logits_kernel(const __grid_constant__ TopLogitsParams<T> p) {
  extern __shared__ std::uint64_t candidate[];  // [k * kTurns * kPiece], none if k is 1
  __shared__ Shared shared;
  cg::cluster_group cluster = cg::this_cluster();
  const unsigned block = cluster.block_rank();
  const std::int64_t row = blockIdx.y;
  const T* logits = p.logits + row * p.vocab;
  const int k = static_cast<int>(p.k);
  const bool first_block = block == 0;
  release_successors();
  // Who writes to another block's shared memory waits until that block runs. Nothing is published.
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
  wait_for_predecessors();

  const OwnLogits<T, kTurns> own =
      load_own<T, kTurns, kVector>(logits, static_cast<int>(p.vocab), block);
  unsigned best_key = 0;
  int best_index = -1;
  for_own(own, [&](int index, T value) {
    const unsigned key = order_key<T>(bits_of(value));
    if (best_index < 0 || key > best_key) {  // ascending: the lowest index of equals stays
      best_key = key;
      best_index = index;
    }
  });
  const std::uint64_t own_best =  // 0: below every element
      best_index < 0
          ? 0
          : static_cast<std::uint64_t>(best_key) << 32 | static_cast<unsigned>(~best_index);
  const unsigned warp = threadIdx.x / 32;
  const unsigned lane = threadIdx.x % 32;
  const std::uint64_t own_warp_best = warp_best(own_best);
  if (lane == 0) {
    shared.warp_best[warp] = own_warp_best;
  }
  __syncthreads();
  const std::uint64_t block_best = warp_best(shared.warp_best[lane]);
  asm volatile("barrier.cluster.wait.aligned;" ::: "memory");
  if (threadIdx.x < kBlocks) {
    cluster.map_shared_rank(&shared, threadIdx.x)->best[block] = block_best;
  }
  cluster.sync();
  std::uint64_t best = 0;
  for (int other = 0; other < kBlocks; ++other) {
    best = shared.best[other] > best ? shared.best[other] : best;
  }
  const float largest = load_f32(logits + index_of(best));

  if (p.log_probability != nullptr) {
    float sum = 0.0F;
    for_own(own, [&](int, T value) { sum += expf(device_float(value) - largest); });
    sum = warp_sum(sum);
    if (lane == 0) {
      shared.warp_sum[warp] = sum;
    }
    __syncthreads();
    if (warp == 0) {
      sum = warp_sum(shared.warp_sum[lane]);
      if (lane == 0) {
        cluster.map_shared_rank(&shared, 0)->sum[block] = sum;
      }
    }
  }
  if (k > 1) {
    list_own(own, own_best, k, candidate, shared);
    if (threadIdx.x < static_cast<unsigned>(k)) {
      cluster.map_shared_rank(&shared, 0)->list[block][threadIdx.x] = shared.own_list[threadIdx.x];
    }
  }
  cluster.sync();
  if (!first_block) {
    return;
  }
  float log_normaliser = 0.0F;
  if (p.log_probability != nullptr) {
    float sum = 0.0F;
    for (int other = 0; other < kBlocks; ++other) {
      sum += shared.sum[other];
    }
    log_normaliser = logf(sum);
  }
  const auto write = [&](int place, std::uint64_t rank) {
    p.index[row * k + place] = index_of(rank);
    if (p.log_probability != nullptr) {
      p.log_probability[row * k + place] =
          (load_f32(logits + index_of(rank)) - largest) - log_normaliser;
    }
  };
  if (k == 1) {
    if (threadIdx.x == 0) {
      write(0, best);
    }
    return;
  }
  const int from = static_cast<int>(threadIdx.x) / kMaxK;
  const int at = static_cast<int>(threadIdx.x) % kMaxK;
  if (from < kBlocks && at < k && shared.list[from][at] > 0) {
    const std::uint64_t rank = shared.list[from][at];
    int above = 0;
    for (int other = 0; other < kBlocks; ++other) {
      above += count_above(shared.list[other], k, rank);
    }
    if (above < k) {
      write(above, rank);
    }
  }
}

template <class T, int kTurns>
void launch_turns(const TopLogitsParams<T>& p, cudaStream_t stream) {
  const bool vector = p.vocab % kPiece == 0 && reinterpret_cast<std::uintptr_t>(p.logits) % 16 == 0;
  launch_dependent(
      {.grid = dim3(kBlocks, static_cast<unsigned>(p.rows)),
       .threads = kThreads,
       .cluster = kBlocks,
       .shared_bytes =
           p.k == 1 ? 0 : static_cast<std::size_t>(p.k * kTurns * kPiece) * sizeof(std::uint64_t),
       .stream = stream},
      vector ? top_logits_kernel<T, kTurns, true> : top_logits_kernel<T, kTurns, false>, p);
}

}  // namespace

template <class T>
void launch_top_logits(const TopLogitsParams<T>& p, const LaunchContext& context) {
  VERSIEVE_ASSERT(p.k >= 1 && p.k <= kMaxK, "top_logits takes k of 1 to 64");
  VERSIEVE_ASSERT(p.k <= p.vocab, "top_logits cannot list more logits than there are");
  VERSIEVE_ASSERT(p.vocab <= kMaxVocab, "top_logits on CUDA takes up to 262,144 logits a row");
  VERSIEVE_ASSERT(p.rows <= 65535, "top_logits on CUDA takes up to 65,535 rows");
  if (p.rows == 0) {
    return;
  }
  const LaunchRange range("top_logits", traffic::top_logits(p.rows, p.vocab, p.k, sizeof(T)),
                          context.observer);
  if (p.vocab <= kShortRow) {
    launch_short_rows(p, context.stream);
  } else if (p.vocab <= kTurn) {
    launch_turns<T, 1>(p, context.stream);
  } else if (p.vocab <= 2 * kTurn) {
    launch_turns<T, 2>(p, context.stream);
  } else {
    launch_turns<T, 4>(p, context.stream);
  }
}

template void launch_top_logits<float>(const TopLogitsParams<float>&, const LaunchContext&);
template void launch_top_logits<Bf16>(const TopLogitsParams<Bf16>&, const LaunchContext&);

}  // namespace versieve::kernels
