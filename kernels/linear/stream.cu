// linear in bf16: y[N, M] = x[N, K] w[M, K]^T, or silu(x wg^T) (x wu^T) with w = [wg; wu].
//
// Weights are the 64-row side of wgmma and tree nodes its column side, so a step of few nodes
// wastes little. A block owns 128 weight rows (two groups of 64: gate and up rows under swiglu), or
// 64 of a small matrix, and a slice of K. One thread fills a ring of 64-wide K tiles with bulk
// copies: the weights of the whole ring before it waits for the launches before this one, x after.
// A warpgroup multiplies a group. The blocks of one row tile's K slices form a cluster; each is
// sent its share of the rows' partial sums of all slices and adds them in ascending slice order.
// RMS norms are folded in: sums times 1 / RMS of the rows behind x, y times the next norm's weight.
//
// Bits: an output is sum over slices (ascending) of sum over 16-wide k steps (ascending) of the
// tensor core's product; the slices depend on K and M alone, so N and the tile sizes never show.
// Bound by streaming the weights while N is below some 200 nodes.
#include <limits>

#include "kernels/common/dependent_launch.cuh"
#include "kernels/common/warp.cuh"
#include "kernels/linear/stream.h"
#include "kernels/linear/stream_finish.cuh"
#include "kernels/linear/stream_fragments.cuh"
#include "kernels/linear/stream_outputs.cuh"
#include "kernels/linear/stream_partials.cuh"
#include "kernels/linear/stream_plan.cuh"
#include "kernels/linear/stream_ring.cuh"
#include "kernels/ptx/async_copy.cuh"
#include "kernels/ptx/block.cuh"
#include "kernels/ptx/bulk_copy.cuh"
#include "kernels/ptx/cluster.cuh"
#include "kernels/ptx/fence.cuh"
#include "kernels/ptx/mbarrier.cuh"
#include "kernels/ptx/shared_memory.cuh"
#include "model/words/assert.h"

namespace versieve::kernels {
namespace {

// Few nodes: all partial sums to where they are added, sent one by one; then y, a quad a thread of
// the warps that multiply. Not `live`: without effect, so that the instructions are there in time.
template <class Plan>
__device__ inline void finish_few(const LinearParams<Bf16>& p, const Tile& t, const Places& places,
                                  unsigned char* shared, int warp, const Quad& quad,
                                  const QuadInputs& in, float scale, bool live,
                                  const float (&sum)[Plan::kNodes / 8][4]) {
  const float* partials = reinterpret_cast<const float*>(shared + Plan::kReceivedAt);
  const bool multiplies = warp < Plan::kMultiplyWarps;
  if (t.slices > 1) {
    if (live) {
      cluster_wait();
    }
    if (multiplies) {
      send_partials<Plan>(t, warp / 4, places.ring + Plan::kReceivedAt, places.received, live, sum);
    }
    if (live) {
      barrier_wait(places.received, 0);
    }
  } else if (live) {
    float* const made = reinterpret_cast<float*>(shared);
    __syncthreads();  // the ring is free
    if (multiplies) {
      write_partials<Plan>(t, warp / 4, made, sum);
    }
    __syncthreads();
    partials = made;
  }
  if (!multiplies) {
    return;
  }
  float square = 0.0F;
  if (quad.exists && quad.m < p.m) {
    const float4 y = quad_sum<Plan>(p, t, quad, partials, scale);
    if (whole_quads(p)) {
      square = write_quad(p, quad, in, y, live);
    } else if (live) {
      square = write_elements(p, quad, y);
    }
  }
  add_squares<Plan>(p, t, quad, square, live);
}

// Many nodes, kRoundNodes at a time: partial sums to the blocks that finish their rows, then y.
template <class Plan>
__device__ inline void finish_rounds(const LinearParams<Bf16>& p, const Tile& t,
                                     const Places& places, int warp, const EndPlaces& of_end,
                                     FragmentEnd end, float (&sum)[Plan::kNodes / 8][4]) {
  const bool multiplies = warp < Plan::kMultiplyWarps;
  if (!Plan::kEarlySums || t.slices == 1) {
    __syncthreads();  // the ring is free
    if (!Plan::kOwnRoom && t.slices > 1) {
      cluster_arrive_relaxed();
    }
  } else if (!Plan::kOwnRoom && !multiplies) {
    cluster_arrive_relaxed();
  } else if (Plan::kOwnRoom && multiplies && t.k_tiles >= Plan::kStages) {
    const int tile = t.k_tiles - Plan::kStages;  // whose stage is used next
    barrier_wait(places.empty_of(tile % Plan::kStages), (tile / Plan::kStages) & 1);
  }
  if (t.slices > 1) {
    cluster_wait();  // all blocks may be sent to
  }
#pragma unroll 1
  for (int round = 0; round < Plan::kNodes / Plan::kRoundNodes; ++round) {
    const int first_local = round * Plan::kRoundNodes;
    const int node_count = min(Plan::kRoundNodes, t.node_count - first_local);
    if (node_count <= 0) {
      break;
    }
    if (multiplies) {
      write_fragments<Plan>(end, sum);
      if (t.slices > 1) {
        fence_for_copies();
        __syncwarp();
        send_fragments(end, places);
      }
    }
    if (round == 0 && warp != Plan::kMultiplyWarps) {
      meet<1, Plan::kMultiplyThreads + 32>();  // what the end needs besides is there too
    } else if (multiplies) {
      meet<2, Plan::kMultiplyThreads>();
    }
    if (multiplies && t.slices > 1) {
      barrier_wait(places.received, round & 1);
    }
    // Arriving says that what was sent here has come; before another round also that it was read.
    const bool last = first_local + Plan::kRoundNodes >= t.node_count;
    if (t.slices > 1 && last) {
      cluster_arrive_relaxed();
    }
    if (multiplies) {
      const int first_node = t.first_node + first_local;
      if (!end.whole) {
        finish_elements<Plan>(p, t, received_at<Plan>(places, t.k_tiles),
                              of_end.scale + static_cast<std::uint32_t>(first_local * 4),
                              first_node, node_count);
      } else if (Plan::kGroups == 2 && p.swiglu) {  // one group: never
        finish_fragments<Plan, true>(p, t, end, first_node, node_count);
      } else {
        finish_fragments<Plan, false>(p, t, end, first_node, node_count);
      }
    }
    if (t.slices > 1) {
      if (!last) {
        if (threadIdx.x == 0) {
          barrier_expect(places.received, received_bytes<Plan>(t));
        }
        cluster_arrive_relaxed();
      }
      cluster_wait();
    } else if (!last) {
      __syncthreads();
    }
    if constexpr (Plan::kNodes > Plan::kRoundNodes) {
      advance<Plan>(p, t, end);
#pragma unroll
      for (int i = 0; i < (Plan::kNodes - Plan::kRoundNodes) / 2; ++i) {  // the next round's
        sum[i / 4][i % 4] = sum[i / 4 + Plan::kRoundNodes / 8][i % 4];
      }
    }
  }
}

template <class Plan>
__global__ void __launch_bounds__(Plan::kThreads, Plan::kNodes > 8 ? 2 : 1)
    linear_stream_kernel(const __grid_constant__ StreamParams s) {
  extern __shared__ unsigned char unaligned[];
  __shared__ std::uint64_t barriers[2 * Plan::kStages + 1];
  unsigned char* const shared =
      unaligned + (kAlignment - shared_address(unaligned) % kAlignment) % kAlignment;
  const Places places{.ring = shared_address(shared),
                      .full = shared_address(barriers),
                      .empty = shared_address(barriers + Plan::kStages),
                      .received = shared_address(barriers + 2 * Plan::kStages)};
  const int warp = warp_of_block();
  const Tile t = own_tile<Plan>(s.p);

  if (threadIdx.x == Plan::kMultiplyWarps * 32) {
    for (int i = 0; i < Plan::kStages; ++i) {
      barrier_init(places.full_of(i), 1);
      barrier_init(places.empty_of(i), Plan::kMultiplyWarps);
    }
    barrier_init(places.received, 1);
    if (t.slices > 1) {  // other slices' partial sums of this block's rows; few nodes: its own too
      barrier_expect(places.received, Plan::kNodes == 8
                                          ? t.node_count * Plan::kGroups * kGroupRows * 4
                                          : received_bytes<Plan>(t));
    }
    fence_barrier_init();
    for (int i = 0; i < min(Plan::kStages, t.k_tiles); ++i) {
      copy_weights<Plan>(s, t, places, i);
    }
    prefetch_map(&s.nodes);
    if (!Plan::kReleasesLate || t.k_tiles <= Plan::kStages) {
      release_successors();
    }
  }
  __syncthreads();
  if (Plan::kOwnRoom && t.slices > 1) {
    cluster_arrive_relaxed();  // this block runs and its barriers are ready: it may be sent to
  }
  const auto make_sums = [&](float(&sum)[Plan::kNodes / 8][4]) {
    if (warp == Plan::kMultiplyWarps) {
      if (threadIdx.x % 32 == 0) {
        copy_tiles<Plan>(s, t, places);
      }
      __syncwarp();
    } else {
      multiply_tiles<Plan>(t, warp / 4, places, sum);
    }
  };
  const bool clears = t.slice == 0 && blockIdx.z == 0;
  if constexpr (Plan::kNodes == 8) {
    const Quad quad =
        quad_of<Plan>(s.p, t, t.first_node, t.node_count, static_cast<int>(threadIdx.x));
    QuadInputs in;
    float scale = 1.0F;
#pragma unroll 1
    for (int pass = 0; pass < 2; ++pass) {  // the first fetches the instructions of the end
      const bool live = pass == 1;
      float sum[1][4] = {};
      if (live) {
        wait_for_predecessors();
        if (warp < Plan::kMultiplyWarps) {  // what the end needs is on its way meanwhile
          scale = input_scale(s.p, quad.node);
          if (quad.exists && quad.m < s.p.m && whole_quads(s.p)) {
            in = quad_inputs(s.p, quad);
          }
        }
        float own[1][4] = {};  // products overlap only where nobody reads their sums in between
        make_sums(own);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          sum[0][i] = own[0][i];
        }
        if (clears) {
          clear_squares(s.p, t.first_node, t.node_count, static_cast<int>(threadIdx.x),
                        Plan::kThreads);
        }
      }
      finish_few<Plan>(s.p, t, places, shared, warp, quad, in, scale, live, sum);
    }
  } else {
    __shared__ float scale[Plan::kNodes];                    // of each node's sums
    __shared__ __align__(16) Bf16 next_weights[kGroupRows];  // of the next norm, of the share
    const EndPlaces of_end{.scale = shared_address(scale),
                           .residual = places.ring + Plan::kResidualAt,
                           .weights = shared_address(next_weights)};
    float sum[Plan::kNodes / 8][4] = {};
    FragmentEnd end;
    if (warp == Plan::kMultiplyWarps + 1) {
      const bool whole = whole_octets<Plan>(s.p, t);
      if (whole) {
        stage_weights<Plan>(s.p, t, next_weights);
      }
      wait_for_predecessors();
      const int lane = static_cast<int>(threadIdx.x % 32);
      if (whole) {
        fetch_residuals<Plan>(s.p, t, of_end.residual);
      }
#pragma unroll 1
      for (int node = lane; node < Plan::kNodes; node += 32) {
        scale[node] = input_scale(s.p, t.first_node + node);
      }
      if (clears) {
        clear_squares(s.p, t.first_node, t.node_count, lane, 32);
      }
      await_fetched();
    } else {
      if (warp != Plan::kMultiplyWarps) {
        end = plan_end<Plan>(s.p, t, places, of_end, warp);
        wait_for_predecessors();
      }
      make_sums(sum);
    }
    finish_rounds<Plan>(s.p, t, places, warp, of_end, end, sum);
  }
}

template <int kGroups, int kNodes, int kStages>
void launch_plan(const LinearParams<Bf16>& p, unsigned slices, cudaStream_t stream) {
  using Plan = StreamPlan<kGroups, kNodes, kStages>;
  const std::int64_t step = p.swiglu ? kGroupRows : kGroups * kGroupRows;
  const dim3 grid(slices, static_cast<unsigned>((p.n + kNodes - 1) / kNodes),
                  static_cast<unsigned>((p.m + step - 1) / step));
  const bool an_sm_each = grid.x * grid.y * grid.z <= kLinearBlocksWanted;
  // Gate and up start under the projection before them, whose blocks leave some SMs free: without
  // this, two blocks of theirs meet on such an SM and end last. With few nodes it loses (TRIED.md).
  const bool alone = kNodes > 8 && p.swiglu && an_sm_each;
  const bool joint = p.residual == nullptr && !p.swiglu && an_sm_each;
  const StreamParams s{
      .weights = matrix_map(p.w, p.swiglu ? 2 * p.m : p.m, p.k, kGroupRows),
      .nodes = matrix_map(p.x, p.n, p.k, kNodes),
      .p = p,
      .release_tiles = joint ? std::numeric_limits<int>::max() : Plan::kReleaseTiles};
  launch_dependent(
      {.grid = grid,
       .threads = Plan::kThreads,
       .cluster = slices,
       .shared_bytes = static_cast<std::size_t>(alone ? kAloneBytes : Plan::kSharedBytes),
       .stream = stream},
      linear_stream_kernel<Plan>, s);
}

// The ring is as deep as half an SM allows.
template <int kGroups>
void launch_groups(const LinearParams<Bf16>& p, unsigned slices, cudaStream_t stream) {
  constexpr bool kWide = kGroups == 2;
  const std::int64_t nodes = linear_tile_nodes(p.n, p.k, p.m, p.swiglu);
  if (nodes == 8) {
    launch_plan<kGroups, 8, kWide ? 6 : 10>(p, slices, stream);
  } else if (nodes == 16) {
    launch_plan<kGroups, 16, kWide ? 5 : 9>(p, slices, stream);
  } else if (nodes == 32) {
    launch_plan<kGroups, 32, kWide ? 5 : 9>(p, slices, stream);
  } else if (nodes == 64) {
    launch_plan<kGroups, 64, kWide ? 4 : 6>(p, slices, stream);
  } else {
    launch_plan<kGroups, 128, kWide ? 3 : 4>(p, slices, stream);
  }
}

}  // namespace

void launch_linear_stream(const LinearParams<Bf16>& p, cudaStream_t stream) {
  VERSIEVE_ASSERT(p.k % 8 == 0 && p.n >= 1, "the tensor-core form takes K in chunks of 8");
  VERSIEVE_ASSERT(p.n < (1 << 22) && p.m <= 65535 * kGroupRows, "the grid holds that many tiles");
  const LinearCut cut = linear_cut(p.k, p.m, p.swiglu);
  const unsigned slices = static_cast<unsigned>(cut.slices);
  cut.groups == 2 ? launch_groups<2>(p, slices, stream) : launch_groups<1>(p, slices, stream);
}

}  // namespace versieve::kernels
