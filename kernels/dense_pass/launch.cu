// The dense pass over a chain of many queries: out[h] = softmax(q[h] k / sqrt(d)) v over the
// committed keys and the chain's own up to the query. Grid: (block of 128 query rows, KV head,
// split of the keys), blocks that read the same keys side by side; then a warp a row merges the
// splits. Traffic: traffic::tree_attention and traffic::dense_pass_partials. Bound by memory at 32
// queries, by the tensor cores and the exponentials from 64 on.
#include <algorithm>
#include <type_traits>

#include "kernels/common/cuda_check.h"
#include "kernels/common/dependent_launch.cuh"
#include "kernels/common/launch_range.h"
#include "kernels/common/tensor_map.h"
#include "kernels/dense_pass/merge.cuh"
#include "kernels/dense_pass/pass_loop.cuh"
#include "kernels/launch.h"
#include "kernels/tree_attention/traffic.h"
#include "model/launches/dense_pass.h"
#include "model/words/assert.h"

namespace versieve::kernels {
namespace {

using Params = DensePassParams;

// Positions times splits are 32-bit.
constexpr std::int64_t kMostPositions = INT32_MAX / kPassSplits;

template <int kHeadDim>
__global__ void __launch_bounds__(PassPlan<kHeadDim>::kThreads, 1)
    dense_pass_kernel(const __grid_constant__ Params p, const __grid_constant__ PassMaps maps,
                      const __grid_constant__ ChunkPartials partials) {
  using Plan = PassPlan<kHeadDim>;
  extern __shared__ __align__(1024) unsigned char shared[];
  const Plan plan{shared_address(shared)};
  release_successors();
  if (threadIdx.x == Plan::kConsumers) {
    prefetch_map(&maps.k);
    prefetch_map(&maps.v);
    plan.init();
    publish_barriers();
  }
  __syncthreads();
  wait_for_predecessors();
  const PassTiles tiles(p);
  const TileSpan span = span_of(tiles, static_cast<int>(blockIdx.z), static_cast<int>(gridDim.z));
  if (threadIdx.x >= Plan::kConsumers) {
    give_registers<Plan::kIdleRegisters>();
    if (threadIdx.x == Plan::kConsumers) {
      fill_ring<kHeadDim>(maps, tiles, span, plan);
    }
  } else {
    take_registers<Plan::kRegisters>();
    load_queries<kHeadDim>(p, plan);
    PassLoop<kHeadDim> loop(p, tiles, span, plan);
    loop.run();
    loop.store(partials);
  }
}

template <int kHeadDim>
__global__ void __launch_bounds__(kMergeWarps * 32)
    dense_pass_merge_kernel(const __grid_constant__ Params p, const ChunkPartials partials) {
  release_successors();
  wait_for_predecessors();
  const std::int64_t row =
      static_cast<std::int64_t>(blockIdx.x) * kMergeWarps + static_cast<int>(threadIdx.x) / 32;
  if (row < p.num_queries * p.num_heads) {
    merge_splits<kHeadDim>(partials, row, p.out + row * kHeadDim);
  }
}

PassMaps pass_maps(const Params& p) {
  const auto map = [&p](const Bf16* rows, std::int64_t count) {
    return cache_map(rows, count, p.num_kv_heads, p.head_dim, kTilePassKeys);
  };
  const bool empty = p.context_len == 0;  // a map needs a row, though none is asked for
  const CUtensorMap k_tree = map(p.k_tree, p.num_nodes);
  const CUtensorMap v_tree = map(p.v_tree, p.num_nodes);
  return {.k = empty ? k_tree : map(p.k, p.context_len),
          .v = empty ? v_tree : map(p.v, p.context_len),
          .k_tree = k_tree,
          .v_tree = v_tree};
}

template <int kHeadDim>
void launch_pass(const Params& p, const DensePassCut& cut, const ChunkPartials& partials,
                 cudaStream_t stream) {
  using Plan = PassPlan<kHeadDim>;
  launch_dependent(
      {.grid = dim3(static_cast<unsigned>(cut.row_blocks), static_cast<unsigned>(p.num_kv_heads),
                    static_cast<unsigned>(cut.splits)),
       .threads = Plan::kThreads,
       .shared_bytes = Plan::kSharedBytes,
       .stream = stream},
      dense_pass_kernel<kHeadDim>, p, pass_maps(p), partials);
  check(cudaGetLastError());
}

template <int kHeadDim>
void launch_merge(const Params& p, const ChunkPartials& partials, cudaStream_t stream) {
  const std::int64_t rows = p.num_queries * p.num_heads;
  launch_dependent({.grid = dim3(static_cast<unsigned>((rows + kMergeWarps - 1) / kMergeWarps)),
                    .threads = kMergeWarps * 32,
                    .stream = stream},
                   dense_pass_merge_kernel<kHeadDim>, p, partials);
  check(cudaGetLastError());
}

}  // namespace

template <class T>
bool dense_pass_takes(const TreeAttentionParams<T>& p) {
  return std::is_same_v<T, Bf16> && p.dense_pass && p.splits_chain && p.query_node == nullptr &&
         p.num_queries == p.num_nodes && p.window == 0 && p.first_position == 0 &&
         p.selected.token == nullptr && p.joint.x == nullptr && p.weights == nullptr &&
         p.pages.page == nullptr && p.context_len + p.num_nodes < kMostPositions &&
         takes_dense_pass(p.num_heads, p.num_kv_heads, p.head_dim, p.num_queries, sizeof(T));
}
template bool dense_pass_takes<float>(const TreeAttentionParams<float>&);
template bool dense_pass_takes<Bf16>(const TreeAttentionParams<Bf16>&);

// Room for the most splits, so that it does not follow the context: recorded steps keep their
// scratch while passes run between them.
std::size_t dense_pass_scratch_bytes(const Params& p) {
  const std::int64_t splits = most_pass_splits(p.num_heads, p.num_kv_heads, p.num_queries);
  return static_cast<std::size_t>(p.num_queries * p.num_heads * splits * (p.head_dim + 2)) *
         sizeof(float);
}

void launch_dense_pass(const Params& p, const LaunchContext& context) {
  VERSIEVE_ASSERT(dense_pass_takes(p), "another launch takes it");
  VERSIEVE_ASSERT(context.scratch_bytes >= dense_pass_scratch_bytes(p),
                  "scratch is reserved before");
  const DensePassCut cut =
      dense_pass_cut(p.num_heads, p.num_kv_heads, p.num_queries, p.context_len + p.num_nodes);
  const std::int64_t rows = p.num_queries * p.num_heads;
  ChunkPartials partials{.value = static_cast<float*>(context.scratch), .chunks = cut.splits};
  partials.max_sum = partials.value + rows * cut.splits * p.head_dim;
  {
    Traffic attended = tree_attention_traffic(p);
    attended += traffic::dense_pass_partials(rows, cut.splits, p.head_dim, true);
    const LaunchRange range("dense_pass", attended, context.observer);
    p.head_dim == 64 ? launch_pass<64>(p, cut, partials, context.stream)
                     : launch_pass<128>(p, cut, partials, context.stream);
  }
  const LaunchRange range("dense_pass_merge",
                          traffic::dense_pass_partials(rows, cut.splits, p.head_dim, false),
                          context.observer);
  p.head_dim == 64 ? launch_merge<64>(p, partials, context.stream)
                   : launch_merge<128>(p, partials, context.stream);
}

}  // namespace versieve::kernels
