// Grid: (block of query rows, KV head, split), so that those who read the same keys start together;
// each CTA attends its share of the chunks, then one CTA a row merges them. Rows of a tree share
// the chunks that are whole before the tree; the chunks that follow differ by path, so CTAs of the
// same launch attend them with a warp a query, from their first shared key on. Calls of several
// sequences lie side by side along x. Traffic:
// traffic::tree_attention and the partial results. Bound by memory with few queries, by the warps'
// exponentials and products from about 64 rows a KV head on.
#include <algorithm>
#include <type_traits>
#include <vector>

#include "kernels/common/cuda_check.h"
#include "kernels/common/dependent_launch.cuh"
#include "kernels/common/launch_range.h"
#include "kernels/common/tensor_map.h"
#include "kernels/flash_decode/capture.cuh"
#include "kernels/flash_decode/chunk_loop.cuh"
#include "kernels/flash_decode/combine.cuh"
#include "kernels/flash_decode/flash_keys.cuh"
#include "kernels/flash_decode/together.h"
#include "kernels/launch.h"
#include "kernels/ptx/bulk_copy.cuh"
#include "kernels/ptx/mbarrier.cuh"
#include "kernels/ptx/shared_memory.cuh"
#include "kernels/tree_attention/traffic.h"
#include "model/words/assert.h"

namespace versieve::kernels {
namespace {

using Params = FlashParams;

// What a launch takes of a call.
struct FlashCall {
  Params p;
  CacheMaps maps;
  FlashSlice slice;
  ChunkPartials partials;
  int row_blocks = 0;  // of query rows, along x
  int splits = 0;      // along z, behind slice.path_blocks
};
// One call, or those of several sequences, `row_blocks` places along x for each.
template <int kCalls>
struct FlashCalls {
  FlashCall call[kCalls];
  int row_blocks;  // of the call that has most

  __device__ __forceinline__ int mine() const {
    return kCalls == 1 ? 0 : static_cast<int>(blockIdx.x) / row_blocks;
  }
  __device__ __forceinline__ int row_block() const {
    return static_cast<int>(blockIdx.x) - mine() * row_blocks;
  }
};
constexpr int kMostFlashCalls = 27;
static_assert(sizeof(FlashCalls<kMostFlashCalls>) <= 32764);  // of a kernel's parameters

// Warps of a CTA that attend ends of paths, each in a ring of its own.
template <int kWarps>
constexpr int kPathTeams = kWarps == 1 ? 1 : 2;

// A tree's query from its first chunk on that is not whole in the shared keys, by one warp.
template <int kHeadDim, int kSlots>
__device__ void attend_path(const Params& p, const CacheMaps& maps, const FlashSlice& slice,
                            const ChunkPartials& partials, int query, int* path,
                            const TileRing<kHeadDim, 1, kSlots>& ring) {
  const int keys = keys_of(p, slice, query);
  const int chunk = static_cast<int>(chunk_keys(keys));
  const KeySpan span{.unit = chunk,
                     .first = shared_keys(p) / chunk,
                     .last = (keys + chunk - 1) / chunk,
                     .keys_end = keys};
  const int g = static_cast<int>(blockIdx.y);
  PathKeys<kHeadDim> own(p, maps, g, span.first * (chunk / kTileKeys), keys,
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
__device__ void attend_split(const Params& p, const CacheMaps& maps, const FlashSlice& slice,
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
    FlashKeys<kHeadDim> keys(p, maps, rows.g, span.first * (rows.unit / kTileKeys), rows.end);
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

template <int kHeadDim, int kWarps, int kRowTiles, int kSlots, bool kCaptures, int kCalls>
__global__ void __launch_bounds__(kWarps * 32)
    flash_decode_kernel(const __grid_constant__ FlashCalls<kCalls> calls,
                        const __grid_constant__ WeightCapture capture) {
  constexpr int kTeams = kPathTeams<kWarps>;
  using Ring = TileRing<kHeadDim, kWarps, kSlots>;
  using TeamRing = TileRing<kHeadDim, 1, kSlots / kTeams>;
  extern __shared__ __align__(1024) unsigned char shared[];
  __shared__ std::uint64_t barriers[Ring::kBarriers];
  __shared__ int path[kTeams][kTileKeys];
  release_successors();
  const FlashCall& call = calls.call[calls.mine()];
  const Params& p = call.p;
  const CacheMaps& maps = call.maps;
  const FlashSlice& slice = call.slice;
  const ChunkPartials& partials = call.partials;
  // CTAs of paths come first.
  const int row_block = calls.row_block();
  const int split = static_cast<int>(blockIdx.z) - slice.path_blocks;
  if (kCalls > 1 && (row_block >= call.row_blocks || split >= call.splits)) {
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
    prefetch_map(&maps.k);
    prefetch_map(&maps.v);
    if (split < 0) {
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
  if (split >= 0) {
    attend_split<kHeadDim, kWarps, kRowTiles, kSlots, kCaptures>(
        p, maps, slice, partials, capture, row_block, split, call.splits, ring);
    return;
  }
  const int team = static_cast<int>(threadIdx.x) / 32;
  const int query = (static_cast<int>(blockIdx.z) * call.row_blocks + row_block) * kTeams + team;
  if (team < kTeams && query < p.num_queries) {
    attend_path<kHeadDim, kSlots / kTeams>(p, maps, slice, partials, query, path[team],
                                           team_ring(team));
  }
}

// Grid: (query rows, then the positions of captured weights; call).
template <int kHeadDim, int kCalls>
__global__ void __launch_bounds__(kCombineParts* kHeadDim)
    flash_combine_kernel(const __grid_constant__ FlashCalls<kCalls> calls,
                         const __grid_constant__ WeightCapture capture) {
  release_successors();
  wait_for_predecessors();
  const FlashCall& call = calls.call[blockIdx.y];
  const Params& p = call.p;
  const FlashSlice& slice = call.slice;
  const ChunkPartials& partials = call.partials;
  const std::int64_t row = blockIdx.x;
  const std::int64_t rows = p.num_queries * p.num_heads;
  if (kCalls > 1 && row >= rows) {
    return;
  }
  if (row >= rows) {
    mean_weights<kCombineParts * kHeadDim>(p, slice, partials, capture,
                                           static_cast<int>(row - rows));
    return;
  }
  const std::int64_t keys = keys_of(p, slice, static_cast<int>(row / p.num_heads));
  const std::int64_t chunk = chunk_keys(keys);
  combine_chunks(partials, row, (keys + chunk - 1) / chunk, kHeadDim, p.out + row * kHeadDim);
}

CacheMaps cache_maps(const Params& p) {
  const std::int64_t cached = p.pages.rows(p.context_len);
  const bool empty = cached == 0;  // a map needs a row, though none is asked for
  const bool listed = p.selected.token != nullptr;
  const auto map = [&](const Bf16* cache, const Bf16* tree, int rows) {
    return cache_map(empty ? tree : cache, std::max<std::int64_t>(1, cached), p.num_kv_heads,
                     p.head_dim, rows);
  };
  CacheMaps maps{.k = map(p.k, p.k_tree, kTileKeys), .v = map(p.v, p.v_tree, kTileKeys)};
  if (listed) {
    maps.k_run = map(p.k, p.k_tree, kRunRows);
    maps.v_run = map(p.v, p.v_tree, kRunRows);
    maps.k_row = map(p.k, p.k_tree, 1);
    maps.v_row = map(p.v, p.v_tree, 1);
  }
  return maps;
}

std::int64_t shared_bound(const Params& p) {
  return p.selected.token == nullptr ? p.context_len : p.selected.count;
}

// How a launch's CTAs share a call out; its maps.
template <int kWarps, int kRowTiles>
void cut_call(FlashCall& call) {
  constexpr std::int64_t kRows = kWarps * kRowTiles * kTileRows;
  const Params& p = call.p;
  const std::int64_t rows = p.num_queries * (p.num_heads / p.num_kv_heads);
  const std::int64_t row_blocks = (rows + kRows - 1) / kRows;
  const std::int64_t paths = row_blocks * kPathTeams<kWarps>;  // a z
  call.row_blocks = static_cast<int>(row_blocks);
  call.splits = static_cast<int>(most_chunks(shared_bound(p) + p.num_nodes));
  call.slice.path_blocks =
      call.slice.tree ? static_cast<int>((p.num_queries + paths - 1) / paths) : 0;
  call.maps = cache_maps(p);
}

template <int kHeadDim, int kWarps, int kRowTiles, int kSlots, bool kCaptures, int kCalls>
void launch(FlashCalls<kCalls>& calls, std::size_t count, const WeightCapture& capture,
            cudaStream_t stream) {
  unsigned deep = 0;
  calls.row_blocks = 0;
  for (std::size_t i = 0; i < count; ++i) {
    FlashCall& call = calls.call[i];
    cut_call<kWarps, kRowTiles>(call);
    calls.row_blocks = std::max(calls.row_blocks, call.row_blocks);
    deep = std::max(deep, static_cast<unsigned>(call.slice.path_blocks + call.splits));
  }
  launch_dependent(
      {.grid = dim3(static_cast<unsigned>(calls.row_blocks) * static_cast<unsigned>(count),
                    static_cast<unsigned>(calls.call[0].p.num_kv_heads), deep),
       .threads = kWarps * 32,
       .shared_bytes = TileRing<kHeadDim, kWarps, kSlots>::kBytes,
       .stream = stream},
      flash_decode_kernel<kHeadDim, kWarps, kRowTiles, kSlots, kCaptures, kCalls>, calls, capture);
  check(cudaGetLastError());
}

// Which of the launches takes so many rows of a KV head: few rows, few warps a CTA, so that many
// CTAs ask for tiles at once.
int size_of(const Params& p) {
  const std::int64_t rows = p.num_queries * (p.num_heads / p.num_kv_heads);
  return rows <= kTileRows ? 0 : rows <= 2 * kTileRows ? 1 : rows <= 4 * kTileRows ? 2 : 3;
}

// Calls of one size.
template <int kHeadDim, int kCalls>
void launch_size(FlashCalls<kCalls>& calls, std::size_t count, const WeightCapture& capture,
                 cudaStream_t stream) {
  if constexpr (kCalls == 1) {
    if (capture.weight != nullptr) {
      launch<kHeadDim, 1, 1, 3, true>(calls, count, capture, stream);
      return;
    }
  }
  switch (size_of(calls.call[0].p)) {
    case 0:
      launch<kHeadDim, 1, 1, 3, false>(calls, count, capture, stream);
      return;
    case 1:
      launch<kHeadDim, 2, 1, 4, false>(calls, count, capture, stream);
      return;
    case 2:
      launch<kHeadDim, 4, 1, 4, false>(calls, count, capture, stream);
      return;
    default:
      if constexpr (kHeadDim == 64) {
        launch<kHeadDim, 4, 2, 4, false>(calls, count, capture, stream);
      } else {
        launch<kHeadDim, 8, 1, 4, false>(calls, count, capture, stream);
      }
  }
}

template <int kHeadDim, int kCalls>
void launch_combine(const FlashCalls<kCalls>& calls, std::size_t count,
                    const WeightCapture& capture, cudaStream_t stream) {
  constexpr std::int64_t kTiles = kCombineParts * kHeadDim / kTileKeys;  // of a CTA
  const std::int64_t heads = calls.call[0].p.num_heads;
  const std::int64_t means = capture.weight == nullptr ? 0 : (capture.tiles + kTiles - 1) / kTiles;
  std::int64_t queries = 0;
  for (std::size_t i = 0; i < count; ++i) {
    queries = std::max(queries, calls.call[i].p.num_queries);
  }
  launch_dependent(
      {.grid = dim3(static_cast<unsigned>(queries * heads + means), static_cast<unsigned>(count)),
       .threads = kCombineParts * kHeadDim,
       .shared_bytes = means == 0 ? 0 : static_cast<std::size_t>(heads * kTiles) * sizeof(float),
       .stream = stream},
      flash_combine_kernel<kHeadDim, kCalls>, calls, capture);
  check(cudaGetLastError());
}

// A node alone is a chain, too.
bool is_chain(const Params& p) {
  return p.query_node == nullptr && p.num_queries == p.num_nodes &&
         (p.splits_chain || p.num_nodes == 1);
}

constexpr std::int64_t kMaxNodes = 4096;
constexpr std::int64_t kSliceQueries = 128;  // that a launch takes; scratch is for so many

// Room for a row's chunks. That of several nodes does not follow the context, so that recorded
// steps keep their scratch while passes over the chain run between them.
std::int64_t chunk_room(const Params& p) {
  return p.num_nodes > 1 ? kMaxChunks : most_chunks(shared_bound(p) + 1);
}

std::size_t partials_bytes(const Params& p, std::int64_t chunks) {
  const std::int64_t rows = std::min(p.num_queries, kSliceQueries) * p.num_heads;
  return static_cast<std::size_t>(rows * chunks * (p.head_dim + 2)) * sizeof(float);
}

ChunkPartials partials_of(const Params& p, std::int64_t chunks, void* scratch) {
  const std::int64_t rows = std::min(p.num_queries, kSliceQueries) * p.num_heads;
  ChunkPartials partials{.chunks = chunks};
  partials.value = static_cast<float*>(scratch);
  partials.max_sum = partials.value + rows * partials.chunks * p.head_dim;
  return partials;
}

// The params of the queries from slice.first_query on.
Params params_of(const Params& p, const FlashSlice& slice) {
  const std::int64_t row = slice.first_query * p.num_heads * p.head_dim;
  Params part = p;
  part.num_queries = std::min(kSliceQueries, p.num_queries - slice.first_query);
  part.q += row;
  part.out += row;
  part.query_node += p.query_node == nullptr ? 0 : slice.first_query;
  return part;
}

Traffic partials_traffic(const Params& p, bool written) {
  const std::int64_t keys = shared_bound(p) + p.num_nodes;
  const std::int64_t chunks = (keys + chunk_keys(keys) - 1) / chunk_keys(keys);
  const double bytes =
      static_cast<double>(p.num_queries * p.num_heads * chunks * (p.head_dim + 2)) * sizeof(float);
  Traffic t;
  written ? t.write(TrafficTerm::kScores, bytes) : t.read(TrafficTerm::kScores, bytes);
  return t;
}

}  // namespace

template <class T>
bool flash_decode_takes(const TreeAttentionParams<T>& p) {
  return std::is_same_v<T, Bf16> && p.window == 0 && p.first_position == 0 &&
         p.joint.x == nullptr && (p.head_dim == 64 || p.head_dim == 128) &&
         p.num_heads / p.num_kv_heads <= kTileRows && p.num_nodes <= kMaxNodes;
}
template bool flash_decode_takes<float>(const TreeAttentionParams<float>&);
template bool flash_decode_takes<Bf16>(const TreeAttentionParams<Bf16>&);

bool flash_decode_captures(const Params& p) {
  return is_chain(p) && p.selected.token == nullptr &&
         p.num_queries * (p.num_heads / p.num_kv_heads) <= kTileRows;
}

std::size_t flash_decode_scratch_bytes(const Params& p) {
  return partials_bytes(p, chunk_room(p)) + (p.weights != nullptr ? capture_bytes(p) : 0);
}

void launch_flash_decode(const Params& p, const LaunchContext& context) {
  VERSIEVE_ASSERT(flash_decode_takes(p), "another launch takes it");
  VERSIEVE_ASSERT(p.num_queries >= 1 && p.num_nodes >= 1, "there is a query");
  VERSIEVE_ASSERT(
      p.selected.token == nullptr || p.counts == nullptr || p.selected.known_count != nullptr,
      "where the length is on the device, the list's count is");
  VERSIEVE_ASSERT(p.context_len + p.num_nodes < INT32_MAX, "positions are 32-bit");
  VERSIEVE_ASSERT(context.scratch_bytes >= flash_decode_scratch_bytes(p),
                  "scratch is reserved before");
  VERSIEVE_ASSERT(p.weights == nullptr || (p.query_node == nullptr && p.selected.token == nullptr),
                  "weights are the last node's over all keys");
  const ChunkPartials partials = partials_of(p, chunk_room(p), context.scratch);
  const std::int64_t rows = std::min(p.num_queries, kSliceQueries) * p.num_heads;
  const WeightCapture capture = p.weights != nullptr && flash_decode_captures(p)
                                    ? capture_at(p, partials.max_sum + 2 * rows * partials.chunks)
                                    : WeightCapture{};
  FlashSlice slice{.tree = !is_chain(p)};
  for (; slice.first_query < p.num_queries; slice.first_query += kSliceQueries) {
    FlashCalls<1> calls{.call = {{.p = params_of(p, slice), .slice = slice, .partials = partials}}};
    const Params& part = calls.call[0].p;
    {
      Traffic attended = tree_attention_traffic(part);
      attended += partials_traffic(part, true);
      const LaunchRange range("flash_decode", attended, context.observer);
      p.head_dim == 64 ? launch_size<64>(calls, 1, capture, context.stream)
                       : launch_size<128>(calls, 1, capture, context.stream);
    }
    Traffic merged = partials_traffic(part, false);
    if (capture.weight != nullptr) {
      merged += mean_traffic(part);
    }
    const LaunchRange range("flash_combine", merged, context.observer);
    p.head_dim == 64 ? launch_combine<64>(calls, 1, capture, context.stream)
                     : launch_combine<128>(calls, 1, capture, context.stream);
  }
}

bool flash_decode_shares(const Params& p) {
  return flash_decode_takes(p) && p.selected.token == nullptr && p.weights == nullptr &&
         p.counts == nullptr && p.num_queries <= kSliceQueries;
}

namespace {

constexpr std::size_t kTogetherBytes = std::size_t{256} << 20;  // of a launch's partial results

std::int64_t exact_chunks(const Params& p) {
  return most_chunks(p.context_len + p.num_nodes);
}

// Calls that share a launch: of one size, in their order.
std::vector<std::vector<const Params*>> shared_out(std::span<const Params> calls) {
  std::vector<std::vector<const Params*>> launches;
  for (int size = 0; size < 4; ++size) {
    std::size_t bytes = kTogetherBytes;
    for (const Params& p : calls) {
      if (size_of(p) != size) {
        continue;
      }
      const std::size_t own = partials_bytes(p, exact_chunks(p));
      bytes += own;
      if (bytes > kTogetherBytes || launches.back().size() == kMostFlashCalls) {
        launches.emplace_back();
        bytes = own;
      }
      launches.back().push_back(&p);
    }
  }
  return launches;
}

template <int kHeadDim>
void launch_together(const std::vector<const Params*>& some, const LaunchContext& context) {
  FlashCalls<kMostFlashCalls> calls{};
  Traffic attended, merged;
  char* scratch = static_cast<char*>(context.scratch);
  for (std::size_t i = 0; i < some.size(); ++i) {
    const Params& p = *some[i];
    calls.call[i] = {.p = p,
                     .slice = {.tree = !is_chain(p)},
                     .partials = partials_of(p, exact_chunks(p), scratch)};
    scratch += partials_bytes(p, exact_chunks(p));
    attended += tree_attention_traffic(p);
    attended += partials_traffic(p, true);
    merged += partials_traffic(p, false);
  }
  {
    const LaunchRange range("flash_decode", attended, context.observer);
    launch_size<kHeadDim>(calls, some.size(), {}, context.stream);
  }
  const LaunchRange range("flash_combine", merged, context.observer);
  launch_combine<kHeadDim>(calls, some.size(), {}, context.stream);
}

}  // namespace

std::size_t flash_decode_together_bytes(std::span<const Params> calls) {
  std::size_t most = 0;
  for (const std::vector<const Params*>& some : shared_out(calls)) {
    std::size_t bytes = 0;
    for (const Params* p : some) {
      bytes += partials_bytes(*p, exact_chunks(*p));
    }
    most = std::max(most, bytes);
  }
  return most;
}

void launch_flash_decode_together(std::span<const Params> calls, const LaunchContext& context) {
  for (const std::vector<const Params*>& some : shared_out(calls)) {
    some[0]->head_dim == 64 ? launch_together<64>(some, context)
                            : launch_together<128>(some, context);
  }
}

}  // namespace versieve::kernels
