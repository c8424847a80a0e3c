// topk of short rows in one launch, a row in the registers of one block (Guess-Verify-Refine top-k,
// without a guess: one costs more than the pass that it saves).
//   verify  a histogram of the row's scores, 2,048 bins of equal width in the scores or their
//           logarithms from the least to the largest
//   refine  the bin that holds the k-th: at most 128 scores are ranked by all pairs; more are
//           narrowed by bins of equal width in their keys, to one key or few scores
//   order   places by prefix sums over lanes and warps; indices gathered in shared memory, written
//           by neighbouring threads
// Grid: (a block of 1,024 threads a row, call), 8 or 16 scores a thread. It meets six times where
// one histogram decides. Traffic: traffic::topk, the row once. Bound by latency. Clusters of blocks
// and a threshold guessed from the row itself were slower (TRIED.md).
#include <algorithm>
#include <type_traits>

#include "kernels/common/call_list.cuh"
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

// The least and the largest of two numbers of each thread, over the row. Synchronises the block.
struct Extent {
  std::uint32_t least;
  std::uint32_t most;
};
__device__ inline Extent row_extent(std::uint32_t least, std::uint32_t most, ShortShared& shared) {
  least = __reduce_min_sync(kAllLanes, least);
  most = __reduce_max_sync(kAllLanes, most);
  if (threadIdx.x % 32 == 0) {
    shared.extents[threadIdx.x / 32] = {least, most};
  }
  __syncthreads();
  const uint2 its = shared.extents[threadIdx.x % 32];
  return {__reduce_min_sync(kAllLanes, its.x), __reduce_max_sync(kAllLanes, its.y)};
}

// The least finite score's key and the largest key.
template <class T, int kItems>
__device__ inline Extent scored_extent(const ShortKeys<T, kItems>& own, ShortShared& shared) {
  constexpr std::uint32_t kLowest = sizeof(T) == 4 ? 0x007FFFFFU : 0x007FU;  // of -infinity
  std::uint32_t most = 0;
  std::uint32_t least = kAllLanes;
#pragma unroll
  for (int i = 0; i < kItems; ++i) {
    most = max(most, own.key[i]);
    least = own.key[i] > kLowest ? min(least, own.key[i]) : least;
  }
  return row_extent(least, most, shared);
}

// Narrows [low, last] by bins of keys until few scores or one key are left. REQUIRES: the k-th is
// in the range, bins are clear and nobody reads them.
template <class T, int kItems>
__device__ inline ShortCut narrow_keys(const ShortKeys<T, kItems>& own, ShortCut cut, int k,
                                       ShortShared& shared) {
  while (cut.inside > kShortCandidates && cut.low < cut.last) {
    __syncthreads();
    clear_bins(shared);
    __syncthreads();
    const TopkBins bins = topk_bins(cut.low, cut.last, cut.last);
    count_bins(
        own.key, [&bins](std::uint32_t key) { return bins.holds(key) ? bins.bin_of(key) : -1; },
        shared);
    sum_bins(shared);
    const ShortBin found = find_bin(k - cut.above, shared);
    cut = {bins.low_of(found.bin), bins.last_of(found.bin), cut.above + found.above, found.inside};
  }
  return cut;
}

// The range of keys of the row's scores for which `inside(key)`. Synchronises the block.
template <int kItems, class Inside>
__device__ inline Extent keys_inside(const std::uint32_t (&key)[kItems], Inside inside,
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
  return row_extent(least, most, shared);
}

// Bit i: the thread's i-th score is past the cut, or inside it.
struct Marks {
  std::uint32_t above = 0;
  std::uint32_t inside = 0;
};

// Where the k-th is, and the marks.
template <class T, int kItems>
__device__ inline ShortCut search_short(const ShortKeys<T, kItems>& own, int k, Marks& marks,
                                        ShortShared& shared) {
  const Extent reach_to = scored_extent(own, shared);
  const ValueBins bins = value_bins<T>(reach_to.least, reach_to.most);
  const auto bin_of = [&bins](std::uint32_t key) { return key > 0 ? bins.bin_of<T>(key) : -1; };
  count_bins(own.key, bin_of, shared);
  sum_bins(shared);
  const ShortBin found = find_bin(k, shared);
  if (found.inside <= kShortCandidates) {
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      const int bin = bin_of(own.key[i]);
      marks.above |= bin > found.bin ? 1U << i : 0U;
      marks.inside |= bin == found.bin ? 1U << i : 0U;
    }
    return {0, 0, found.above, found.inside};
  }
  const Extent range = keys_inside(
      own.key, [&bin_of, &found](std::uint32_t key) { return bin_of(key) == found.bin; }, shared);
  const ShortCut cut =
      narrow_keys(own, {range.least, range.most, found.above, found.inside}, k, shared);
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

// Publishes how many scores each warp has marked, and lists those inside the cut if they are few.
// Synchronises the block.
template <class T, int kItems>
__device__ inline void publish_marks(const ShortRow<T>& row, const ShortKeys<T, kItems>& own,
                                     const Marks& marks, bool few, ShortShared& shared) {
  if (few && marks.inside != 0) {
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      if ((marks.inside >> i & 1U) != 0) {
        const int index = ShortKeys<T, kItems>::index_of_item(row, i);
        shared.candidates[atomicAdd(&shared.candidate_count, 1)] =
            rank_of(own.key[i], static_cast<std::uint32_t>(index));
      }
    }
  }
  const int above = __reduce_add_sync(kAllLanes, __popc(marks.above));
  const int inside = __reduce_add_sync(kAllLanes, __popc(marks.inside));
  if (threadIdx.x % 32 == 0) {
    shared.warp_counts[threadIdx.x / 32] = {above, inside};
  }
  __syncthreads();
}

// Marked scores of the row's warps before this one.
__device__ inline ShortCounts before_warp(const ShortShared& shared) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  const ShortCounts own =
      lane < static_cast<int>(threadIdx.x / 32) ? shared.warp_counts[lane] : ShortCounts{};
  return {__reduce_add_sync(kAllLanes, own.above), __reduce_add_sync(kAllLanes, own.inside)};
}

// Of few listed candidates the `wanted` highest are chosen: adds the thread's to marks.above.
// Returns how many of earlier warps are chosen. Synchronises the block.
template <class T, int kItems>
__device__ inline int choose_listed(const ShortRow<T>& row, const ShortKeys<T, kItems>& own,
                                    int wanted, Marks& marks, ShortShared& shared) {
  using Keys = ShortKeys<T, kItems>;
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int count = shared.candidate_count;
  const std::uint64_t* list = shared.candidates;
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
  const int warp_begin = row.index_of_word(Keys::word_of(0) - lane);
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

// Indices of the marked scores, in order; returns their number. Synchronises the block.
template <class T, int kItems>
__device__ inline int stage_chosen(const ShortRow<T>& row, const Marks& marks, int start,
                                   std::int32_t* staged, ShortShared& shared) {
  visit_in_order<T, kItems>(marks.above, [&](int w, int e, int place) {
    staged[start + place] = row.index_of_word(ShortKeys<T, kItems>::word_of(w)) + e;
  });
  const int count = __reduce_add_sync(kAllLanes, __popc(marks.above));
  if (threadIdx.x == kShortThreads - 1) {
    shared.staged_count = start + count;
  }
  __syncthreads();
  return shared.staged_count;
}

template <class T, int kItems, int kCalls>
__global__ void __launch_bounds__(kShortThreads, 1)
    topk_short_kernel(const __grid_constant__ CallList<TopkParams<T>, kCalls> calls) {
  extern __shared__ std::int32_t staged[];  // chosen indices, in order
  __shared__ ShortShared shared;
  const TopkParams<T>& p = calls.at(blockIdx.y);
  const std::int64_t at = blockIdx.x;
  if (kCalls > 1 && at >= p.rows) {
    return;
  }
  const T* scores = p.scores + at * p.length;
  const ShortRow<T> row{
      scores, static_cast<int>(p.length),
      static_cast<int>(reinterpret_cast<std::uintptr_t>(scores) % 16 / sizeof(T))};
  ShortKeys<T, kItems> own;
  own.load(row);
  clear_bins(shared);
  if (threadIdx.x == 0) {
    shared.candidate_count = 0;
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
    publish_marks(row, own, marks, false, shared);
    before = before_warp(shared);
  } else {
    const ShortCut cut = search_short(own, k, marks, shared);
    const int wanted = k - cut.above;
    const bool few = cut.inside <= kShortCandidates;
    publish_marks(row, own, marks, few, shared);
    before = before_warp(shared);
    chosen_before = few ? choose_listed(row, own, wanted, marks, shared)
                        : choose_lowest<T, kItems>(before.inside, wanted, marks);
  }
  const int count =
      stage_chosen<T, kItems>(row, marks, before.above + chosen_before, staged, shared);
  std::int32_t* indices = p.indices + at * p.k;
  T* values = p.values + at * p.k;
  for (int i = static_cast<int>(threadIdx.x); i < count; i += kShortThreads) {
    const int index = staged[i];
    indices[i] = index;
    values[i] = row.row[index];
  }
  for (std::int64_t i = k + static_cast<int>(threadIdx.x); i < p.k; i += kShortThreads) {
    indices[i] = -1;
    values[i] = minus_infinity_score<T>();
  }
}

template <class T>
std::int64_t most_positions(const TopkParams<T>& p) {
  const std::int64_t word = kWordElements<T>;
  const bool aligned = p.length % word == 0 && reinterpret_cast<std::uintptr_t>(p.scores) % 16 == 0;
  return p.length + (aligned ? 0 : word - 1);
}

template <class T, int kItems>
void enqueue(std::span<const TopkParams<T>> calls, cudaStream_t stream) {
  launch_lists(calls, [&](const auto& list, std::span<const TopkParams<T>> some) {
    const auto kernel = topk_short_kernel<T, kItems, std::decay_t<decltype(list)>::kCount>;
    const std::size_t bytes = static_cast<std::size_t>(most_of(
                                  some, [](const auto& p) { return std::min(p.k, p.length); })) *
                              sizeof(std::int32_t);
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               static_cast<int>(bytes)));
    const std::int64_t rows = most_of(some, [](const auto& p) { return p.rows; });
    const dim3 grid(static_cast<unsigned>(rows), static_cast<unsigned>(some.size()));
    kernel<<<grid, kShortThreads, bytes, stream>>>(list);
    check(cudaGetLastError());
  });
}

}  // namespace

template <class T>
bool short_rows_hold(const TopkParams<T>& p, int items) {
  return most_positions(p) <= std::int64_t{items} * kShortThreads &&
         p.rows < (std::int64_t{1} << 28);
}

template <class T>
int short_items(const TopkParams<T>& p) {
  if (p.variant == TopkVariant::kSort || !topk_takes_one_block(p.length, p.rows, p.k)) {
    return 0;
  }
  return short_rows_hold(p, 8) ? 8 : short_rows_hold(p, 16) ? 16 : 0;
}

template <class T>
void launch_short_rows_together(std::span<const TopkParams<T>> calls, int items,
                                const LaunchContext& context) {
  Traffic traffic;
  for (const TopkParams<T>& p : calls) {
    VERSIEVE_ASSERT(p.rows >= 1 && p.length >= 1 && p.k >= 1, "topk needs rows, scores and k");
    VERSIEVE_ASSERT((items == 8 || items == 16) && short_rows_hold(p, items),
                    "a block holds a row");
    traffic += traffic::topk(p.rows, p.length, p.k, sizeof(T), 0);
  }
  const LaunchRange range("topk", traffic, context.observer);
  if (items == 8) {
    enqueue<T, 8>(calls, context.stream);
  } else {
    enqueue<T, 16>(calls, context.stream);
  }
}

template <class T>
void launch_short_rows(const TopkParams<T>& p, int items, const LaunchContext& context) {
  launch_short_rows_together(std::span(&p, 1), items, context);
}

#define VERSIEVE_INSTANTIATE(T)                                                        \
  template bool short_rows_hold<T>(const TopkParams<T>&, int);                         \
  template int short_items<T>(const TopkParams<T>&);                                   \
  template void launch_short_rows<T>(const TopkParams<T>&, int, const LaunchContext&); \
  template void launch_short_rows_together<T>(std::span<const TopkParams<T>>, int,     \
                                              const LaunchContext&);
VERSIEVE_INSTANTIATE(float)
VERSIEVE_INSTANTIATE(Bf16)
#undef VERSIEVE_INSTANTIATE

}  // namespace versieve::kernels
