// flash_decode's kernels and how a launch of them is cut: of one call (launch.cu), or of those of
// several sequences in a layer of a step (step.cu).
//
// Grid: (block of query rows, KV head, split), so that those who read the same keys start together;
// each CTA attends its share of the chunks, then one CTA a row merges them. Rows of a tree share
// the chunks that are whole before the tree; the chunks that follow differ by path, so CTAs of the
// same launch attend them with a warp a query, from their first shared key on. Calls of several
// sequences lie side by side along x, and their CTAs take several chunks each, so that what a CTA
// does before its first key is done less often. Traffic: traffic::tree_attention and the partial
// results. Bound by memory with few queries, by the warps' exponentials and products from about 64
// rows a KV head on.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "kernels/common/cuda_check.h"
#include "kernels/common/dependent_launch.cuh"
#include "kernels/common/tensor_map.h"
#include "kernels/flash_decode/capture.cuh"
#include "kernels/flash_decode/chunk_loop.cuh"
#include "kernels/flash_decode/combine.cuh"
#include "kernels/flash_decode/flash_keys.cuh"
#include "kernels/ptx/bulk_copy.cuh"
#include "kernels/ptx/mbarrier.cuh"
#include "kernels/ptx/shared_memory.cuh"
#include "model/words/traffic.h"

namespace versieve::kernels {

// What a launch takes of a call.
struct FlashCall {
  FlashParams p;
  FlashSlice slice;
  ChunkPartials partials;
  int row_blocks = 0;  // of query rows, along x
  int splits = 0;      // along z, behind slice.path_blocks
  WeightCapture capture = {};  // of p.weights, where this form keeps them
  // Of a step's layers (CallLayers): elements between two lists of selected tokens and between two
  // layers' weights, and whether a map says which list a layer reads.
  std::int64_t list_stride = 0, weights_stride = 0;
  bool mapped = false;
};

// A call alone.
struct FlashLone {
  static constexpr bool kSeveral = false;
  FlashCall call;
  CacheMaps maps;

  __device__ __forceinline__ const FlashCall& at(int) const { return call; }
  __device__ __forceinline__ int mine() const { return 0; }
  __device__ __forceinline__ int row_block() const { return static_cast<int>(blockIdx.x); }
  __device__ __forceinline__ int list_of(const FlashCall&) const { return 0; }
  __device__ __forceinline__ float* weights_of(const FlashCall& own) const { return own.p.weights; }
};

// Those of several sequences in a layer of a step, `row_blocks` places along x for each. They are
// those of layer 0, in device memory, so that a recorded launch takes what the step has.
struct FlashSeveral {
  static constexpr bool kSeveral = true;
  const FlashCall* calls = nullptr;
  int row_blocks = 0;  // of the call that has most
  int layer = 0;
  int list = 0;                  // that calls with a map read in this layer
  int layer_rows = 0;            // of the caches before this layer's
  std::int64_t layer_nodes = 0;  // elements of the tree's keys before this layer's
  CacheMaps maps;                // of all caches and layers

  __device__ __forceinline__ const FlashCall& at(int call) const { return calls[call]; }
  __device__ __forceinline__ int mine() const { return static_cast<int>(blockIdx.x) / row_blocks; }
  __device__ __forceinline__ int row_block() const {
    return static_cast<int>(blockIdx.x) % row_blocks;
  }
  // A copy for all threads of the CTA to read; then a barrier, and layered() by one thread.
  __device__ __forceinline__ void copy(int call, FlashCall& to) const {
    static_assert(sizeof(FlashCall) % 4 == 0 && std::is_trivially_copyable_v<FlashCall>);
    const unsigned* const from = reinterpret_cast<const unsigned*>(calls + call);
    for (unsigned i = threadIdx.x; i < sizeof(FlashCall) / 4; i += blockDim.x) {
      reinterpret_cast<unsigned*>(&to)[i] = from[i];
    }
  }
  // The counts of lists that a map names lie side by side.
  __device__ __forceinline__ int list_of(const FlashCall& call) const {
    return call.mapped ? list : 0;
  }
  __device__ __forceinline__ float* weights_of(const FlashCall& call) const {
    return call.p.weights + layer * call.weights_stride;
  }
  // Of this layer.
  __device__ __forceinline__ void layered(FlashCall& call) const {
    call.p.k_tree += layer_nodes;
    call.p.v_tree += layer_nodes;
    call.slice.first_row += layer_rows;
    SelectedTokens& selected = call.p.selected;
    if (selected.token != nullptr) {
      selected.token += (call.mapped ? list : layer) * call.list_stride;
      selected.known_count += selected.known_count == nullptr ? 0 : list_of(call);
    }
  }
};

// Warps of a CTA that attend ends of paths, each in a ring of its own.
constexpr int path_teams(int warps, int slots) {
  return std::min(warps, std::max(1, slots / 2));
}

// A tree's query from its first chunk on that is not whole in the shared keys, by one warp.
template <int kHeadDim, int kSlots>
__device__ void attend_path(const FlashParams& p, const CacheMaps& maps, const FlashSlice& slice,
                            const ChunkPartials& partials, int query, int* path,
                            const TileRing<kHeadDim, 1, kSlots>& ring) {
  const int keys = keys_of(p, slice, query);
  const int chunk = static_cast<int>(chunk_keys(keys));
  const KeySpan span{.unit = chunk,
                     .first = shared_keys(p) / chunk,
                     .last = (keys + chunk - 1) / chunk,
                     .keys_end = keys};
  const int g = static_cast<int>(blockIdx.y);
  PathKeys<kHeadDim> own(p, maps, slice.first_row, g, span.first * (chunk / kTileKeys), keys,
                         node_of(p, slice, query), path);
  const QueryRows rows{.p = p,
                       .partials = partials,
                       .number = query,
                       .keys = keys,
                       .g = g,
                       .group_heads = static_cast<int>(p.num_heads / p.num_kv_heads)};
  ChunkLoop<kHeadDim, 1, 1, kSlots, PathKeys<kHeadDim>, QueryRows>(own, rows, ring, partials)
      .run(span);
}

// The CTA's rows over its split's share of the keys that all of them see (of a chain: all keys).
template <int kHeadDim, int kWarps, int kRowTiles, int kSlots, bool kCaptures>
__device__ void attend_split(const FlashParams& p, const CacheMaps& maps, const FlashSlice& slice,
                             const ChunkPartials& partials, const WeightCapture& capture,
                             int row_block, int split, int splits,
                             const TileRing<kHeadDim, kWarps, kSlots>& ring) {
  constexpr int kRows = kWarps * kRowTiles * kTileRows;
  const int known = shared_keys(p);
  FlashRows rows{.p = p,
                 .slice = slice,
                 .partials = partials,
                 .g = static_cast<int>(blockIdx.y),
                 .first = row_block * kRows,
                 .unit = 0,
                 .group_heads = static_cast<int>(p.num_heads / p.num_kv_heads),
                 .end = 0};
  const int newest = static_cast<int>(slice.first_query) +
                     min(static_cast<int>(p.num_queries) - 1, rows.query_of(kRows - 1));
  const int oldest = static_cast<int>(slice.first_query) + rows.query_of(0);
  const int most = known + (slice.tree ? static_cast<int>(p.num_nodes) : newest + 1);
  rows.unit = static_cast<int>(chunk_keys(known + 1 + (slice.tree ? 0 : oldest)));
  rows.end = slice.tree ? known / rows.unit * rows.unit : most;
  const int stride = rows.wide(most) ? 2 : 1;  // units that stay together
  const int parts = (rows.end + stride * rows.unit - 1) / (stride * rows.unit);
  const KeySpan span{.unit = rows.unit,
                     .first = split * parts / splits * stride,
                     .last = (split + 1) * parts / splits * stride,
                     .keys_end = rows.end};
  if (span.first < span.last) {
    FlashKeys<kHeadDim> keys(p, maps, slice.first_row, rows.g, span.first * (rows.unit / kTileKeys),
                             rows.end);
    using Rows = std::conditional_t<kCaptures, CapturedRows, FlashRows>;
    const auto with_capture = [&]() -> Rows {
      if constexpr (kCaptures) {
        return {rows, capture};
      } else {
        return rows;
      }
    };
    const Rows asked = with_capture();
    ChunkLoop<kHeadDim, kWarps, kRowTiles, kSlots, FlashKeys<kHeadDim>, Rows>(keys, asked, ring,
                                                                              partials)
        .run(span);
  }
}

template <int kHeadDim, int kWarps, int kRowTiles, int kSlots, bool kCaptures, class Calls>
__global__ void __launch_bounds__(kWarps * 32)
    flash_decode_kernel(const __grid_constant__ Calls calls) {
  constexpr int kTeams = path_teams(kWarps, kSlots);
  using Ring = TileRing<kHeadDim, kWarps, kSlots>;
  using TeamRing = TileRing<kHeadDim, 1, kSlots / kTeams>;
  extern __shared__ __align__(1024) unsigned char shared[];
  __shared__ std::uint64_t barriers[Ring::kBarriers];
  __shared__ int path[kTeams][kTileKeys];
  __shared__ __align__(16) unsigned char copied[Calls::kSeveral ? sizeof(FlashCall) : 16];
  release_successors();
  const FlashCall* own = &calls.at(0);
  if constexpr (Calls::kSeveral) {
    FlashCall* const copy = reinterpret_cast<FlashCall*>(copied);
    calls.copy(calls.mine(), *copy);
    __syncthreads();
    own = copy;
  }
  const FlashCall& call = *own;
  const FlashParams& p = call.p;
  const CacheMaps& maps = calls.maps;
  const FlashSlice& slice = call.slice;
  const ChunkPartials& partials = call.partials;
  // CTAs of paths come first: of a call alone they take longest. Of several they are the shortest,
  // and fill what is left behind the others.
  const int row_block = calls.row_block();
  const int z = static_cast<int>(blockIdx.z);
  const bool of_paths = Calls::kSeveral ? z >= call.splits : z < slice.path_blocks;
  const int path_block = Calls::kSeveral ? z - call.splits : z;
  const int split = Calls::kSeveral ? z : z - slice.path_blocks;
  if (Calls::kSeveral &&
      (row_block >= call.row_blocks || (of_paths && path_block >= slice.path_blocks))) {
    return;
  }
  const std::uint32_t slots = shared_address(shared);
  const std::uint32_t first = shared_address(barriers);
  const Ring ring{slots, first};
  const auto team_ring = [&](int team) {
    return TeamRing{slots + static_cast<std::uint32_t>(team * TeamRing::kBytes),
                    first + static_cast<std::uint32_t>(team * TeamRing::kBarriers * 8)};
  };
  if (threadIdx.x == 0) {
    if constexpr (Calls::kSeveral) {
      calls.layered(*reinterpret_cast<FlashCall*>(copied));
    }
    prefetch_map(&maps.k);
    prefetch_map(&maps.v);
    if (of_paths) {
      for (int team = 0; team < kTeams; ++team) {
        team_ring(team).init();
      }
    } else {
      ring.init();
    }
    publish_barriers();
  }
  sync_team<kWarps>();
  wait_for_predecessors();
  if (!of_paths) {
    attend_split<kHeadDim, kWarps, kRowTiles, kSlots, kCaptures>(
        p, maps, slice, partials, call.capture, row_block, split, call.splits, ring);
    return;
  }
  const int team = static_cast<int>(threadIdx.x) / 32;
  const int query = (path_block * call.row_blocks + row_block) * kTeams + team;
  if (team < kTeams && query < p.num_queries) {
    attend_path<kHeadDim, kSlots / kTeams>(p, maps, slice, partials, query, path[team],
                                           team_ring(team));
  }
}

// Grid: (`places` query rows, then the positions of captured weights; call).
template <int kHeadDim, class Calls>
__global__ void __launch_bounds__(kCombineParts* kHeadDim)
    flash_combine_kernel(const __grid_constant__ Calls calls, int places) {
  release_successors();
  const FlashCall& call = calls.at(static_cast<int>(blockIdx.y));
  const FlashParams& p = call.p;
  const FlashSlice& slice = call.slice;
  const ChunkPartials& partials = call.partials;
  const std::int64_t row = blockIdx.x;
  wait_for_predecessors();
  if (row >= places) {
    mean_weights<kCombineParts * kHeadDim>(p, slice, partials, call.capture, calls.weights_of(call),
                                           static_cast<int>(row - places));
    return;
  }
  if (Calls::kSeveral && row >= p.num_queries * p.num_heads) {
    return;
  }
  const std::int64_t keys =
      keys_of(p, slice, static_cast<int>(row / p.num_heads), calls.list_of(call));
  const std::int64_t chunk = chunk_keys(keys);
  combine_chunks(partials, row, (keys + chunk - 1) / chunk, kHeadDim, p.out + row * kHeadDim);
}

// The same of several sequences, where they have many rows: a warp a row. Grid: (warps' rows,
// call).
inline constexpr int kCombineWarps = 8;
template <int kHeadDim>
__global__ void __launch_bounds__(kCombineWarps * 32)
    flash_combine_rows_kernel(const __grid_constant__ FlashSeveral calls) {
  __shared__ float weight[kCombineWarps][kMaxChunks];
  release_successors();
  const FlashCall& call = calls.at(static_cast<int>(blockIdx.y));
  const FlashParams& p = call.p;
  const ChunkPartials partials = call.partials;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * kCombineWarps + warp;
  const bool exists = row < p.num_queries * p.num_heads;
  const int query = static_cast<int>(row / p.num_heads);
  Bf16* const out = p.out + row * kHeadDim;
  wait_for_predecessors();
  if (exists) {
    const std::int64_t keys = keys_of(p, call.slice, query, calls.list_of(call));
    const std::int64_t chunk = chunk_keys(keys);
    combine_by_warp<kHeadDim>(partials, row, (keys + chunk - 1) / chunk, weight[warp], out);
  }
}

// Which of the launches takes so many rows of a KV head: few rows, few warps a CTA, so that many
// CTAs ask for tiles at once.
inline int size_of(const FlashParams& p) {
  const std::int64_t rows = p.num_queries * (p.num_heads / p.num_kv_heads);
  return rows <= kTileRows ? 0 : rows <= 2 * kTileRows ? 1 : rows <= 4 * kTileRows ? 2 : 3;
}
constexpr std::int64_t cta_rows(int size) {
  return std::int64_t{kTileRows} << size;
}

// The launch of that size.
struct FlashForm {
  int warps = 0, row_tiles = 0;  // of a warp
  int slots = 0;                 // of the ring
  int resident = 0;              // CTAs that an SM holds: registers, then shared memory
};
// `several`: of several sequences, where the chip is full and a larger ring has room for more
// paths.
constexpr FlashForm flash_form(int size, std::int64_t head_dim, bool several) {
  const int slots = several ? 8 : 4;
  const FlashForm narrow[] = {{1, 1, 3, 8}, {2, 1, 4, 6}, {4, 1, slots, 3}, {4, 2, slots, 2}};
  constexpr FlashForm wide[] = {{1, 1, 3, 4}, {2, 1, 4, 3}, {4, 1, 4, 2}, {8, 1, 4, 1}};
  return head_dim == 64 ? narrow[size] : wide[size];
}

// How the CTAs of a launch of that form share out a call whose rows have so many chunks at most,
// `share` of them one CTA.
inline void cut_call(FlashCall& call, const FlashForm& form, std::int64_t chunks,
                     std::int64_t share) {
  const FlashParams& p = call.p;
  const std::int64_t rows = p.num_queries * (p.num_heads / p.num_kv_heads);
  const std::int64_t block = cta_rows(size_of(p));
  const std::int64_t row_blocks = (rows + block - 1) / block;
  const std::int64_t paths = row_blocks * path_teams(form.warps, form.slots);  // a z
  call.row_blocks = static_cast<int>(row_blocks);
  call.splits = static_cast<int>((chunks + share - 1) / share);
  call.slice.path_blocks =
      call.slice.tree ? static_cast<int>((p.num_queries + paths - 1) / paths) : 0;
}

// A launch's grid: calls of one size.
struct FlashGrid {
  int size = 0;
  int calls = 0;
  int row_blocks = 0;        // of the call that has most
  int deep = 0;              // along z, likewise
  std::int64_t queries = 0;  // likewise
  std::int64_t tiles = 0;    // of captured weights, likewise; 0: none are kept
  std::int64_t num_heads = 0, num_kv_heads = 0;

  void add(const FlashCall& call) {
    size = size_of(call.p);
    ++calls;
    row_blocks = std::max(row_blocks, call.row_blocks);
    deep = std::max(deep, call.slice.path_blocks + call.splits);
    queries = std::max(queries, call.p.num_queries);
    tiles = std::max(tiles, call.capture.tiles);
    num_heads = call.p.num_heads;
    num_kv_heads = call.p.num_kv_heads;
  }
};

template <int kHeadDim, int kWarps, int kRowTiles, int kSlots, bool kCaptures, class Calls>
void launch_flash(const Calls& calls, const FlashGrid& grid, cudaStream_t stream) {
  launch_dependent(
      {.grid = dim3(static_cast<unsigned>(grid.row_blocks * grid.calls),
                    static_cast<unsigned>(grid.num_kv_heads), static_cast<unsigned>(grid.deep)),
       .threads = kWarps * 32,
       .shared_bytes = TileRing<kHeadDim, kWarps, kSlots>::kBytes,
       .stream = stream},
      flash_decode_kernel<kHeadDim, kWarps, kRowTiles, kSlots, kCaptures, Calls>, calls);
  check(cudaGetLastError());
}

template <int kHeadDim, class Calls>
void launch_size(const Calls& calls, const FlashGrid& grid, cudaStream_t stream) {
  if (grid.tiles > 0) {
    launch_flash<kHeadDim, 1, 1, 3, true>(calls, grid, stream);
    return;
  }
  const auto launch = [&]<int kSize>() {
    constexpr FlashForm kForm = flash_form(kSize, kHeadDim, Calls::kSeveral);
    launch_flash<kHeadDim, kForm.warps, kForm.row_tiles, kForm.slots, false>(calls, grid, stream);
  };
  switch (grid.size) {
    case 0:
      launch.template operator()<0>();
      return;
    case 1:
      launch.template operator()<1>();
      return;
    case 2:
      launch.template operator()<2>();
      return;
    default:
      launch.template operator()<3>();
  }
}

// Of several sequences, a warp a row.
template <int kHeadDim>
void launch_combine_rows(const FlashSeveral& calls, const FlashGrid& grid, cudaStream_t stream) {
  const std::int64_t rows = grid.queries * grid.num_heads;
  launch_dependent({.grid = dim3(static_cast<unsigned>((rows + kCombineWarps - 1) / kCombineWarps),
                                 static_cast<unsigned>(grid.calls)),
                    .threads = kCombineWarps * 32,
                    .stream = stream},
                   flash_combine_rows_kernel<kHeadDim>, calls);
  check(cudaGetLastError());
}

template <int kHeadDim, class Calls>
void launch_combine(const Calls& calls, const FlashGrid& grid, cudaStream_t stream) {
  constexpr std::int64_t kTiles = kCombineParts * kHeadDim / kTileKeys;  // of a CTA
  const std::int64_t rows = grid.queries * grid.num_heads;
  const std::int64_t means = (grid.tiles + kTiles - 1) / kTiles;
  launch_dependent(
      {.grid = dim3(static_cast<unsigned>(rows + means),
                    static_cast<unsigned>(grid.calls)),
       .threads = kCombineParts * kHeadDim,
       .shared_bytes =
           means == 0 ? 0 : static_cast<std::size_t>(grid.num_heads * kTiles) * sizeof(float),
       .stream = stream},
      flash_combine_kernel<kHeadDim, Calls>, calls, static_cast<int>(rows));
  check(cudaGetLastError());
}

// A node alone is a chain, too.
inline bool is_chain(const FlashParams& p) {
  return p.query_node == nullptr && p.num_queries == p.num_nodes &&
         (p.splits_chain || p.num_nodes == 1);
}

inline constexpr std::int64_t kSliceQueries = 128;  // that a launch takes; scratch is for so many

inline std::size_t partials_bytes(const FlashParams& p, std::int64_t chunks) {
  const std::int64_t rows = std::min(p.num_queries, kSliceQueries) * p.num_heads;
  return static_cast<std::size_t>(rows * chunks * (p.head_dim + 2)) * sizeof(float);
}

inline ChunkPartials partials_of(const FlashParams& p, std::int64_t chunks, void* scratch) {
  const std::int64_t rows = std::min(p.num_queries, kSliceQueries) * p.num_heads;
  ChunkPartials partials{.chunks = chunks};
  partials.value = static_cast<float*>(scratch);
  partials.max_sum = partials.value + rows * partials.chunks * p.head_dim;
  return partials;
}

// Keys that a call shares among its rows, at most.
inline std::int64_t shared_bound(const FlashParams& p) {
  return p.selected.token == nullptr ? p.context_len : p.selected.count;
}

inline Traffic partials_traffic(const FlashParams& p, bool written) {
  const std::int64_t keys = shared_bound(p) + p.num_nodes;
  const std::int64_t chunks = (keys + chunk_keys(keys) - 1) / chunk_keys(keys);
  const double bytes =
      static_cast<double>(p.num_queries * p.num_heads * chunks * (p.head_dim + 2)) * sizeof(float);
  Traffic t;
  written ? t.write(TrafficTerm::kScores, bytes) : t.read(TrafficTerm::kScores, bytes);
  return t;
}

}  // namespace versieve::kernels
