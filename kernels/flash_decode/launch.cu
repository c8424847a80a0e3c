// flash_decode of one call: its maps, its scratch, slices of at most 128 queries.
#include <algorithm>
#include <type_traits>

#include "kernels/common/launch_range.h"
#include "kernels/flash_decode/flash_kernels.cuh"
#include "kernels/launch.h"
#include "kernels/tree_attention/traffic.h"
#include "model/words/assert.h"

namespace versieve::kernels {
namespace {

using Params = FlashParams;

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

constexpr std::int64_t kMaxNodes = 4096;

// Room for a row's chunks. That of several nodes does not follow the context, so that recorded
// steps keep their scratch while passes over the chain run between them.
std::int64_t chunk_room(const Params& p) {
  return p.num_nodes > 1 ? kMaxChunks : most_chunks(shared_bound(p) + 1);
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
  return partials_bytes(p, chunk_room(p)) +
         (p.weights != nullptr ? capture_bytes(p, p.context_len + p.num_nodes) : 0);
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
                                    ? capture_at(p, p.context_len + p.num_nodes,
                                                 partials.max_sum + 2 * rows * partials.chunks)
                                    : WeightCapture{};
  FlashSlice slice{.tree = !is_chain(p)};
  for (; slice.first_query < p.num_queries; slice.first_query += kSliceQueries) {
    FlashLone lone{.call = {.p = params_of(p, slice),
                            .slice = slice,
                            .partials = partials,
                            .capture = capture},
                   .maps = {}};
    const Params& part = lone.call.p;
    cut_call(lone.call, flash_form(size_of(part), part.head_dim, false),
             most_chunks(shared_bound(part) + part.num_nodes), 1);
    lone.maps = cache_maps(part);
    FlashGrid grid;
    grid.add(lone.call);
    {
      Traffic attended = tree_attention_traffic(part);
      attended += partials_traffic(part, true);
      const LaunchRange range("flash_decode", attended, context.observer);
      p.head_dim == 64 ? launch_size<64>(lone, grid, context.stream)
                       : launch_size<128>(lone, grid, context.stream);
    }
    Traffic merged = partials_traffic(part, false);
    if (capture.weight != nullptr) {
      merged += mean_traffic(part);
    }
    const LaunchRange range("flash_combine", merged, context.observer);
    p.head_dim == 64 ? launch_combine<64>(lone, grid, context.stream)
                     : launch_combine<128>(lone, grid, context.stream);
  }
}

}  // namespace versieve::kernels
