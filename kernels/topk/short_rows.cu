// topk of short rows in one launch, the row in the registers of one block or of a cluster of up to
// 8 (Guess-Verify-Refine top-k; what guess there is comes from the row itself).
//   guess   one block with 16 or 32 scores a thread, small k: one score a thread is a sample, a
//           warp's 32 of them ranked: a threshold that more than k scores reach, almost surely
//           (bins.cpp); else the row's least
//   verify  a histogram of the scores that reach it, 2,048 bins of equal width in the scores or
//           their logarithms up to the row's largest; if fewer than k reach it, the rest goes on
//   refine  the bin that holds the k-th: at most 128 scores are ranked by all pairs; more are
//           narrowed by bins of equal width in their keys, to one key or few scores
//   order   places by prefix sums over lanes, warps and blocks; indices gathered in shared memory,
//           written by neighbouring threads
// Grid: 1 to 8 blocks of 1,024 threads a row, 8 to 32 scores a thread; one block with 8 or 16 and
// no guess is what short_layout chooses, the rest is slower than select.cu (TRIED.md). A block
// meets six times where one histogram decides. Traffic: traffic::topk, the row once. Bound by
// latency.
#include <algorithm>
#include <cmath>

#include "kernels/common/cuda_check.h"
#include "kernels/common/launch_range.h"
#include "kernels/topk/select_emit.cuh"
#include "kernels/topk/short_rows.cuh"
#include "kernels/topk/short_rows.h"
#include "model/launches/topk.h"
#include "model/words/assert.h"

namespace versieve::kernels {
namespace {

// Of which scores the k-th largest is: keys in [low, last], if few or all equal.
struct ShortCut {
  std::uint32_t low;
  std::uint32_t last;
  int above;   // scores with keys > last
  int inside;  // in [low, last]
};

// The least and the largest of two numbers of each thread, over the row. The blocks meet.
struct Extent {
  std::uint32_t least;
  std::uint32_t most;
};
template <bool kAlone>
__device__ inline Extent row_extent(const ShortTeam<kAlone>& team, std::uint32_t least,
                                    std::uint32_t most, ShortShared& shared) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  least = __reduce_min_sync(kAllLanes, least);
  most = __reduce_max_sync(kAllLanes, most);
  if (lane < team.size()) {
    *team.of_block(&shared.extents[team.rank() * kShortWarps + static_cast<int>(threadIdx.x / 32)],
                   lane) = {least, most};
  }
  team.meet();
  for (int block = 0; block < team.size(); ++block) {
    const uint2 its = shared.extents[block * kShortWarps + lane];
    least = min(least, its.x);
    most = max(most, its.y);
  }
  return {__reduce_min_sync(kAllLanes, least), __reduce_max_sync(kAllLanes, most)};
}

// The threshold and the largest key. Without a guess the threshold is the least finite score's.
template <class T, int kItems, bool kAlone>
__device__ inline Extent guess_short(const ShortTeam<kAlone>& team, const ShortKeys<T, kItems>& own,
                                     const ShortPlan& plan, ShortShared& shared) {
  constexpr std::uint32_t kLowest = sizeof(T) == 4 ? 0x007FFFFFU : 0x007FU;  // of -infinity
  std::uint32_t most = 0;
  std::uint32_t least = kAllLanes;
#pragma unroll
  for (int i = 0; i < kItems; ++i) {
    most = max(most, own.key[i]);
    least = own.key[i] > kLowest ? min(least, own.key[i]) : least;
  }
  if constexpr (kAlone && kItems >= 16) {
    if (plan.sample_rank >= 0) {
      const std::uint32_t sampled = warp_ranked(own.sampled(), plan.sample_rank);
      if (threadIdx.x % 32 == 0) {
        shared.warp_sample[threadIdx.x / 32] = sampled;
      }
      const Extent all = row_extent(team, least, most, shared);
      const std::uint32_t other = shared.warp_sample[threadIdx.x % 32];
      const unsigned lane = threadIdx.x % 32;
      const unsigned warp = threadIdx.x / 32;
      const bool is_before = other > sampled || (other == sampled && lane < warp);
      if (__popc(__ballot_sync(kAllLanes, is_before)) == plan.rank_of_warps && lane == 0) {
        shared.threshold = max(sampled, kLowest + 1);
      }
      __syncthreads();
      return {shared.threshold, all.most};
    }
  }
  return row_extent(team, least, most, shared);
}

// Narrows [low, last] by bins of keys until few scores or one key are left. REQUIRES: the k-th is
// in the range, bins are clear and nobody reads them.
template <class T, int kItems, bool kAlone>
__device__ inline ShortCut narrow_keys(const ShortTeam<kAlone>& team,
                                       const ShortKeys<T, kItems>& own, ShortCut cut, int k,
                                       ShortShared& shared) {
  while (cut.inside > kShortCandidates && cut.low < cut.last) {
    team.meet();
    clear_bins(shared);
    __syncthreads();
    const TopkBins bins = topk_bins(cut.low, cut.last, cut.last);
    count_bins(
        own.key, [&bins](std::uint32_t key) { return bins.holds(key) ? bins.bin_of(key) : -1; },
        shared);
    sum_bins(team, shared);
    const ShortBin found = find_bin(team, k - cut.above, shared);
    cut = {bins.low_of(found.bin), bins.last_of(found.bin), cut.above + found.above, found.inside};
  }
  return cut;
}

// The range of keys of the row's scores for which `inside(key)`.
template <bool kAlone, int kItems, class Inside>
__device__ inline Extent keys_inside(const ShortTeam<kAlone>& team,
                                     const std::uint32_t (&key)[kItems], Inside inside,
                                     ShortShared& shared) {
  std::uint32_t least = kAllLanes;
  std::uint32_t most = 0;
#pragma unroll
  for (int i = 0; i < kItems; ++i) {
    if (inside(key[i])) {
      least = min(least, key[i]);
      most = max(most, key[i]);
    }
  }
  return row_extent(team, least, most, shared);
}

// Bit i: the thread's i-th score is past the cut, or inside it.
struct Marks {
  std::uint32_t above = 0;
  std::uint32_t inside = 0;
};

// Where the k-th is, and the marks.
template <class T, int kItems, bool kAlone>
__device__ inline ShortCut search_short(const ShortTeam<kAlone>& team,
                                        const ShortKeys<T, kItems>& own, int k,
                                        const ShortPlan& plan, Marks& marks, ShortShared& shared) {
  const Extent reach_to = guess_short(team, own, plan, shared);
  const ValueBins bins = value_bins<T>(reach_to.least, reach_to.most);
  const std::uint32_t threshold = plan.sample_rank < 0 ? 1 : reach_to.least;
  const auto bin_of = [&bins, threshold](std::uint32_t key) {
    return key >= threshold ? bins.bin_of<T>(key) : -1;
  };
  count_bins(own.key, bin_of, shared);
  sum_bins(team, shared);
  const ShortBin found = find_bin(team, k, shared);
  ShortCut cut{};
  if (found.bin >= 0 && found.inside <= kShortCandidates) {
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      const int bin = bin_of(own.key[i]);
      marks.above |= bin > found.bin ? 1U << i : 0U;
      marks.inside |= bin == found.bin ? 1U << i : 0U;
    }
    return {0, 0, found.above, found.inside};
  }
  Extent range{};
  if (found.bin < 0) {
    range = keys_inside(
        team, own.key, [threshold](std::uint32_t key) { return key > 0 && key < threshold; },
        shared);
    cut = {range.least, range.most, found.above, kTopkBins};
  } else {
    range = keys_inside(
        team, own.key, [&bin_of, &found](std::uint32_t key) { return bin_of(key) == found.bin; },
        shared);
    cut = {range.least, range.most, found.above, found.inside};
  }
  cut = narrow_keys(team, own, cut, k, shared);
#pragma unroll
  for (int i = 0; i < kItems; ++i) {
    marks.above |= own.key[i] > cut.last ? 1U << i : 0U;
    marks.inside |= own.key[i] >= cut.low && own.key[i] <= cut.last ? 1U << i : 0U;
  }
  return cut;
}

// Before a word of a thread: marked scores of the warp's words that come before it.
template <class T, int kItems>
struct WarpOrder {
  static constexpr int kWord = kWordElements<T>;
  static constexpr int kWords = kItems / kWord;
  static constexpr int kFieldBits = kWord == 4 ? 8 : 16;  // a warp's word has 128 or 256 scores
  static constexpr int kFields = 32 / kFieldBits;
  static constexpr int kRegisters = (kWords + kFields - 1) / kFields;
  std::uint32_t before[kRegisters];  // in this lane's word, of lower lanes
  std::uint32_t whole[kRegisters];   // in all lanes' words

  __device__ explicit WarpOrder(std::uint32_t marks) {
    const int lane = static_cast<int>(threadIdx.x % 32);
#pragma unroll
    for (int r = 0; r < kRegisters; ++r) {
      std::uint32_t own = 0;
#pragma unroll
      for (int f = 0; f < kFields && r * kFields + f < kWords; ++f) {
        const std::uint32_t word = marks >> ((r * kFields + f) * kWord) & ((1U << kWord) - 1);
        own |= static_cast<std::uint32_t>(__popc(word)) << (f * kFieldBits);
      }
      std::uint32_t sum = own;
#pragma unroll
      for (int distance = 1; distance < 32; distance *= 2) {
        const std::uint32_t other = __shfl_up_sync(kAllLanes, sum, distance);
        sum += lane >= distance ? other : 0;
      }
      before[r] = sum - own;
      whole[r] = __shfl_sync(kAllLanes, sum, 31);
    }
  }
  __device__ static int field(const std::uint32_t (&of)[kRegisters], int w) {
    return static_cast<int>(of[w / kFields] >> (w % kFields * kFieldBits) &
                            ((1U << (kFieldBits - 1) << 1) - 1));
  }
};

// Calls `visit(item, place)` for each marked score of the thread: its place among the warp's, in
// the order of the row.
template <class T, int kItems, class Visit>
__device__ inline void visit_in_order(std::uint32_t marks, Visit visit) {
  using Order = WarpOrder<T, kItems>;
  const Order order(marks);
  int words_before = 0;
#pragma unroll
  for (int w = 0; w < Order::kWords; ++w) {
    int place = words_before + Order::field(order.before, w);
    std::uint32_t word = marks >> (w * Order::kWord) & ((1U << Order::kWord) - 1);
    while (word != 0) {
      visit(w, __ffs(static_cast<int>(word)) - 1, place);
      word &= word - 1;
      ++place;
    }
    words_before += Order::field(order.whole, w);
  }
}

// Publishes how many scores each warp and the block have marked, and lists those inside the cut if
// they are few. The blocks meet.
template <class T, int kItems, bool kAlone>
__device__ inline void publish_marks(const ShortTeam<kAlone>& team, const ShortRow<T>& row,
                                     const ShortKeys<T, kItems>& own, const Marks& marks, bool few,
                                     ShortShared& shared) {
  if (few && marks.inside != 0) {
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      if ((marks.inside >> i & 1U) != 0) {
        const int index = ShortKeys<T, kItems>::index_of_item(row, i);
        shared.own_list[atomicAdd(&shared.list_count, 1)] =
            rank_of(own.key[i], static_cast<std::uint32_t>(index));
      }
    }
  }
  const int above = __reduce_add_sync(kAllLanes, __popc(marks.above));
  const int inside = __reduce_add_sync(kAllLanes, __popc(marks.inside));
  if (threadIdx.x % 32 == 0) {
    shared.warp_counts[threadIdx.x / 32] = {above, inside};
    if constexpr (!kAlone) {
      atomicAdd(&shared.counts.above, above);
      atomicAdd(&shared.counts.inside, inside);
    }
  }
  team.meet();
}

// Marked scores of the row's warps before this one.
template <bool kAlone>
__device__ inline ShortCounts before_warp(const ShortTeam<kAlone>& team, ShortShared& shared) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  ShortCounts own =
      lane < static_cast<int>(threadIdx.x / 32) ? shared.warp_counts[lane] : ShortCounts{};
  if constexpr (!kAlone) {
    if (lane < team.rank()) {
      const ShortCounts theirs = *team.of_block(&shared.counts, lane);
      own = {own.above + theirs.above, own.inside + theirs.inside};
    }
  }
  return {__reduce_add_sync(kAllLanes, own.above), __reduce_add_sync(kAllLanes, own.inside)};
}

// The candidates of all blocks in one list; returns their number. Synchronises the block if there
// are other blocks.
template <bool kAlone>
__device__ inline int gather_candidates(const ShortTeam<kAlone>& team, ShortShared& shared) {
  if constexpr (kAlone) {
    return shared.list_count;
  } else {
    const int lane = static_cast<int>(threadIdx.x % 32);
    const int warp = static_cast<int>(threadIdx.x / 32);
    const int count = lane < team.size() ? *team.of_block(&shared.list_count, lane) : 0;
    if (warp < team.size()) {
      const int start = __reduce_add_sync(kAllLanes, lane < warp ? count : 0);
      const int its = __shfl_sync(kAllLanes, count, warp);
      const std::uint64_t* list = team.of_block(shared.own_list, warp);
      for (int i = lane; i < its; i += 32) {
        shared.candidates[start + i] = list[i];
      }
    }
    __syncthreads();
    return __reduce_add_sync(kAllLanes, count);
  }
}

// Of few listed candidates the `wanted` highest are chosen: adds the thread's to marks.above.
// Returns how many of earlier warps are chosen. Synchronises the block.
template <class T, int kItems, bool kAlone>
__device__ inline int choose_listed(const ShortTeam<kAlone>& team, const ShortRow<T>& row,
                                    const ShortKeys<T, kItems>& own, int wanted, Marks& marks,
                                    ShortShared& shared) {
  using Keys = ShortKeys<T, kItems>;
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int count = gather_candidates(team, shared);
  const std::uint64_t* list = kAlone ? shared.own_list : shared.candidates;
  for (int c = static_cast<int>(threadIdx.x / 32); c < count; c += kShortWarps) {
    const std::uint64_t its = list[c];
    int higher = 0;
    for (int first = 0; first < count; first += 32) {
      const bool is_higher = first + lane < count && list[first + lane] > its;
      higher += __popc(__ballot_sync(kAllLanes, is_higher));
    }
    if (higher == wanted - 1 && lane == 0) {
      shared.cut = its;
    }
  }
  __syncthreads();
  const std::uint64_t cut = shared.cut;
#pragma unroll
  for (int i = 0; i < kItems; ++i) {
    if ((marks.inside >> i & 1U) != 0) {
      const std::uint64_t its =
          rank_of(own.key[i], static_cast<std::uint32_t>(Keys::index_of_item(row, i)));
      marks.above |= its >= cut ? 1U << i : 0U;
    }
  }
  const int warp_begin = row.index_of_word(Keys::word_of(row, 0) - lane);
  int before = 0;
  for (int c = lane; c < count; c += 32) {
    before += list[c] >= cut && index_of(list[c]) < warp_begin ? 1 : 0;
  }
  return __reduce_add_sync(kAllLanes, before);
}

// Of a plateau the `wanted` lowest indices are chosen; `before`: of earlier warps.
template <class T, int kItems>
__device__ inline int choose_lowest(int before, int wanted, Marks& marks) {
  std::uint32_t chosen = 0;
  visit_in_order<T, kItems>(marks.inside, [&](int w, int e, int place) {
    chosen |= before + place < wanted ? 1U << (w * kWordElements<T> + e) : 0U;
  });
  marks.above |= chosen;
  return min(before, wanted);
}

// Indices of the block's marked scores, in order; returns their number. Synchronises the block.
template <class T, int kItems>
__device__ inline int stage_chosen(const ShortRow<T>& row, const Marks& marks, int start,
                                   std::int32_t* staged, ShortShared& shared) {
  visit_in_order<T, kItems>(marks.above, [&](int w, int e, int place) {
    staged[start + place] = row.index_of_word(ShortKeys<T, kItems>::word_of(row, w)) + e;
  });
  const int count = __reduce_add_sync(kAllLanes, __popc(marks.above));
  if (threadIdx.x == kShortThreads - 1) {
    shared.staged_count = start + count;
  }
  __syncthreads();
  return shared.staged_count;
}

template <class T, int kItems, bool kAlone>
__global__ void __launch_bounds__(kShortThreads, 1)
    topk_short_kernel(const __grid_constant__ TopkParams<T> p,
                      const __grid_constant__ ShortPlan plan) {
  extern __shared__ std::int32_t staged[];  // of the block's chosen indices, in order
  __shared__ ShortShared shared;
  const ShortTeam<kAlone> team;
  const std::int64_t at = blockIdx.x / static_cast<unsigned>(team.size());
  const T* scores = p.scores + at * p.length;
  const ShortRow<T> row{scores, static_cast<int>(p.length),
                        static_cast<int>(reinterpret_cast<std::uintptr_t>(scores) % 16 / sizeof(T)),
                        team.rank() * kShortWarps};
  ShortKeys<T, kItems> own;
  own.load(row);
  clear_bins(shared);
  if (threadIdx.x == 0) {
    shared.list_count = 0;
    shared.counts = {};
  }
  if constexpr (!kAlone) {
    team.meet();  // all blocks run before any is written to
  }
  const int k = static_cast<int>(min(p.k, p.length));
  Marks marks;
  int chosen_before = 0;  // of those inside the cut, in earlier warps
  ShortCounts before;
  if (k == row.length) {
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      marks.above |= own.key[i] > 0 ? 1U << i : 0U;
    }
    __syncthreads();
    publish_marks(team, row, own, marks, false, shared);
    before = before_warp(team, shared);
  } else {
    const ShortCut cut = search_short(team, own, k, plan, marks, shared);
    const int wanted = k - cut.above;
    const bool few = cut.inside <= kShortCandidates;
    publish_marks(team, row, own, marks, few, shared);
    before = before_warp(team, shared);
    chosen_before = few ? choose_listed(team, row, own, wanted, marks, shared)
                        : choose_lowest<T, kItems>(before.inside, wanted, marks);
  }
  int block_start = 0;
  if constexpr (!kAlone) {
    // What earlier blocks have chosen: the first warp's places before it.
    if (threadIdx.x == 0) {
      shared.threshold = static_cast<std::uint32_t>(before.above + chosen_before);
    }
    __syncthreads();
    block_start = static_cast<int>(shared.threshold);
    team.cluster.barrier_arrive();  // nothing of other blocks is read after this
  }
  const int start = before.above + chosen_before - block_start;
  const int count = stage_chosen<T, kItems>(row, marks, start, staged, shared);
  std::int32_t* indices = p.indices + at * p.k + block_start;
  T* values = p.values + at * p.k + block_start;
  for (int i = static_cast<int>(threadIdx.x); i < count; i += kShortThreads) {
    const int index = staged[i];
    indices[i] = index;
    values[i] = row.row[index];
  }
  if (team.rank() == 0) {
    for (std::int64_t i = k + static_cast<int>(threadIdx.x); i < p.k; i += kShortThreads) {
      indices[i] = -1;
      values[i] = minus_infinity_score<T>();
    }
  }
  if constexpr (!kAlone) {
    team.cluster.barrier_wait();
  }
}

template <class T>
std::int64_t most_positions(const TopkParams<T>& p) {
  const std::int64_t word = kWordElements<T>;
  const bool aligned = p.length % word == 0 && reinterpret_cast<std::uintptr_t>(p.scores) % 16 == 0;
  return p.length + (aligned ? 0 : word - 1);
}

template <class T>
ShortPlan short_plan(const TopkParams<T>& p, const ShortLayout& layout) {
  if (p.k >= p.length || !layout.guesses) {
    return {};
  }
  constexpr int kMostTaken = 4;  // scores of a warp's sample taken away one by one
  const SampleRanks ranks = sample_ranks(p.length, p.k, kShortWarps);
  return ranks.in_warp > kMostTaken ? ShortPlan{} : ShortPlan{ranks.in_warp, ranks.of_warps};
}

template <class T, int kItems, bool kAlone>
void enqueue(const TopkParams<T>& p, const ShortLayout& layout, cudaStream_t stream) {
  const auto kernel = topk_short_kernel<T, kItems, kAlone>;
  const std::int64_t most =
      std::min({p.k, p.length, std::int64_t{kItems} * kShortThreads});  // a block chooses
  const std::size_t bytes = static_cast<std::size_t>(most) * sizeof(std::int32_t);
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             static_cast<int>(bytes)));
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim.x = static_cast<unsigned>(layout.blocks);
  attribute.val.clusterDim.y = 1;
  attribute.val.clusterDim.z = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(p.rows * layout.blocks));
  config.blockDim = dim3(kShortThreads);
  config.dynamicSmemBytes = bytes;
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = kAlone ? 0 : 1;
  check(cudaLaunchKernelEx(&config, kernel, p, short_plan(p, layout)));
}

template <class T, int kItems>
void enqueue_layout(const TopkParams<T>& p, const ShortLayout& layout, cudaStream_t stream) {
  if (layout.blocks == 1) {
    enqueue<T, kItems, true>(p, layout, stream);
  } else {
    enqueue<T, kItems, false>(p, layout, stream);
  }
}

}  // namespace

template <class T>
bool short_rows_hold(const TopkParams<T>& p, const ShortLayout& layout) {
  return most_positions(p) <= std::int64_t{layout.blocks} * layout.items * kShortThreads &&
         p.rows < (std::int64_t{1} << 28);
}

// With 16 scores a thread the guess of select.cu is faster unless k is a large part of the row.
template <class T>
ShortLayout short_layout(const TopkParams<T>& p) {
  constexpr std::int64_t kLargePart = 8;
  constexpr ShortLayout kShort{1, 8}, kDouble{1, 16};
  if (p.variant != TopkVariant::kSort && short_rows_hold(p, kShort)) {
    return kShort;
  }
  const bool large = kLargePart * p.k >= p.length;
  return p.variant != TopkVariant::kSort && large && short_rows_hold(p, kDouble) ? kDouble
                                                                                 : ShortLayout{};
}

template <class T>
void launch_short_rows(const TopkParams<T>& p, const ShortLayout& layout,
                       const LaunchContext& context) {
  VERSIEVE_ASSERT(p.rows >= 1 && p.length >= 1 && p.k >= 1, "topk needs rows, scores and k");
  VERSIEVE_ASSERT(layout.blocks >= 1 && layout.blocks <= kShortBlocks, "1 to 8 blocks a row");
  VERSIEVE_ASSERT(short_rows_hold(p, layout), "the blocks hold a row");
  const LaunchRange range("topk", traffic::topk(p.rows, p.length, p.k, sizeof(T), 0),
                          context.observer);
  switch (layout.items) {
    case 8:
      enqueue_layout<T, 8>(p, layout, context.stream);
      break;
    case 16:
      enqueue_layout<T, 16>(p, layout, context.stream);
      break;
    default:
      enqueue_layout<T, 32>(p, layout, context.stream);
      break;
  }
}

#define VERSIEVE_INSTANTIATE(T)                                                \
  template bool short_rows_hold<T>(const TopkParams<T>&, const ShortLayout&);  \
  template ShortLayout short_layout<T>(const TopkParams<T>&);                  \
  template void launch_short_rows<T>(const TopkParams<T>&, const ShortLayout&, \
                                     const LaunchContext&);
VERSIEVE_INSTANTIATE(float)
VERSIEVE_INSTANTIATE(Bf16)
#undef VERSIEVE_INSTANTIATE

}  // namespace versieve::kernels
