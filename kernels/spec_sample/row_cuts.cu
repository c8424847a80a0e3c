// The least logit of each row that a truncation keeps: top-k, top-p of what is left, min-p.
// Grid: a cluster of 1 to 16 blocks a row, as many as keep the chip busy; a block goes over its
// slice of the row once a step, from the first-level cache after the first.
// What is kept is every logit from some value on, so each rule is a search for the largest value
// with `goal` at or above it, of elements counted (top-k) or of weights (top-p). A step cuts the
// interval that holds the value into bins of equal width and goes on with the bin where the goal is
// reached, between the least and the largest of its elements: it ends when those are the same.
// Weights are whole numbers of 2^-40 of the largest, so that sums do not depend on their order.
// Calls of several requests share a launch, each with its own rules.
// Moves V logits once a row; bound by the exchanges of a step, some 3 of which it takes.
#include <algorithm>

#include "kernels/common/cuda_check.h"
#include "kernels/common/dependent_launch.cuh"
#include "kernels/common/launch_range.h"
#include "kernels/launch.h"
#include "kernels/ptx/cluster.cuh"
#include "kernels/spec_sample/chunk_law.cuh"
#include "kernels/spec_sample/together.h"
#include "model/launches/tree_sample.h"
#include "model/words/assert.h"

namespace versieve::kernels {
namespace {

constexpr int kCutThreads = 512;
constexpr int kCutBins = 1024;
constexpr int kCutBlocks = 16;          // of a row's cluster, at most
constexpr int kBusyBlocks = 2;          // of a launch, on each SM
constexpr float kUnit = 1099511627776;  // 2^40, of the largest weight

using Measure = unsigned long long;

struct Ends {
  float low, high;  // of finite elements; low > high: none
};

struct CutShared {
  unsigned low[kCutBins], high[kCutBins];  // this block's measure by bin, in two words
  Measure merged[kCutBins];                // of all blocks, of this block's share of the bins
  Measure total[kCutBlocks];               // of every block's share
  Ends ends[kCutBlocks];                   // every block's
  Ends warp_ends[kCutThreads / 32];
  int bin;         // where the goal is reached
  Measure before;  // measure of the bins above it
};

struct CutScale {
  float per_logit = 1.0F;  // log2(e) / T
  double temperature = 1.0;
};

template <class T>
struct CutSetting {
  RowCutsParams<T> p;
  CutScale scale;
  bool words = false;  // rows are whole 16-byte words
};

// A block's slice of a row.
template <class T>
struct Slice {
  const T* row;
  int begin, end, vocab;
  bool words;

  template <class Use>
  __device__ void each(const Use& use) const {
    constexpr int kWord = kWordElements<T>;
    for (int x = begin + static_cast<int>(threadIdx.x) * kWord; x < end; x += kCutThreads * kWord) {
      float z[kWord];
      if (words) {
        unpack<T>(__ldg(reinterpret_cast<const uint4*>(row + x)), z);
      } else {
#pragma unroll
        for (int i = 0; i < kWord; ++i) {
          z[i] = x + i < vocab ? load_f32(row + x + i) : -INFINITY;
        }
      }
#pragma unroll
      for (int i = 0; i < kWord; ++i) {
        use(z[i]);
      }
    }
  }
};

template <class T>
__device__ Slice<T> slice_of(const CutSetting<T>& a, const T* row, Place place) {
  constexpr int kWord = kWordElements<T>;
  const int vocab = static_cast<int>(a.p.vocab);
  const int words = (vocab + kWord - 1) / kWord;
  const int of_block = (words + place.blocks - 1) / place.blocks;
  const int begin = place.rank * of_block;
  return {row, min(begin, words) * kWord, min(begin + of_block, words) * kWord, vocab, a.words};
}

// Ends of all blocks' elements from this thread's. By all threads.
__device__ Ends exchange_ends(Place place, Ends own, CutShared& shared) {
  own.high = warp_largest(own.high);
  own.low = -warp_largest(-own.low);
  if (threadIdx.x % 32 == 0) {
    shared.warp_ends[threadIdx.x / 32] = own;
  }
  __syncthreads();
  if (threadIdx.x < 32) {
    const bool any = threadIdx.x < kCutThreads / 32;
    const Ends part = any ? shared.warp_ends[threadIdx.x] : Ends{INFINITY, -INFINITY};
    const Ends whole = {-warp_largest(-part.low), warp_largest(part.high)};
    if (static_cast<int>(threadIdx.x) < place.blocks) {
      *in_block(&shared.ends[place.rank], static_cast<int>(threadIdx.x)) = whole;
    }
  }
  cluster_sync();
  Ends all = {INFINITY, -INFINITY};
  for (int i = 0; i < place.blocks; ++i) {
    all.low = fminf(all.low, shared.ends[i].low);
    all.high = fmaxf(all.high, shared.ends[i].high);
  }
  return all;
}

// The bin of z in [ends.low, ends.high]: the largest in bin 0, the least in the last. In double, so
// that what differs is told apart whatever the width.
struct Binning {
  Ends ends;
  double per_unit;

  __device__ explicit Binning(Ends e)
      : ends(e), per_unit(kCutBins / (double{e.high} - double{e.low})) {}
  __device__ bool holds(float z) const { return z >= ends.low && z <= ends.high; }
  __device__ int of(float z) const {
    return min(kCutBins - 1, static_cast<int>((double{ends.high} - double{z}) * per_unit));
  }
};

// A 64-bit sum in two words of shared memory: whole numbers, so the order of adding is nothing.
__device__ inline void add_measure(CutShared& shared, int bin, Measure m) {
  const unsigned low = static_cast<unsigned>(m);
  unsigned high = static_cast<unsigned>(m >> 32);
  if (low != 0) {
    high += atomicAdd(shared.low + bin, low) + low < low ? 1U : 0U;
  }
  if (high != 0) {
    atomicAdd(shared.high + bin, high);
  }
}

// From all blocks' bins, this block's share of them: sums, and the share's total to every block.
__device__ void merge_bins(Place place, CutShared& shared) {
  const int share = kCutBins / place.blocks;
  cluster_sync();  // bins are filled
  for (int i = static_cast<int>(threadIdx.x); i < kCutBins; i += kCutThreads) {
    const int source = i % place.blocks;
    const int bin = place.rank * share + i / place.blocks;
    const unsigned low = *in_block(shared.low + bin, source);
    const unsigned high = *in_block(shared.high + bin, source);
    Measure sum = static_cast<Measure>(high) << 32 | low;
    for (int distance = 1; distance < place.blocks; distance *= 2) {
      sum += __shfl_xor_sync(0xFFFFFFFFU, sum, distance);
    }
    if (source == 0) {
      shared.merged[i / place.blocks] = sum;
    }
  }
  __syncthreads();
  if (threadIdx.x < 32) {
    Measure sum = 0;
    for (int i = static_cast<int>(threadIdx.x); i < share; i += 32) {
      sum += shared.merged[i];
    }
    for (int distance = 1; distance < 32; distance *= 2) {
      sum += __shfl_xor_sync(0xFFFFFFFFU, sum, distance);
    }
    if (static_cast<int>(threadIdx.x) < place.blocks) {
      *in_block(&shared.total[place.rank], static_cast<int>(threadIdx.x)) = sum;
    }
  }
  cluster_sync();
}

// By the block whose share of the bins reaches `goal`, which `before` of earlier shares do not: its
// bin, to every block.
__device__ void tell_bin(Place place, Measure goal, Measure before, CutShared& shared) {
  const int share = kCutBins / place.blocks;  // 64 or more
  const int lane = static_cast<int>(threadIdx.x);
  if (lane >= 32) {
    return;
  }
  const int of_lane = share / 32;
  Measure own = 0;
  for (int i = 0; i < of_lane; ++i) {
    own += shared.merged[lane * of_lane + i];
  }
  Measure inclusive = own;
  for (int distance = 1; distance < 32; distance *= 2) {
    const Measure other = __shfl_up_sync(0xFFFFFFFFU, inclusive, distance);
    inclusive += lane >= distance ? other : 0;
  }
  Measure at = before + inclusive - own;
  const bool here = at < goal && goal <= before + inclusive;
  if (!here) {
    return;  // one lane goes on
  }
  int bin = lane * of_lane;
  while (at + shared.merged[bin] < goal) {
    at += shared.merged[bin++];
  }
  for (int rank = 0; rank < place.blocks; ++rank) {
    *in_block(&shared.bin, rank) = place.rank * share + bin;
    *in_block(&shared.before, rank) = at;
  }
}

// The largest element with `goal` at or above it among those in `ends`; measure(z) is an element's.
// goal_of(total): the goal, once the measure of all is known. More than there is: the least.
template <class T, class Of, class GoalOf>
__device__ float find_cut(const Slice<T>& slice, Place place, Ends ends, const Of& measure,
                          const GoalOf& goal_of, CutShared& shared) {
  Measure goal = 0, above = 0;
  while (ends.low < ends.high) {
    const Binning bins(ends);
    for (int i = static_cast<int>(threadIdx.x); i < kCutBins; i += kCutThreads) {
      shared.low[i] = 0;
      shared.high[i] = 0;
    }
    __syncthreads();
    slice.each([&](float z) {
      if (bins.holds(z)) {
        add_measure(shared, bins.of(z), measure(z));
      }
    });
    merge_bins(place, shared);
    if (goal == 0) {
      Measure all = 0;
      for (int i = 0; i < place.blocks; ++i) {
        all += shared.total[i];
      }
      goal = goal_of(all);
      if (all < goal) {
        return ends.low;
      }
    }
    Measure before = above;
    int owner = 0;
    while (before + shared.total[owner] < goal) {
      before += shared.total[owner++];
    }
    if (place.rank == owner) {
      tell_bin(place, goal, before, shared);
    }
    cluster_sync();
    const int bin = shared.bin;
    above = shared.before;
    Ends own = {INFINITY, -INFINITY};
    slice.each([&](float z) {
      if (bins.holds(z) && bins.of(z) == bin) {
        own = {fminf(own.low, z), fmaxf(own.high, z)};
      }
    });
    ends = exchange_ends(place, own, shared);
  }
  return ends.high;
}

// The cut of the call's row `index`.
template <class T>
__device__ void cut_row(const CutSetting<T>& a, std::int64_t index, Place place,
                        CutShared& shared) {
  const RowCutsParams<T>& p = a.p;
  const T* const row =
      index < p.rows ? p.first + index * p.vocab : p.second + (index - p.rows) * p.vocab;
  const Slice<T> slice = slice_of(a, row, place);
  Ends own = {INFINITY, -INFINITY};
  slice.each([&](float z) {
    own.low = z > -INFINITY ? fminf(own.low, z) : own.low;
    own.high = fmaxf(own.high, z);
  });
  const Ends row_ends = exchange_ends(place, own, shared);
  Ends ends = row_ends;
  if (p.truncation.top_k > 0 && p.truncation.top_k < p.vocab) {
    const Measure goal = static_cast<Measure>(p.truncation.top_k);
    ends.low = find_cut(
        slice, place, ends, [](float) { return Measure{1}; }, [goal](Measure) { return goal; },
        shared);
  }
  if (p.truncation.top_p < 1.0) {
    const auto weight = [&](float z) {
      return static_cast<Measure>(
          __float2ull_rn(exp2_flushed(__fmul_rn(z - row_ends.high, a.scale.per_logit)) * kUnit));
    };
    const auto share = [&](Measure total) {
      return static_cast<Measure>(ceil(p.truncation.top_p * static_cast<double>(total)));
    };
    ends.low = find_cut(slice, place, ends, weight, share, shared);
  }
  if (place.rank == 0 && threadIdx.x == 0) {
    float cut = ends.low;
    if (p.truncation.min_p > 0.0) {  // exp((z - largest) / T) >= min_p
      cut = fmaxf(cut, __double2float_ru(double{row_ends.high} +
                                         a.scale.temperature * log(p.truncation.min_p)));
    }
    p.cuts[index] = fminf(cut, row_ends.high);
  }
}

template <class T>
__global__ void __launch_bounds__(kCutThreads, 2)
    row_cuts_kernel(const __grid_constant__ CutSetting<T> a) {
  __shared__ CutShared shared;
  release_successors();
  const Place place = cluster_place();
  cluster_sync();  // all blocks run
  wait_for_predecessors();
  cut_row(a, blockIdx.x / place.blocks, place, shared);
}

template <class T>
struct CutCalls {
  CutSetting<T> call[kMostSampled];
};

// Grid: rows of the call that has most, a cluster each; call.
template <class T>
__global__ void __launch_bounds__(kCutThreads, 2)
    row_cuts_of_calls_kernel(const __grid_constant__ CutCalls<T> calls) {
  __shared__ CutShared shared;
  release_successors();
  const Place place = cluster_place();
  const CutSetting<T>& a = calls.call[blockIdx.y];
  const std::int64_t index = blockIdx.x / place.blocks;
  if (index >= a.p.rows + a.p.more) {
    return;  // the whole cluster
  }
  cluster_sync();  // all blocks run
  wait_for_predecessors();
  cut_row(a, index, place, shared);
}

template <class T>
CutSetting<T> cut_setting(const RowCutsParams<T>& p) {
  VERSIEVE_ASSERT(p.temperature > 0.0 && p.truncation.cuts(), "one-hot rows are not cut");
  VERSIEVE_ASSERT(p.truncation.top_p > 0.0 && p.truncation.min_p <= 1.0 && p.vocab < (1 << 30),
                  "a truncation keeps the likeliest token");
  const auto at = [](const T* row) { return reinterpret_cast<std::uintptr_t>(row); };
  return {.p = p,
          .scale = {law_scale(p.temperature).per_logit, p.temperature},
          .words = p.vocab % kWordElements<T> == 0 &&
                   (at(p.first) | (p.more > 0 ? at(p.second) : 0)) % 16 == 0};
}

unsigned blocks_of(std::int64_t rows) {
  unsigned blocks = kCutBlocks;
  while (blocks > 1 && rows * blocks > std::int64_t{kBusyBlocks} * multiprocessors()) {
    blocks /= 2;
  }
  return blocks;
}

}  // namespace

template <class T>
void launch_row_cuts(const RowCutsParams<T>& p, const LaunchContext& context) {
  const CutSetting<T> a = cut_setting(p);
  const std::int64_t rows = p.rows + p.more;
  const unsigned blocks = blocks_of(rows);
  check(
      cudaFuncSetAttribute(row_cuts_kernel<T>, cudaFuncAttributeNonPortableClusterSizeAllowed, 1));
  const LaunchRange range("row_cuts", traffic::tree_tests(rows, p.vocab, sizeof(T)),
                          context.observer);
  launch_dependent({.grid = dim3(static_cast<unsigned>(rows) * blocks),
                    .threads = kCutThreads,
                    .cluster = blocks,
                    .stream = context.stream},
                   row_cuts_kernel<T>, a);
}

template <class T>
void launch_row_cuts_of_calls(std::span<const RowCutsParams<T>> calls,
                              const LaunchContext& context) {
  VERSIEVE_ASSERT(!calls.empty() && calls.size() <= kMostSampled, "a launch has so many calls");
  static_assert(sizeof(CutCalls<T>) <= 32764);  // of a kernel's parameters
  CutCalls<T> all{};
  std::int64_t rows = 0, most = 0;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    all.call[i] = cut_setting(calls[i]);
    const std::int64_t own = calls[i].rows + calls[i].more;
    rows += own;
    most = std::max(most, own);
  }
  const unsigned blocks = blocks_of(rows);
  check(cudaFuncSetAttribute(row_cuts_of_calls_kernel<T>,
                             cudaFuncAttributeNonPortableClusterSizeAllowed, 1));
  const LaunchRange range("row_cuts", traffic::tree_tests(rows, calls[0].vocab, sizeof(T)),
                          context.observer);
  launch_dependent(
      {.grid = dim3(static_cast<unsigned>(most) * blocks, static_cast<unsigned>(calls.size())),
       .threads = kCutThreads,
       .cluster = blocks,
       .stream = context.stream},
      row_cuts_of_calls_kernel<T>, all);
}

template void launch_row_cuts<float>(const RowCutsParams<float>&, const LaunchContext&);
template void launch_row_cuts<Bf16>(const RowCutsParams<Bf16>&, const LaunchContext&);
template void launch_row_cuts<F16>(const RowCutsParams<F16>&, const LaunchContext&);
template void launch_row_cuts_of_calls<float>(std::span<const RowCutsParams<float>>,
                                              const LaunchContext&);
template void launch_row_cuts_of_calls<Bf16>(std::span<const RowCutsParams<Bf16>>,
                                             const LaunchContext&);

}  // namespace versieve::kernels
