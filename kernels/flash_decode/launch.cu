// Grid: (block of query rows, KV head, split), so that those who read the same keys start together;
// each CTA attends its share of the chunks, then one CTA a row merges them. Traffic:
// traffic::tree_attention and the partial results. Bound by memory with few queries, by the warps'
// exponentials and products from about 64 rows a KV head on.
#include <algorithm>
#include <type_traits>

#include "kernels/common/cuda_check.h"
#include "kernels/common/dependent_launch.cuh"
#include "kernels/common/launch_range.h"
#include "kernels/common/tensor_map.h"
#include "kernels/flash_decode/chunk_loop.cuh"
#include "kernels/flash_decode/combine.cuh"
#include "kernels/flash_decode/launch.h"
#include "kernels/tree_attention/traffic.h"
#include "model/assert.h"

namespace versieve::kernels {
namespace {

using Params = TreeAttentionParams<Bf16>;

__device__ std::int64_t committed(const Params& p) {
  return p.counts == nullptr ? p.context_len : p.counts->context_len;
}

// The cache's keys and values for the copy engine, 64 rows a box.
struct CacheMaps {
  CUtensorMap k, v;
};

// Keys and values by position: committed ones, then the chain's.
class ChainKeys {
 public:
  __device__ ChainKeys(const Params& p, const CacheMaps& maps, int g, int end)
      : p_(p),
        maps_(maps),
        g_(g),
        width_(static_cast<int>(p.num_kv_heads * p.head_dim)),
        end_(end),
        context_len_(static_cast<int>(committed(p))) {}
  __device__ int cached_rows(int tile) const {
    return max(0, min(kTileKeys, context_len_ - tile * kTileKeys));
  }
  __device__ int copied_bytes(int) const {
    return static_cast<int>(p_.head_dim) * kTileKeys * static_cast<int>(sizeof(Bf16));
  }
  __device__ void copy(int tile, bool value, std::uint32_t slot, std::uint32_t barrier) const {
    const int panel = static_cast<int>(threadIdx.x) % 32;
    if (panel < p_.head_dim / 64) {
      copy_tile_async(slot + static_cast<std::uint32_t>(panel * kPanelBytes),
                      value ? &maps_.v : &maps_.k, panel * 64, g_, tile * kTileKeys, barrier);
    }
  }
  __device__ const Bf16* row(int tile, int key, bool value) const {
    const int position = tile * kTileKeys + key;
    return position < end_ ? (value ? p_.v_tree : p_.k_tree) + (position - context_len_) * width_ +
                                 g_ * p_.head_dim
                           : nullptr;
  }

 private:
  const Params& p_;
  const CacheMaps& maps_;
  int g_;
  int width_;
  int end_;
  int context_len_;
};

// The CTA's query rows: query n's heads of KV head g lie together. A span's unit is the chunk of
// the rows that see fewest keys; where the rows straddle a power of two, chunks of those that see
// more are two units long, and keys are read once for both.
struct ChainRows {
  const Params& p;
  std::int64_t g, first, context_len, unit, room;
  int group_heads;

  __device__ std::int64_t query_of(int r) const { return (first + r) / group_heads; }
  __device__ std::int64_t index(int r) const {
    return query_of(r) * p.num_heads + g * group_heads + (first + r) % group_heads;
  }
  __device__ const Bf16* query(int r) const {
    return query_of(r) < p.num_queries ? p.q + index(r) * p.head_dim : nullptr;
  }
  __device__ std::int64_t visible(int r) const {
    return query_of(r) < p.num_queries ? context_len + query_of(r) + 1 : 0;
  }
  __device__ bool wide(int r) const { return visible(r) > kMaxChunks * unit; }
  __device__ bool ends(int r, int at_unit, bool last) const {
    return !wide(r) || at_unit % 2 == 1 || last;
  }
  __device__ std::int64_t at(int r, int at_unit) const {
    const std::int64_t chunk = wide(r) ? at_unit / 2 : at_unit;
    const std::int64_t begin = chunk * (wide(r) ? 2 * unit : unit);
    return begin < visible(r) ? index(r) * room + chunk : -1;
  }
};

template <int kHeadDim, int kWarps, int kRowTiles, int kSlots>
__global__ void __launch_bounds__(kWarps * 32)
    flash_decode_kernel(const __grid_constant__ Params p, const __grid_constant__ CacheMaps maps,
                        const ChunkPartials partials) {
  using Ring = TileRing<kHeadDim, kWarps, kSlots>;
  extern __shared__ __align__(1024) unsigned char shared[];
  __shared__ std::uint64_t barriers[Ring::kBarriers];
  release_successors();
  const Ring ring{static_cast<std::uint32_t>(__cvta_generic_to_shared(shared)),
                  static_cast<std::uint32_t>(__cvta_generic_to_shared(barriers))};
  if (threadIdx.x == 0) {
    prefetch_map(&maps.k);
    prefetch_map(&maps.v);
    ring.init();
    publish_barriers();
  }
  sync_team<kWarps>();
  wait_for_predecessors();
  constexpr int kRows = kWarps * kRowTiles * kTileRows;
  ChainRows rows{.p = p,
                 .g = blockIdx.y,
                 .first = static_cast<std::int64_t>(blockIdx.x) * kRows,
                 .context_len = committed(p),
                 .unit = 0,
                 .room = partials.chunks,
                 .group_heads = static_cast<int>(p.num_heads / p.num_kv_heads)};
  const std::int64_t fewest = rows.context_len + rows.query_of(0) + 1;
  const std::int64_t most = rows.context_len + min(p.num_queries - 1, rows.query_of(kRows - 1)) + 1;
  rows.unit = chunk_keys(fewest);
  const int stride = most > kMaxChunks * rows.unit ? 2 : 1;  // units that stay together
  const int parts = static_cast<int>((most + stride * rows.unit - 1) / (stride * rows.unit));
  const int splits = static_cast<int>(gridDim.z);
  const int split = static_cast<int>(blockIdx.z);
  const KeySpan span{.unit = static_cast<int>(rows.unit),
                     .first = split * parts / splits * stride,
                     .last = (split + 1) * parts / splits * stride,
                     .keys_end = static_cast<int>(most)};
  if (span.first < span.last) {
    ChainKeys keys(p, maps, static_cast<int>(blockIdx.y), static_cast<int>(most));
    ChunkLoop<kHeadDim, kWarps, kRowTiles, kSlots, ChainKeys, ChainRows>(keys, rows, ring, partials)
        .run(span);
  }
}

// Grid: query rows.
template <int kHeadDim>
__global__ void __launch_bounds__(kCombineParts* kHeadDim)
    flash_combine_kernel(const __grid_constant__ Params p, const ChunkPartials partials) {
  release_successors();
  wait_for_predecessors();
  const std::int64_t row = blockIdx.x;
  const std::int64_t keys = committed(p) + row / p.num_heads + 1;
  const std::int64_t chunk = chunk_keys(keys);
  combine_chunks(partials, row, (keys + chunk - 1) / chunk, kHeadDim, p.out + row * kHeadDim);
}

CacheMaps cache_maps(const Params& p) {
  const bool empty = p.context_len == 0;  // a map needs a row, though none is asked for
  const std::int64_t rows = std::max<std::int64_t>(1, p.context_len);
  return {cache_map(empty ? p.k_tree : p.k, rows, p.num_kv_heads, p.head_dim, kTileKeys),
          cache_map(empty ? p.v_tree : p.v, rows, p.num_kv_heads, p.head_dim, kTileKeys)};
}

template <int kHeadDim, int kWarps, int kRowTiles, int kSlots>
void launch(const Params& p, const ChunkPartials& partials, cudaStream_t stream) {
  constexpr std::int64_t kRows = kWarps * kRowTiles * kTileRows;
  const std::int64_t rows = p.num_queries * (p.num_heads / p.num_kv_heads);
  launch_dependent(
      {.grid = dim3(static_cast<unsigned>((rows + kRows - 1) / kRows),
                    static_cast<unsigned>(p.num_kv_heads), static_cast<unsigned>(partials.chunks)),
       .threads = kWarps * 32,
       .shared_bytes = TileRing<kHeadDim, kWarps, kSlots>::kBytes,
       .stream = stream},
      flash_decode_kernel<kHeadDim, kWarps, kRowTiles, kSlots>, p, cache_maps(p), partials);
  check(cudaGetLastError());
}

template <int kHeadDim>
void launch_size(const Params& p, const ChunkPartials& partials, cudaStream_t stream) {
  if (p.num_queries * (p.num_heads / p.num_kv_heads) <= kTileRows) {
    launch<kHeadDim, 1, 1, 3>(p, partials, stream);
  } else if constexpr (kHeadDim == 64) {
    launch<kHeadDim, 4, 2, 4>(p, partials, stream);
  } else {
    launch<kHeadDim, 8, 1, 4>(p, partials, stream);
  }
}

// Room for a row's chunks. That of several queries does not follow the context, so that recorded
// steps keep their scratch while passes over the chain run between them.
std::int64_t chunk_room(const Params& p) {
  return p.num_queries > 1 ? kMaxChunks : most_chunks(p.context_len + 1);
}

ChunkPartials partials_of(const Params& p, void* scratch) {
  ChunkPartials partials{.chunks = chunk_room(p)};
  partials.value = static_cast<float*>(scratch);
  partials.max_sum = partials.value + p.num_queries * p.num_heads * partials.chunks * p.head_dim;
  return partials;
}

}  // namespace

template <class T>
bool flash_decode_takes(const TreeAttentionParams<T>& p) {
  return std::is_same_v<T, Bf16> && p.splits_chain && p.window == 0 && p.first_position == 0 &&
         p.query_node == nullptr && p.num_queries == p.num_nodes &&
         (p.head_dim == 64 || p.head_dim == 128);
}
template bool flash_decode_takes<float>(const TreeAttentionParams<float>&);
template bool flash_decode_takes<Bf16>(const TreeAttentionParams<Bf16>&);

std::size_t flash_decode_scratch_bytes(const Params& p) {
  return static_cast<std::size_t>(p.num_queries * p.num_heads * chunk_room(p) * (p.head_dim + 2)) *
         sizeof(float);
}

void launch_flash_decode(const Params& p, const LaunchContext& context) {
  VERSIEVE_ASSERT(flash_decode_takes(p), "another launch takes it");
  VERSIEVE_ASSERT(p.context_len + p.num_queries < INT32_MAX, "positions are 32-bit");
  VERSIEVE_ASSERT(context.scratch_bytes >= flash_decode_scratch_bytes(p),
                  "scratch is reserved before");
  const ChunkPartials partials = partials_of(p, context.scratch);
  {
    const LaunchRange range("flash_decode", tree_attention_traffic(p), context.observer);
    p.head_dim == 64 ? launch_size<64>(p, partials, context.stream)
                     : launch_size<128>(p, partials, context.stream);
  }
  Traffic merged;
  merged.read(TrafficTerm::kScores, static_cast<double>(flash_decode_scratch_bytes(p)));
  const LaunchRange range("flash_combine", merged, context.observer);
  const DependentGrid grid{.grid = dim3(static_cast<unsigned>(p.num_queries * p.num_heads)),
                           .threads = static_cast<unsigned>(kCombineParts * p.head_dim),
                           .stream = context.stream};
  p.head_dim == 64 ? launch_dependent(grid, flash_combine_kernel<64>, p, partials)
                   : launch_dependent(grid, flash_combine_kernel<128>, p, partials);
  check(cudaGetLastError());
}

}  // namespace versieve::kernels
