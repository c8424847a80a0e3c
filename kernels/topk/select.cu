// topk, variants `radix` and `gvr`, in one launch (seed 001). A cluster of blocks reads its row
// once and keeps the keys in registers; everything after is counting there.
//   guess   gvr: the spread of up to 512 hinted scores sets the bins of the first pass
//           (select_row.cuh); radix: the leading bits
//   verify  a histogram of the keys in the range, summed over the cluster (select_search.cuh): one
//           pass counts against 2,047 thresholds at once; the range shrinks to one bin, or to
//           what lies below if the guess was too high, and is then counted by radix
//   refine  at most 256 scores left: ranked by (key, index); one key left: its lowest indices
//           (select_emit.cuh)
// Grid: a cluster of `cluster` blocks of 512 threads a row. Traffic: traffic::topk, the row once.
// Bound by latency: the launch, the row's read, two barriers of the cluster.
#include <algorithm>

#include "kernels/common/cuda_check.h"
#include "kernels/common/launch_range.h"
#include "kernels/topk/select.h"
#include "kernels/topk/select_emit.cuh"
#include "kernels/topk/select_row.cuh"
#include "kernels/topk/select_search.cuh"
#include "model/assert.h"
#include "model/op_traffic.h"

namespace versieve::kernels {
namespace {

template <class T>
constexpr std::uint32_t kLastKey = static_cast<typename OrderBits<T>::Bits>(~0U);

__device__ inline void clear_shared(SelectShared& shared) {
  const int t = static_cast<int>(threadIdx.x);
  for (int bin = t; bin < kTopkBins; bin += kSelectThreads) {
    shared.histogram[0][bin] = 0;
  }
  if (t < kCoarseBins) {
    shared.coarse_sum[0][t] = 0;
  }
  shared.above_map[t] = 0;
  shared.equal_map[t] = 0;
  if (t == 0) {
    shared.counts = {};
    shared.chosen_before = 0;
  }
}

// Everything is known of the k-th: bits of this thread's word, and where the block writes.
template <class T>
__device__ inline void finish_row(const cooperative_groups::cluster_group& cluster,
                                  const TopkParams<T>& p, std::int64_t row, const RowPart<T>& part,
                                  const KeyRange& range, bool lists, int k, SelectShared& shared) {
  cluster.sync();
  const Before before = gather_lists(cluster, shared);
  cluster.barrier_arrive();  // nothing of other blocks is read after this
  const int wanted = k - range.above;
  std::uint32_t bits = 0;
  int start = before.own.above;
  if (lists) {
    choose_candidates(part, cluster.block_rank(), before.all.candidates, wanted, shared);
    bits = shared.above_map[threadIdx.x];
    start += shared.chosen_before;
  } else {
    bits = choose_equals(wanted - before.own.equal, shared) | shared.above_map[threadIdx.x];
    start += min(wanted, before.own.equal);
  }
  write_chosen(p, row, part, bits, start, shared);
  if (cluster.block_rank() == 0) {
    write_padding(p, row);
  }
  cluster.barrier_wait();
}

template <class T, int kItems>
__global__ void __launch_bounds__(kSelectThreads, 2)
    topk_select_kernel(const __grid_constant__ TopkParams<T> p) {
  __shared__ SelectShared shared;
  const cooperative_groups::cluster_group cluster = cooperative_groups::this_cluster();
  const int blocks = static_cast<int>(cluster.num_blocks());
  const std::int64_t row = blockIdx.x / static_cast<unsigned>(blocks);
  const RowPart<T> part = row_part(p, row, static_cast<int>(cluster.block_rank()), blocks);

  const std::int32_t hint = own_hint(p, row);
  OwnKeys<T, kItems> own;
  uint4 raw[OwnKeys<T, kItems>::kWords];
  own.request(part, raw);
  clear_shared(shared);
  cluster.barrier_arrive();  // cleared
  const int k = static_cast<int>(p.k < p.length ? p.k : p.length);
  KeyRange range{.low = 1, .last = kLastKey<T>, .above = 0, .inside = part.length};
  if (k == part.length) {
    range = {.low = 1, .last = 0, .above = part.length, .inside = 0};
  }
  TopkBins bins = uniform_bins(range);
  if (p.hint != nullptr) {
    bins = first_bins(part, hint, range, shared);
  }
  own.convert(part, raw);
  __syncthreads();
  cluster.barrier_wait();

  int turn = 0;
  while (range.inside > kMaxCandidates && range.low < range.last) {
    range = narrow_pass(cluster, own.key, range, bins, turn, k, shared);
    bins = uniform_bins(range);
    turn = 1 - turn;
  }
  const bool lists = range.inside <= kMaxCandidates;
  mark_own(own, part, range, lists, shared);
  finish_row(cluster, p, row, part, range, lists, k, shared);
}

template <class T, int kItems>
void enqueue(const TopkParams<T>& p, int cluster, cudaStream_t stream) {
  const auto kernel = topk_select_kernel<T, kItems>;
  if (cluster > 8) {
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1));
  }
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim.x = static_cast<unsigned>(cluster);
  attribute.val.clusterDim.y = 1;
  attribute.val.clusterDim.z = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(p.rows * cluster));
  config.blockDim = dim3(kSelectThreads);
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = 1;
  check(cudaLaunchKernelEx(&config, kernel, p));
}

// Positions of the row that needs most: its first score may lie behind a 16-byte boundary.
template <class T>
std::int64_t most_words(const TopkParams<T>& p) {
  const std::int64_t word = 16 / static_cast<std::int64_t>(sizeof(T));
  const bool aligned = p.length % word == 0 && reinterpret_cast<std::uintptr_t>(p.scores) % 16 == 0;
  return (p.length + (aligned ? 0 : word - 1) + word - 1) / word;
}

}  // namespace

template <class T>
bool select_fits(const TopkParams<T>& p, const SelectShape& shape) {
  const std::int64_t word = 16 / static_cast<std::int64_t>(sizeof(T));
  const bool known = (shape.items == 8 || shape.items == 16 || shape.items == 32 ||
                      (shape.items == 4 && word == 4)) &&
                     (shape.cluster == 1 || shape.cluster == 2 || shape.cluster == 4 ||
                      shape.cluster == 8 || shape.cluster == 16);
  const std::int64_t share =
      known ? (most_words(p) + shape.cluster - 1) / shape.cluster : 0;  // words a block
  return known && share * word <= std::int64_t{kSelectThreads} * shape.items &&
         p.rows <= (std::int64_t{1} << 31) / 16 - 1;
}

template <class T>
bool select_takes(const TopkParams<T>& p) {
  return p.length <= kSelectScores && select_fits(p, SelectShape{16, 32});
}

template <class T>
SelectShape select_shape(const TopkParams<T>& p) {
  for (const int cluster : {1, 2, 4, 8, 16}) {
    for (const int items : {4, 8, 16, 32}) {
      const SelectShape shape{cluster, items};
      if (select_fits(p, shape) && (p.rows * cluster >= 64 || cluster == 16 || items <= 8)) {
        return shape;
      }
    }
  }
  return {16, 32};
}

template <class T>
void launch_select(const TopkParams<T>& p, const SelectShape& shape, const LaunchContext& context) {
  VERSIEVE_ASSERT(p.rows >= 1 && p.length >= 1 && p.k >= 1, "topk needs rows, scores and k");
  VERSIEVE_ASSERT(select_fits(p, shape), "the rows fit on chip in this shape");
  TopkParams<T> call = p;
  if (p.variant != TopkVariant::kGvr) {
    call.hint = nullptr;
  }
  const std::int64_t hints = call.hint == nullptr ? 0 : std::min<std::int64_t>(p.k, kSelectThreads);
  const LaunchRange range("topk", traffic::topk(p.rows, p.length, p.k, sizeof(T), hints),
                          context.observer);
  switch (shape.items) {
    case 4:
      if constexpr (sizeof(T) == 4) {
        enqueue<T, 4>(call, shape.cluster, context.stream);
      }
      break;
    case 8:
      enqueue<T, 8>(call, shape.cluster, context.stream);
      break;
    case 16:
      enqueue<T, 16>(call, shape.cluster, context.stream);
      break;
    default:
      enqueue<T, 32>(call, shape.cluster, context.stream);
      break;
  }
  check(cudaGetLastError());
}

#define VERSIEVE_INSTANTIATE(T)                                           \
  template bool select_fits<T>(const TopkParams<T>&, const SelectShape&); \
  template bool select_takes<T>(const TopkParams<T>&);                    \
  template SelectShape select_shape<T>(const TopkParams<T>&);             \
  template void launch_select<T>(const TopkParams<T>&, const SelectShape&, const LaunchContext&);
VERSIEVE_INSTANTIATE(float)
VERSIEVE_INSTANTIATE(Bf16)
#undef VERSIEVE_INSTANTIATE

}  // namespace versieve::kernels
