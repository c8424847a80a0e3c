// resa_decode in one launch, bf16, head sizes 64 and 128. Grid: (a cluster of 1 to 16 blocks a KV
// head, call); phases, parted by barriers of the cluster: score, select, write the list, attend,
// merge. Traffic: traffic::resa_decode and the partial results. Bound by memory with many key
// blocks, by the chain of the phases with few.
#include <algorithm>
#include <array>
#include <bit>

#include "kernels/common/dependent_launch.cuh"
#include "kernels/common/launch_range.h"
#include "kernels/common/tensor_map.h"
#include "kernels/ptx/cluster.cuh"
#include "kernels/ptx/fence.cuh"
#include "kernels/resa_decode/fused_attend.cuh"
#include "kernels/resa_decode/fused_launch.cuh"
#include "kernels/resa_decode/fused_score.cuh"
#include "kernels/resa_decode/fused_select.cuh"
#include "kernels/resa_decode/traffic_shape.h"
#include "model/words/assert.h"

namespace versieve::kernels {
namespace {

using Params = ResaDecodeParams<Bf16>;

// The KV head's list, written by all blocks of the cluster. Waits for the cluster's start.
template <int kHeadDim>
__device__ void choose_blocks(const Params& p, const ResaStep& s, const ResaScratch& scratch, int g,
                              Place place, unsigned char* memory, FusedShared& shared) {
  using Memory = FusedMemory<kHeadDim>;
  std::int32_t* out = p.indices + g * scratch.indices;
  const int free = static_cast<int>(s.free);
  const int kept = static_cast<int>(s.active - (s.blocks - s.free));
  if (place.rank == 0) {
#pragma unroll 1
    for (int i = static_cast<int>(threadIdx.x); i < s.blocks - s.free; i += kFusedThreads) {
      out[kept + i] = free + i;
    }
  }
  if (kept <= 0) {
    cluster_wait();
    return;
  }
  const int share = (free + place.blocks - 1) / place.blocks;
  const int first = min(free, place.rank * share);
  const int count = min(free, first + share) - first;
  std::uint32_t* keys = share <= Memory::kKeyRoom
                            ? reinterpret_cast<std::uint32_t*>(memory + Memory::kQueueBytes)
                            : scratch.rank + g * scratch.blocks + first;
  const KeyExtremes own = score_blocks<kHeadDim>(p, g, first, count, keys, memory);
  cluster_wait();  // all blocks run: their shared memory may be written
  const KeyExtremes range = share_range(shared, place, own);
  const KeyCut cut =
      find_cut(shared, *reinterpret_cast<DigitMemory*>(memory), place, keys, count, kept, range);
  write_chosen(shared, keys, first, count, cut, out);
}

template <int kHeadDim, int kCalls>
__global__ void __launch_bounds__(kFusedThreads, kHeadDim == 64 ? 2 : 1)
    resa_decode_kernel(const __grid_constant__ CallList<ResaCall<Bf16>, kCalls> calls,
                       const __grid_constant__ ListedMaps maps) {
  extern __shared__ __align__(1024) unsigned char memory[];
  __shared__ FusedShared shared;
  release_successors();
  if (threadIdx.x == 0) {
    prefetch_map(&maps.k);
    prefetch_map(&maps.v);
#pragma unroll 1
    for (std::uint64_t& barrier : shared.barriers) {
      barrier_init(shared_address(&barrier), 1);
    }
    barrier_init(shared_address(&shared.range_pushed), 1);
    barrier_init(shared_address(&shared.bins_pushed[0]), 1);
    barrier_init(shared_address(&shared.bins_pushed[1]), 1);
    publish_barriers();
  }
  __syncwarp();
  cluster_arrive_relaxed();
  const Place place = cluster_place();
  wait_for_predecessors();
  const Params& p = calls.at(blockIdx.y).p;
  const ResaScratch& scratch = calls.at(blockIdx.y).scratch;
  const int g = static_cast<int>(blockIdx.x) / place.blocks;
  const ResaStep s = resa_step(p);
  choose_blocks<kHeadDim>(p, s, scratch, g, place, memory, shared);
  // Shared memory turns from the threads' loads and stores to the copy engine's.
  fence_for_copies();
  cluster_sync();
  attend_list<kHeadDim>(p, maps, s, scratch, g, place, memory, shared);
  cluster_sync();
  merge_chunks<kHeadDim>(p, s, scratch, g, place, shared);
}

// Clusters of that size which run side by side.
template <int kHeadDim, int kCalls>
int clusters_at_once(int cluster) {
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim.x = static_cast<unsigned>(cluster);
  attribute.val.clusterDim.y = 1;
  attribute.val.clusterDim.z = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(cluster));
  config.blockDim = dim3(kFusedThreads);
  config.dynamicSmemBytes = FusedMemory<kHeadDim>::kBytes;
  config.attrs = &attribute;
  config.numAttrs = 1;
  int count = 0;
  check(cudaOccupancyMaxActiveClusters(&count, resa_decode_kernel<kHeadDim, kCalls>, &config));
  return count;
}

// Blocks of a cluster: as many as let all KV heads of all calls run at once.
template <int kHeadDim, int kCalls>
int cluster_for(std::span<const ResaCall<Bf16>> calls) {
  static const auto at_once = [] {
    check(cudaFuncSetAttribute(resa_decode_kernel<kHeadDim, kCalls>,
                               cudaFuncAttributeNonPortableClusterSizeAllowed, 1));
    check(cudaFuncSetAttribute(resa_decode_kernel<kHeadDim, kCalls>,
                               cudaFuncAttributeMaxDynamicSharedMemorySize,
                               FusedMemory<kHeadDim>::kBytes));
    std::array<int, 5> counts{};
    for (int i = 0; i < 5; ++i) {
      counts[static_cast<std::size_t>(i)] = clusters_at_once<kHeadDim, kCalls>(1 << i);
    }
    return counts;
  }();
  const Params& p = calls.front().p;
  const std::int64_t heads = p.num_kv_heads * std::ssize(calls);
  int log = 4;
  while (log > 0 && at_once[static_cast<std::size_t>(log)] < heads) {
    --log;
  }
  const std::int64_t wished =
      p.splits > 0 ? std::min<std::int64_t>(p.splits, kMostCluster) : std::int64_t{kMostCluster};
  int cluster =
      std::min(1 << log, static_cast<int>(std::bit_floor(static_cast<std::uint64_t>(wished))));
  const std::int64_t blocks = most_of(calls, [](const auto& c) { return c.p.block_count(); });
  while (cluster * kMostKeys < blocks) {
    cluster *= 2;
  }
  return cluster;
}

int box_rows(const Params& p) {
  const std::int64_t block = p.selection.key_block;
  return static_cast<int>(std::min<std::int64_t>(kTileKeys, block & -block));
}

ListedMaps listed_maps(const Params& p) {
  const int rows = box_rows(p);
  const std::int64_t known = p.pages.rows(p.context_len);
  const bool empty = known == 0;  // a map needs a row, though none is asked for
  const std::int64_t cached = std::max<std::int64_t>(1, known);
  return {cache_map(empty ? p.k_new : p.k, cached, p.num_kv_heads, p.head_dim, rows),
          cache_map(empty ? p.v_new : p.v, cached, p.num_kv_heads, p.head_dim, rows), rows};
}

template <int kHeadDim>
void launch(std::span<const ResaCall<Bf16>> calls, cudaStream_t stream) {
  launch_lists(calls, [&](const auto& list, std::span<const ResaCall<Bf16>> some) {
    constexpr int kCalls = std::decay_t<decltype(list)>::kCount;
    const int cluster = cluster_for<kHeadDim, kCalls>(some);
    const Params& p = some.front().p;
    launch_dependent({.grid = dim3(static_cast<unsigned>(cluster * p.num_kv_heads),
                                   static_cast<unsigned>(some.size())),
                      .threads = kFusedThreads,
                      .cluster = static_cast<unsigned>(cluster),
                      .shared_bytes = FusedMemory<kHeadDim>::kBytes,
                      .stream = stream},
                     resa_decode_kernel<kHeadDim, kCalls>, list, listed_maps(p));
    check(cudaGetLastError());
  });
}

}  // namespace

bool resa_fused_shares(const Params& a, const Params& b) {
  return a.pages.page != nullptr && b.pages.page != nullptr && a.pages.count == b.pages.count &&
         a.k == b.k && a.v == b.v && box_rows(a) == box_rows(b);
}

void launch_resa_fused(std::span<const ResaCall<Bf16>> calls, const LaunchContext& context) {
  Traffic traffic;
  for (const ResaCall<Bf16>& call : calls) {
    VERSIEVE_ASSERT(resa_fused_takes(call.p), "another form takes it");
    traffic += resa_decode_traffic(call.p);
  }
  const LaunchRange range("resa_decode", traffic, context.observer);
  calls.front().p.head_dim == 64 ? launch<64>(calls, context.stream)
                                 : launch<128>(calls, context.stream);
}

}  // namespace versieve::kernels
