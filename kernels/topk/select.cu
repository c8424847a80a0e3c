// topk, variants `radix` and `gvr`, in one launch (Guess-Verify-Refine top-k). A cluster of blocks
// shares a row.
//   guess   gvr: a threshold from up to 512 hinted scores and 512 sampled ones (select_guess.cuh)
//   verify  gvr: one comparison a score; those that reach it are listed. The cluster sums a
//           histogram of the lists: the guess holds if there are at least k of them and no list
//           ran over; else what is left of the row goes the way of radix
//   refine  passes that narrow the range of the k-th key to one of 2,048 bins (select_search.cuh),
//           over the lists, or, radix, over the whole row from the leading bits on; at most 256
//           scores left: ranked by (key, index); one key left: its lowest indices
//           (select_emit.cuh)
// Grid: (a cluster of `cluster` blocks of 512 threads a row, call). A block's scores stay in
// registers if its part of the row is one chunk, else they are read again in each pass over the row
// (gvr: one). Traffic: traffic::topk, the row once. Bound by latency, at many long rows by issue
// and bandwidth.
#include <algorithm>
#include <type_traits>
#include <vector>

#include "kernels/common/call_list.cuh"
#include "kernels/common/cuda_check.h"
#include "kernels/common/launch_range.h"
#include "kernels/topk/select.h"
#include "kernels/topk/select_emit.cuh"
#include "kernels/topk/select_guess.cuh"
#include "kernels/topk/select_plan.cuh"
#include "kernels/topk/select_row.cuh"
#include "kernels/topk/select_search.cuh"
#include "model/launches/topk.h"
#include "model/words/assert.h"

namespace versieve::kernels {
namespace {

template <class T>
constexpr std::uint32_t kLastKey = static_cast<typename OrderBits<T>::Bits>(~0U);

__device__ inline SelectMemory select_memory(unsigned char* bytes, const SelectPlan& plan) {
  std::uint64_t* list = reinterpret_cast<std::uint64_t*>(bytes + sizeof(SelectShared));
  std::uint32_t* map = reinterpret_cast<std::uint32_t*>(list + plan.list_room);
  return {*reinterpret_cast<SelectShared*>(bytes), list, map, map + plan.map_words};
}

__device__ inline void clear(const SelectPlan& plan, const SelectMemory& memory) {
  const int t = static_cast<int>(threadIdx.x);
  for (int bin = t; bin < kTopkBins; bin += kSelectThreads) {
    memory.fixed.histogram[0][bin] = 0;
  }
  for (int word = t; word < plan.map_words; word += kSelectThreads) {
    memory.above_map[word] = 0;
  }
  if (t < kCoarseBins) {
    memory.fixed.coarse_sum[0][t] = 0;
  }
  if (t == 0) {
    memory.fixed.counts = {};
    memory.fixed.chosen_before = 0;
    memory.fixed.list_count = 0;
    memory.fixed.overflows = 0;
  }
}

// A row on its way through a block.
template <class T, int kItems>
struct RowSearch {
  cooperative_groups::cluster_group cluster;
  RowPart<T> part;
  OwnScores<T, kItems> own;
  SelectPlan plan;
  SelectMemory memory;
  KeyRange range;  // of the k-th
  int k = 0;       // at most the row's length
  int turn = 0;    // of the counting passes
  // The list holds all scores that reach the range; so many of them are this block's.
  bool listed = false;
  int list_count = 0;

  __device__ bool is_open() const {
    return range.inside > kMaxCandidates && range.low < range.last;
  }
};

// Lists the part's scores that reach the threshold, one chunk on its way while another is looked at
// where registers allow. REQUIRES: chunk 0 is loaded.
template <class T, int kItems>
__device__ inline void collect_chunks(RowSearch<T, kItems>& s, std::uint32_t threshold) {
  const int chunks = s.own.chunks(s.part);
  const int room = s.plan.list_room;
  if constexpr (OwnScores<T, kItems>::kWords <= 4) {
    OwnScores<T, kItems> next;
    for (int chunk = 1; chunk < chunks; ++chunk) {
      next.load(s.part, chunk);
      collect(s.own, s.part, threshold, room, s.memory);
      s.own = next;
    }
    collect(s.own, s.part, threshold, room, s.memory);
  } else {
    collect(s.own, s.part, threshold, room, s.memory);
    for (int chunk = 1; chunk < chunks; ++chunk) {
      s.own.load(s.part, chunk);
      collect(s.own, s.part, threshold, room, s.memory);
    }
  }
}

// gvr's first pass. True if the guess holds and so few scores reach it that the lists, already
// published, are the candidates.
template <class T, int kItems>
__device__ inline bool guess_and_verify(RowSearch<T, kItems>& s, std::int32_t hint,
                                        std::uint32_t sample) {
  SelectShared& shared = s.memory.fixed;
  const Guess guess = guess_threshold(s.part, hint, sample, s.plan, shared);
  collect_chunks(s, guess.threshold);
  const TopkBins bins = topk_bins(guess.threshold, guess.largest, s.range.last);
  __syncthreads();
  const int found = shared.list_count;
  s.list_count = min(found, s.plan.list_room);
  count_list_indices(s.list_count, s.part, bins, s.memory.list, shared.histogram[0]);
  if (threadIdx.x == 0) {
    shared.counts.candidates = s.list_count;
  }
  s.cluster.barrier_wait();  // all blocks have cleared what others add to
  if (found > s.plan.list_room && threadIdx.x < s.cluster.num_blocks()) {
    atomicAdd(s.cluster.map_shared_rank(&shared.overflows, threadIdx.x), 1);
  }
  exchange_counts(s.cluster, s.turn, shared);
  const int held = held_scores(s.turn, shared);
  if (shared.overflows > 0) {
    s.turn = 1;
    __syncthreads();
    return false;  // nothing is known but that many scores reach the guess
  }
  s.listed = held >= s.k;
  if (s.listed && held <= kMaxCandidates) {
    s.range = {.low = guess.threshold, .last = s.range.last, .above = 0, .inside = held};
    return true;
  }
  s.range = narrow(s.cluster, s.range, bins, held, s.turn, s.k, shared);
  s.turn = 1;
  return false;
}

// One more counting pass, over the list or the row.
template <class T, int kItems>
__device__ inline void count_and_narrow(RowSearch<T, kItems>& s, std::uint32_t (&key)[kItems]) {
  SelectShared& shared = s.memory.fixed;
  const TopkBins bins = topk_bins(s.range.low, s.range.last, s.range.last);
  const int chunks = s.own.chunks(s.part);
  if (s.listed) {
    count_list(s.list_count, bins, s.memory.list, shared.histogram[s.turn]);
  } else if (chunks <= 1) {
    count_keys(key, bins, shared.histogram[s.turn]);
  } else {
    for (int chunk = 0; chunk < chunks; ++chunk) {
      s.own.load(s.part, chunk);
      s.own.keys(s.part, key);
      count_keys(key, bins, shared.histogram[s.turn]);
    }
  }
  exchange_counts(s.cluster, s.turn, shared);
  s.range = narrow(s.cluster, s.range, bins, held_scores(s.turn, shared), s.turn, s.k, shared);
  s.turn = 1 - s.turn;
}

// Marks what the final range decides, for this block to choose and publish.
template <class T, int kItems>
__device__ inline void mark(RowSearch<T, kItems>& s, std::uint32_t (&key)[kItems], bool lists) {
  if (threadIdx.x == 0) {
    s.memory.fixed.counts.candidates = 0;
  }
  for (int word = static_cast<int>(threadIdx.x); !lists && word < s.plan.map_words;
       word += kSelectThreads) {
    s.memory.equal_map[word] = 0;
  }
  __syncthreads();
  const int chunks = s.own.chunks(s.part);
  if (s.listed) {
    mark_list(s.list_count, s.part, s.range, lists, s.memory);
    return;
  }
  for (int chunk = 0; chunk < chunks; ++chunk) {
    if (chunks > 1) {
      s.own.load(s.part, chunk);
      s.own.keys(s.part, key);
    }
    mark_own(s.own, key, s.part, s.range, lists, s.memory);
  }
}

// After the cluster's barrier behind the marks: choose among what is left, write.
template <class T, int kItems>
__device__ inline void finish(RowSearch<T, kItems>& s, const TopkParams<T>& p, std::int64_t row,
                              bool lists, std::uint64_t* candidates) {
  SelectShared& shared = s.memory.fixed;
  const int wanted = s.k - s.range.above;
  const unsigned rank = s.cluster.block_rank();
  CountsBefore before;
  if (lists) {
    before = gather_lists(s.cluster, candidates, shared);
  } else {
    before = sum_counts(s.cluster, shared);
  }
  s.cluster.barrier_arrive();  // nothing of other blocks is read after this
  int start = before.own.above;
  if (lists) {
    choose_candidates(s.part, rank, before.all.candidates, wanted, s.memory);
    start += shared.chosen_before;
  } else {
    choose_equals(wanted - before.own.equal, s.plan.map_words, s.memory);
    start += min(wanted, before.own.equal);
  }
  write_chosen(p, row, s.part, start, s.plan.map_words, s.memory);
  if (rank == 0) {
    write_padding(p, row);
  }
  s.cluster.barrier_wait();
}

// What a launch takes of a call.
template <class T>
struct SelectCall {
  TopkParams<T> p;
  SelectPlan plan;
};

template <class T, int kItems, int kCalls>
__global__ void __launch_bounds__(kSelectThreads, 2)
    topk_select_kernel(const __grid_constant__ CallList<SelectCall<T>, kCalls> calls) {
  extern __shared__ __align__(16) unsigned char bytes[];
  const cooperative_groups::cluster_group cluster = cooperative_groups::this_cluster();
  const int blocks = static_cast<int>(cluster.num_blocks());
  const std::int64_t row = blockIdx.x / static_cast<unsigned>(blocks);
  const TopkParams<T>& p = calls.at(blockIdx.y).p;
  const SelectPlan& plan = calls.at(blockIdx.y).plan;
  if (kCalls > 1 && row >= p.rows) {
    return;  // all blocks of a cluster
  }
  RowSearch<T, kItems> s{.cluster = cluster,
                         .part = row_part(p, row, static_cast<int>(cluster.block_rank()), blocks),
                         .plan = plan,
                         .memory = select_memory(bytes, plan)};
  s.k = static_cast<int>(p.k < p.length ? p.k : p.length);
  s.range = {.low = 1, .last = kLastKey<T>, .above = 0, .inside = s.part.length};
  if (s.k == s.part.length) {
    s.range = {.low = 1, .last = 0, .above = s.k, .inside = 0};
  }
  const bool guesses = plan.list_room > 0 && s.is_open();
  const std::int32_t hint = guesses ? own_hint(p, row) : -1;
  s.own.load(s.part, 0);
  const std::uint32_t sample = guesses ? sampled_key(s.part) : 0;
  clear(plan, s.memory);
  cluster.barrier_arrive();
  bool done = false;
  if (guesses) {
    done = guess_and_verify(s, hint, sample);
  } else {
    cluster.barrier_wait();
    __syncthreads();
  }

  std::uint32_t key[kItems];
  if (!s.listed && s.own.chunks(s.part) <= 1) {
    s.own.keys(s.part, key);
  }
  while (!done && s.is_open()) {
    count_and_narrow(s, key);
  }
  const bool lists = s.range.inside <= kMaxCandidates;
  if (!done) {
    mark(s, key, lists);
    cluster.sync();
  }
  finish(s, p, row, lists, done ? s.memory.list : s.memory.fixed.own_list);
}

template <int kItems, class T, int kCalls>
void enqueue(const CallList<SelectCall<T>, kCalls>& list, std::span<const SelectCall<T>> calls,
             int cluster, cudaStream_t stream) {
  const auto kernel = topk_select_kernel<T, kItems, kCalls>;
  const std::size_t bytes = most_of(calls, [](const SelectCall<T>& call) {
    return select_shared_bytes(call.plan.map_words, call.plan.list_room);
  });
  if (cluster > 8) {
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1));
  }
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             static_cast<int>(bytes)));
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim.x = static_cast<unsigned>(cluster);
  attribute.val.clusterDim.y = 1;
  attribute.val.clusterDim.z = 1;
  cudaLaunchConfig_t config{};
  const std::int64_t rows = most_of(calls, [](const SelectCall<T>& call) { return call.p.rows; });
  config.gridDim = dim3(static_cast<unsigned>(rows * cluster), static_cast<unsigned>(calls.size()));
  config.blockDim = dim3(kSelectThreads);
  config.dynamicSmemBytes = bytes;
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = 1;
  check(cudaLaunchKernelEx(&config, kernel, list));
}

template <class T>
SelectCall<T> select_call(const TopkParams<T>& p, const SelectPlan& plan) {
  SelectCall<T> call{.p = p, .plan = plan};
  if (p.variant != TopkVariant::kGvr) {
    call.p.hint = nullptr;
  }
  return call;
}

template <class T>
Traffic traffic_of(const SelectCall<T>& call) {
  const TopkParams<T>& p = call.p;
  const std::int64_t hints = p.hint == nullptr ? 0 : std::min<std::int64_t>(p.k, kSelectThreads);
  return traffic::topk(p.rows, p.length, p.k, sizeof(T), hints);
}

constexpr int kTogetherItems = 16;  // scores a thread, of several calls

}  // namespace

template <class T>
void launch_select(const TopkParams<T>& p, const SelectShape& shape, const LaunchContext& context) {
  VERSIEVE_ASSERT(p.rows >= 1 && p.length >= 1 && p.k >= 1, "topk needs rows, scores and k");
  VERSIEVE_ASSERT(select_fits(p, shape), "the rows fit a cluster in this shape");
  const CallList<SelectCall<T>, 1> list{{select_call(p, select_plan(p, shape))}};
  const std::span<const SelectCall<T>> calls(list.call);
  const LaunchRange range("topk", traffic_of(calls[0]), context.observer);
  switch (shape.items) {
    case 4:
      if constexpr (sizeof(T) == 4) {
        enqueue<4>(list, calls, shape.cluster, context.stream);
      }
      break;
    case 8:
      enqueue<8>(list, calls, shape.cluster, context.stream);
      break;
    case 16:
      enqueue<16>(list, calls, shape.cluster, context.stream);
      break;
    default:
      enqueue<32>(list, calls, shape.cluster, context.stream);
      break;
  }
}

template <class T>
void launch_select_together(std::span<const TopkParams<T>> calls, const LaunchContext& context) {
  // The rows of all, as many as there are of the longest.
  TopkParams<T> all = calls.front();
  all.rows = 0;
  for (const TopkParams<T>& p : calls) {
    VERSIEVE_ASSERT(p.rows >= 1 && p.length >= 1 && p.k >= 1, "topk needs rows, scores and k");
    all.rows += p.rows;
    all.length = std::max(all.length, p.length);
    all.k = std::max(all.k, p.k);
    all.variant = p.variant == TopkVariant::kGvr ? p.variant : all.variant;
  }
  SelectShape shape{select_shape(all).cluster, kTogetherItems};
  while (shape.cluster < kMaxCluster && !select_fits(all, shape)) {
    shape.cluster *= 2;  // many rows ask for small clusters, long ones for large
  }
  std::vector<SelectCall<T>> planned;
  Traffic traffic;
  for (TopkParams<T> p : calls) {
    const std::int64_t rows = p.rows;
    p.rows = all.rows;  // that share the chip
    VERSIEVE_ASSERT(select_fits(p, shape), "the rows fit a cluster in this shape");
    const SelectPlan plan = select_plan(p, shape);
    p.rows = rows;
    planned.push_back(select_call(p, plan));
    traffic += traffic_of(planned.back());
  }
  const LaunchRange range("topk", traffic, context.observer);
  launch_lists<SelectCall<T>>(planned, [&](const auto& list, std::span<const SelectCall<T>> some) {
    enqueue<kTogetherItems>(list, some, shape.cluster, context.stream);
  });
}

template void launch_select<float>(const TopkParams<float>&, const SelectShape&,
                                   const LaunchContext&);
template void launch_select<Bf16>(const TopkParams<Bf16>&, const SelectShape&,
                                  const LaunchContext&);
template void launch_select_together<float>(std::span<const TopkParams<float>>,
                                            const LaunchContext&);
template void launch_select_together<Bf16>(std::span<const TopkParams<Bf16>>, const LaunchContext&);

}  // namespace versieve::kernels
