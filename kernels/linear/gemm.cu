// linear in bf16 of many rows: y[N, M] = x[N, K] w[M, K]^T, or silu(x wg^T) (x wu^T) with
// w = [wg; wu], bound by the tensor cores.
//
// A block has an SM and makes tiles of y, 128 weight rows by 64 to 192 rows of x. One thread fills
// a ring of 64-wide K tiles; two warpgroups multiply 64 weight rows each.
// - linear_gemm_kernel: blocks stay and make tile after tile. The two blocks of a cluster work on
//   neighbouring tiles and copy half of what both read for both. Sums of a slice of K are added to
//   those of the slices before it in registers of their own, so a finished tile becomes y, 32 nodes
//   at a time, while the first products of the next tile run.
// - linear_slices_kernel, where tiles are too few for the chip: the slices of a tile are the blocks
//   of a cluster, each makes one and finishes its share of the tile's nodes.
//
// Bits: those of linear/stream.cu. The slices are the same function of K and M, 16-wide steps
// ascend in each, slices are added ascending from 0, weights are the 64-row side of wgmma; squares
// of a folded norm are added in the same shares of rows and the same order (gemm_outputs.cuh).
#include "kernels/common/dependent_launch.cuh"
#include "kernels/common/paired_map.h"
#include "kernels/common/warp.cuh"
#include "kernels/linear/gemm.h"
#include "kernels/linear/gemm_walk.cuh"
#include "kernels/ptx/block.cuh"
#include "kernels/ptx/cluster.cuh"
#include "model/words/assert.h"

namespace versieve::kernels {
namespace {

// What both kernels begin with.
template <class Plan>
__device__ inline void begin_block(const GemmParams& s, const Plan& plan, int readers) {
  release_successors();  // they start where blocks of this launch have ended
  if (threadIdx.x == Plan::kConsumers) {
    prefetch_map(&s.weights);
    prefetch_map(&s.nodes);
    plan.init(readers);
    fence_barrier_init();
  }
}

template <class Plan, bool kSwiglu>
__global__ void __launch_bounds__(Plan::kThreads, 1)
    linear_gemm_kernel(const __grid_constant__ GemmParams s) {
  extern __shared__ __align__(1024) unsigned char shared[];
  const Plan plan{shared_address(shared)};
  const int warp = warp_of_block();
  const int rank = cluster_rank();
  begin_block(s, plan, kGemmPair);
  cluster_sync();
  const GemmSpan span{.first_unit = static_cast<int>(blockIdx.x) / kGemmPair,
                      .unit_step = static_cast<int>(gridDim.x) / kGemmPair,
                      .first_k_tile = 0,
                      .k_tiles = first_k_tile(s, s.slices)};
  if (warp >= Plan::kConsumers / 32) {
    give_registers<Plan::kIdleRegisters>();
    if (threadIdx.x == Plan::kConsumers) {
      copy_gemm(s, plan, rank, span);
    }
    __syncwarp();
  } else {
    take_registers<Plan::kRegisters>();
    wait_for_predecessors();
    GemmWalk<Plan, kSwiglu> walk(s, plan, warp, rank);
    walk.run(span);
  }
  cluster_arrive_relaxed();  // the other block may still copy to this one, and free its stages
  cluster_wait();
}

template <class Plan, int kBlocks, int kSlices>
__global__ void __launch_bounds__(Plan::kThreads, 1)
    linear_slices_kernel(const __grid_constant__ GemmParams s) {
  extern __shared__ __align__(1024) unsigned char shared[];
  const Plan plan{shared_address(shared)};
  const int warp = warp_of_block();
  const int rank = cluster_rank();
  begin_block(s, plan, 1);
  using Walk = SliceWalk<Plan, kBlocks, kSlices>;
  if (threadIdx.x == Plan::kConsumers) {
    barrier_expect(plan.received(), Walk::kReceivedBytes);
  }
  __syncthreads();
  const int first = first_k_tile(s, rank * Walk::kOwnSlices);
  const GemmSpan span{.first_unit = static_cast<int>(blockIdx.x) / kBlocks,
                      .unit_step = static_cast<int>(gridDim.x) / kBlocks,
                      .first_k_tile = first,
                      .k_tiles = first_k_tile(s, (rank + 1) * Walk::kOwnSlices) - first};
  if (warp >= Plan::kConsumers / 32) {
    give_registers<Plan::kIdleRegisters>();
    if (threadIdx.x == Plan::kConsumers) {
      copy_gemm(s, plan, rank, span);
    }
    __syncwarp();
    cluster_arrive_relaxed();
    cluster_wait();
  } else {
    take_registers<Plan::kRegisters>();
    wait_for_predecessors();
    Walk::run(s, plan, warp, rank, span);
  }
}

template <class Plan>
GemmParams gemm_params(const LinearParams<Bf16>& p, const GemmCut& cut) {
  const LinearCut k_cut = linear_cut(p.k, p.m, p.swiglu);
  GemmParams s{.p = p,
               .sharing = cut.split          ? GemmSharing::kNothing
                          : cut.shares_nodes ? GemmSharing::kNodes
                                             : GemmSharing::kWeights,
               .row_units = static_cast<int>(cut.row_units),
               .node_units = static_cast<int>(cut.node_units),
               .band = static_cast<int>(cut.band),
               .slices = k_cut.slices,
               .slice_bits = 0,
               .keep_weights = cut.node_tiles <= kGemmPair ? kEvictFirst : kEvictNormal,
               .keep_nodes = kEvictNormal};
  while (1 << s.slice_bits < k_cut.slices) {
    ++s.slice_bits;
  }
  const int row_boxes = s.sharing == GemmSharing::kWeights ? kGemmRows / 2 : kGemmRows;
  const int node_boxes = s.sharing == GemmSharing::kNodes ? Plan::kNodes / 2 : Plan::kNodes;
  s.weights = p.swiglu ? paired_matrix_map(p.w, p.m, p.k, row_boxes / 16)
                       : matrix_map(p.w, p.m, p.k, row_boxes);
  s.nodes = matrix_map(p.x, p.n, p.k, node_boxes);
  return s;
}

template <class Plan>
void launch_kernel(void (*kernel)(GemmParams), const LinearParams<Bf16>& p, const GemmCut& cut,
                   cudaStream_t stream) {
  launch_dependent({.grid = dim3(static_cast<unsigned>(cut.blocks)),
                    .threads = Plan::kThreads,
                    .cluster = static_cast<unsigned>(cut.cluster),
                    .shared_bytes = Plan::kSharedBytes,
                    .stream = stream},
                   kernel, gemm_params<Plan>(p, cut));
}
template <class Plan>
void launch_tiles(const LinearParams<Bf16>& p, const GemmCut& cut, cudaStream_t stream) {
  launch_kernel<Plan>(p.swiglu ? linear_gemm_kernel<Plan, true> : linear_gemm_kernel<Plan, false>,
                      p, cut, stream);
}
// Slices of a tile shared out to 2 blocks, or one each to 4.
template <class Plan>
void launch_slices(const LinearParams<Bf16>& p, const GemmCut& cut, cudaStream_t stream) {
  const int slices = linear_cut(p.k, p.m, p.swiglu).slices;
  VERSIEVE_ASSERT(!p.swiglu && (slices == 2 || slices == 4), "2 or 4 slices are shared out");
  launch_kernel<Plan>(
      slices == 2 ? linear_slices_kernel<Plan, 2, 2> : linear_slices_kernel<Plan, 2, 4>, p, cut,
      stream);
}

using Plan64 = GemmPlan<64, 8>;
using Plan128 = GemmPlan<128, 6>;
using Plan192 = GemmPlan<192, 5>;

GemmCut cut_of(const LinearParams<Bf16>& p) {
  return linear_gemm_cut(p.n, p.k, p.m, p.swiglu, p.norm.y_weight != nullptr);
}

void launch_cut(const LinearParams<Bf16>& p, const GemmCut& cut, cudaStream_t stream) {
  if (cut.split && cut.cluster == 4) {
    launch_kernel<Plan128>(linear_slices_kernel<Plan128, 4, 4>, p, cut, stream);
  } else if (cut.split && cut.nodes == 64) {
    launch_slices<Plan64>(p, cut, stream);
  } else if (cut.split) {
    launch_slices<Plan128>(p, cut, stream);
  } else if (cut.nodes == 64) {
    launch_tiles<Plan64>(p, cut, stream);
  } else if (cut.nodes == 128) {
    launch_tiles<Plan128>(p, cut, stream);
  } else {
    launch_tiles<Plan192>(p, cut, stream);
  }
}

}  // namespace

bool linear_gemm_takes(const LinearParams<Bf16>& p) {
  const std::uintptr_t addresses = reinterpret_cast<std::uintptr_t>(p.y) |
                                   reinterpret_cast<std::uintptr_t>(p.y_copy) |
                                   reinterpret_cast<std::uintptr_t>(p.residual) |
                                   reinterpret_cast<std::uintptr_t>(p.norm.y_weight) |
                                   reinterpret_cast<std::uintptr_t>(p.norm.y_weighted);
  return cut_of(p).nodes > 0 && p.y_copy_stride % 8 == 0 && addresses % sizeof(uint4) == 0;
}

void launch_linear_gemm(const LinearParams<Bf16>& p, cudaStream_t stream) {
  VERSIEVE_ASSERT(linear_gemm_takes(p), "the caller has asked");
  launch_cut(p, cut_of(p), stream);
}

}  // namespace versieve::kernels
