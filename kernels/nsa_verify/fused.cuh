// What the fused launches share: their arguments, a CTA's queries and its tables in shared memory,
// and how tiles of keys flow through it.
//
// A CTA holds up to four row tiles of 16 rows for one KV head, four warps each (fused_rows.cuh):
// consecutive nodes with their query heads. A cluster of CTAs takes the same queries; its ranks share
// out the keys: spans of compressed tokens, six segments of selected blocks (by a block's number
// modulo six), two segments of the window (chunks of 64 positions, even and odd). All these cuts depend on
// positions and on a node's own list, never on the call, so partial results and their order are a
// node's own.
//
// Loops are kept rolled on purpose: a launch of a few microseconds runs most of its code once, and
// fetching it costs more than running it.
#pragma once

#include <cooperative_groups.h>

#include <cstdint>

#include "kernels/common/dependent_launch.cuh"
#include "kernels/common/tile_copy.cuh"
#include "kernels/nsa_verify/fused_rows.cuh"
#include "kernels/nsa_verify/params.h"

namespace versieve::kernels {

inline constexpr int kSelectedSegments = 6;
inline constexpr int kWindowSegments = 2;
inline constexpr int kSegments = kSelectedSegments + kWindowSegments;
inline constexpr int kMaxRowTiles = 4;
inline constexpr int kMaxFusedQueries = 256;
inline constexpr int kTailQueries = kTileKeys / kSliceKeys;  // queries in one tail tile

// Spans of compressed tokens: 128 long below 1,024, then 512. Short contexts spread over more CTAs,
// long ones write fewer partial results.
inline constexpr int kShortSpan = 128;
inline constexpr int kShortSpanEnd = 1024;
inline constexpr int kLongSpan = 512;
__host__ __device__ inline int span_of(int token) {
  return token < kShortSpanEnd
             ? token / kShortSpan
             : kShortSpanEnd / kShortSpan + (token - kShortSpanEnd) / kLongSpan;
}
__host__ __device__ inline int span_start(int span) {
  return span <= kShortSpanEnd / kShortSpan
             ? span * kShortSpan
             : kShortSpanEnd + (span - kShortSpanEnd / kShortSpan) * kLongSpan;
}
__host__ __device__ inline int span_count(int tokens) {
  return tokens > 0 ? span_of(tokens - 1) + 1 : 0;
}
// First span of rank `rank` of `ranks` when the spans of `tokens` tokens are shared out: a span goes
// where its middle falls.
__host__ __device__ inline int first_span(int rank, int ranks, int tokens) {
  const int spans = span_count(tokens);
  int span = 0;
  while (span < spans) {
    const int end = span_start(span + 1);
    if ((span_start(span) + (end < tokens ? end : tokens)) * ranks >= 2 * rank * tokens) {
      break;
    }
    ++span;
  }
  return span;
}

// What the copy engine knows of the caches: [rows, G, d] in boxes of 64 rows x 1 x 64 elements.
struct TileMaps {
  CUtensorMap k, v, k_cmp, v_cmp;
};

// Sizes of one launch, fixed on the host.
struct FusedPlan {
  int row_tiles = 0;        // of a CTA
  int ranks = 0;            // CTAs of a cluster
  int tiles = 0;            // of queries: gridDim.y
  int team_tiles = 0;       // row tiles that share a tile of keys: max(1, C Hp / 16)
  int group = 0;            // C, as far as loads are shared
  int stages = 0;           // tiles in shared memory, all teams together
  int barriers = 0;         // a stage
  int list_capacity = 0;    // entries of a team's list
  int candidates = 0;       // ints of a team's candidates
  int path_compressed = 0;  // path-local compressed tokens a node can have
  int depth_capacity = 0;   // ancestors of a node, itself included
  int rank_tokens = 0;      // compressed tokens of a rank, at most (routing)
  std::size_t shared_bytes = 0;
};

struct FusedArguments {
  FusedPlan plan;
  int nodes, heads, kv_heads, head_dim, group_heads;
  int head_bits;     // log2 Hp
  int tile_queries;  // of a CTA
  int context_len, tree_compressed;  // read if counts is null
  int cmp_block, stride_bits;        // l, log2 s
  int block_bits;                    // log2 B
  int sel_count, init_blocks, local_blocks, window;
  int num_blocks;    // S: pitch of p.importance
  int group_size;    // C where groups share their representative's blocks, else 1
  int max_spans;
  int max_blocks;    // selection blocks a node can have, a multiple of 4
  const StepCounts* counts;
  const Bf16 *q, *k, *v, *k_cmp, *v_cmp, *k_tree, *v_tree, *k_cmp_tree, *v_cmp_tree, *gates;
  const std::int32_t *parent, *position, *owner;
  const std::int32_t* chosen;  // [N, G, n]: the blocks that are attended
  Bf16* out;
  std::int32_t* indices;  // [N, G, n]
  float* importance;      // [N, G, S] or null
  float2* span_states;    // [N, H, spans]: reference, sum
  float* span_outs;       // [N, H, spans, d]
  float* importance_own;     // [N, G, max_blocks]
  float* importance_before;  // [N, G, max_blocks]
  float* compressed;         // [N, H, d]: the compressed branch, normalised
  float2* segment_states;    // [N, H, 8]
  float* segment_outs;       // [N, H, 8, d]
};

// A tile of up to 64 keys. Shared: keys first, first + 1, ... for every query in `owners`. Tail: one
// slice of 16 positions from `first`, a slot of keys of its own for each of four queries.
struct Entry {
  std::int32_t first;
  std::int32_t count;    // shared: keys that are there
  std::uint32_t owners;  // shared: bit by query of the team
  std::int32_t tail;     // -1: shared; else the first of its queries, counted in the team
  std::uint64_t valid;   // tail: bit by key of the tile: query * 16 + position of the slice
};

// What a CTA knows of its queries. Pointers lead into shared memory.
struct Queries {
  const FusedArguments& a;
  int g;           // KV head
  int first_node;
  int count;       // nodes of this tile that exist
  int tile, slice, lane;  // row tile of the CTA and slice class of this warp
  int per_tile;    // queries of a row tile: 16 / Hp
  int tail_groups;        // of a row tile: ceil(per_tile / 4)
  int context_len;        // L
  int committed;          // Lc
  int tree_compressed;    // E
  int shared_tokens;      // tokens below are loaded once for all: L rounded down to a slice
  int shared_compressed;  // the same of compressed tokens; Lc itself where no node adds one
  int most_position;      // of the tile's nodes
  std::int16_t* ancestor;  // [tile_queries, depth_capacity]
  std::int16_t* path_row;  // [tile_queries, path_compressed]: row of k_cmp_tree or -1
  std::int32_t* position;  // [tile_queries]; -1: no such node

  __device__ int query_of(int row) const { return tile * per_tile + (row >> a.head_bits); }
  __device__ int head_of(int row) const { return row & ((1 << a.head_bits) - 1); }
  __device__ bool has_row(int row) const {
    return query_of(row) < count && head_of(row) < a.group_heads;
  }
  // Row of [N, H] of a query of the tile and a head of the group.
  __device__ int row_index(int query, int head) const {
    return (first_node + query) * a.heads + g * a.group_heads + head;
  }
  __device__ int pair_index(int query) const { return (first_node + query) * a.kv_heads + g; }
  __device__ int compressed_of(int tokens) const {
    return tokens >= a.cmp_block ? ((tokens - a.cmp_block) >> a.stride_bits) + 1 : 0;
  }
  // Compressed tokens that a query of the tile sees.
  __device__ int seen_by(int query) const { return compressed_of(position[query] + 1); }
};

__device__ inline void named_barrier(int barrier, int threads) {
  asm volatile("bar.sync %0, %1;\n" ::"r"(barrier), "r"(threads) : "memory");
}

// Row tiles that share tiles of keys and wait for each other only. The first warp loads.
struct Team {
  int first_tile;
  int tiles;
  int thread;   // within the team
  int barrier;  // hardware barrier

  __device__ int threads() const { return tiles * kSlices * 32; }
  __device__ void sync() const { named_barrier(barrier, threads()); }
};
// The team of this warp where teams of `tiles` share out the CTA's row tiles. Barriers: 0 is the
// CTA's, 1-4 the row tiles', 5-8 the teams'.
__device__ inline Team make_team(int tiles) {
  const int index = static_cast<int>(threadIdx.x) / (kSlices * 32) / tiles;
  return {index * tiles, tiles, static_cast<int>(threadIdx.x) - index * tiles * kSlices * 32,
          5 + index};
}

// A team's stages (a tile's keys and values) in shared memory and their barriers. A stage is full
// when its copies have landed, empty when all warps have read it.
struct Ring {
  std::uint32_t stages_at;    // 1024-byte aligned
  std::uint32_t barriers_at;  // [stages] full, [stages] empty
  int stages;

  __device__ std::uint32_t full(int place) const {
    return barriers_at + static_cast<std::uint32_t>(place) * 8U;
  }
  __device__ std::uint32_t empty(int place) const {
    return barriers_at + static_cast<std::uint32_t>(stages + place) * 8U;
  }
  __device__ void init(int warps) const {
#pragma unroll 1
    for (int i = 0; i < stages; ++i) {
      barrier_init(full(i), 1);
      barrier_init(empty(i), warps);
    }
  }
};

__device__ inline Queries make_queries(const FusedArguments& a) {
  Queries t{a};
  t.g = static_cast<int>(blockIdx.z);
  t.first_node = static_cast<int>(blockIdx.y) * a.tile_queries;
  t.count = min(a.tile_queries, a.nodes - t.first_node);
  const int warp = static_cast<int>(threadIdx.x) / 32;
  t.tile = warp / kSlices;
  t.slice = warp % kSlices;
  t.lane = static_cast<int>(threadIdx.x) % 32;
  t.per_tile = kTileRows >> a.head_bits;
  t.tail_groups = (t.per_tile + kTailQueries - 1) / kTailQueries;
  t.context_len = a.counts != nullptr ? a.counts->context_len : a.context_len;
  t.tree_compressed = a.counts != nullptr ? a.counts->tree_compressed : a.tree_compressed;
  t.committed = t.compressed_of(t.context_len);
  t.shared_tokens = t.context_len & -kSliceKeys;
  t.shared_compressed = t.tree_compressed > 0 ? t.committed & -kSliceKeys : t.committed;
  return t;
}

template <int kD>
__device__ __forceinline__ void load_rows(const Queries& t, SliceRows<kD>& rows) {
  const FusedArguments& a = t.a;
  rows.load(a.head_dim, [&](int row) {
    return t.has_row(row) ? a.q + t.row_index(t.query_of(row), t.head_of(row)) * a.head_dim
                          : nullptr;
  });
}

// Fills the tables in `memory` (8-byte aligned). Ends with a barrier of the CTA.
__device__ inline void fill_tables(Queries& t, std::int32_t* memory) {
  const FusedArguments& a = t.a;
  const int depths = a.plan.depth_capacity;
  const int paths = a.plan.path_compressed;
  t.position = memory;
  std::int32_t* const parents = t.position + a.tile_queries;
  t.ancestor = reinterpret_cast<std::int16_t*>(parents + a.nodes);
  t.path_row = t.ancestor + a.tile_queries * depths;
  const int threads = static_cast<int>(blockDim.x);
  const int thread = static_cast<int>(threadIdx.x);
#pragma unroll 1
  for (int i = thread; i < max(a.nodes, a.tile_queries); i += threads) {
    if (i < a.nodes) {
      parents[i] = a.parent[i];
    }
    if (i < a.tile_queries) {
      t.position[i] = i < t.count ? a.position[t.first_node + i] : -1;
    }
  }
  __syncthreads();
  if (thread < t.count) {
    std::int16_t* const path = t.ancestor + thread * depths;
    int node = t.first_node + thread;
#pragma unroll 1
    for (int depth = t.position[thread] - t.context_len; depth >= 0 && node >= 0; --depth) {
      path[depth] = static_cast<std::int16_t>(node);
      node = parents[node];
    }
  }
  int most = -1;
#pragma unroll 1
  for (int i = t.lane; i < t.count; i += 32) {
    most = max(most, t.position[i]);
  }
  t.most_position = __reduce_max_sync(0xFFFFFFFFU, most);
  __syncthreads();
  if (t.tree_compressed == 0) {
    return;
  }
#pragma unroll 1
  for (int i = thread; i < a.tile_queries * paths; i += threads) {
    const int query = i / paths;
    const int token = t.committed + i - query * paths;
    int row = -1;
    if (query < t.count && token < t.seen_by(query)) {
      const int last = (token << a.stride_bits) + a.cmp_block - 1;
      const int node = t.ancestor[query * depths + last - t.context_len];
      int low = 0;
      int high = t.tree_compressed;
#pragma unroll 1
      while (low < high) {
        const int middle = (low + high) / 2;
        if (a.owner[middle] < node) {
          low = middle + 1;
        } else {
          high = middle;
        }
      }
      row = low < t.tree_compressed && a.owner[low] == node ? low : -1;
    }
    t.path_row[i] = static_cast<std::int16_t>(row);
  }
  __syncthreads();
}

// One warp copies a tile whose keys do not all lie in the cache into a stage, 16 bytes a lane.
template <int kD>
__device__ __forceinline__ void load_gathered(const Queries& t, bool compressed, int first_query,
                                              const Entry& entry, std::uint32_t stage) {
  constexpr int kChunks = kD / 8;
  const FusedArguments& a = t.a;
  const int chunk = t.lane % kChunks;
  const int stride = a.kv_heads * a.head_dim;
  const int shared_rows = compressed ? t.committed : t.context_len;
#pragma unroll 1
  for (int row = t.lane / kChunks; row < kTileKeys; row += 32 / kChunks) {
    bool exists = chunk * 8 < a.head_dim;
    int at = entry.first + row;
    bool shared = true;
    if (entry.tail < 0) {
      exists = exists && row < entry.count;
    } else {
      exists = exists && (entry.valid >> row & 1) != 0;
      at = entry.first + row % kSliceKeys;
      shared = at < shared_rows;
      if (exists && !shared) {
        const int query = first_query + entry.tail + row / kSliceKeys;
        at = compressed ? t.path_row[query * a.plan.path_compressed + at - shared_rows]
                        : t.ancestor[query * a.plan.depth_capacity + at - shared_rows];
      }
    }
    const std::int64_t offset =
        exists ? static_cast<std::int64_t>(at) * stride + t.g * a.head_dim + chunk * 8 : 0;
    const Bf16* const k = shared ? (compressed ? a.k_cmp : a.k)
                                 : (compressed ? a.k_cmp_tree : a.k_tree);
    const Bf16* const v = shared ? (compressed ? a.v_cmp : a.v)
                                 : (compressed ? a.v_cmp_tree : a.v_tree);
    const std::uint32_t to = unit_chunk(stage, row, chunk);
    copy_chunk_async(to, exists ? k + offset : a.q, exists);
    copy_chunk_async(to + SliceRows<kD>::kUnitBytes, exists ? v + offset : a.q, exists);
  }
}

// The loading warp fills place `place` of the ring.
template <int kD>
__device__ __forceinline__ void load_stage(const Queries& t, const TileMaps& maps, bool compressed,
                                           const Team& team, const Entry& entry, const Ring& ring,
                                           int place) {
  const std::uint32_t stage =
      ring.stages_at + static_cast<std::uint32_t>(place * SliceRows<kD>::kStageBytes);
  if (entry.tail < 0 && entry.count == kTileKeys) {
    if (t.lane == 0) {
      barrier_expect(ring.full(place), SliceRows<kD>::kStageBytes);
#pragma unroll
      for (int panel = 0; panel < kD / 64; ++panel) {
        const std::uint32_t to = stage + static_cast<std::uint32_t>(panel * kTileKeys * 128);
        copy_tile_async(to, compressed ? &maps.k_cmp : &maps.k, panel * 64, t.g, entry.first, ring.full(place));
        copy_tile_async(to + SliceRows<kD>::kUnitBytes, compressed ? &maps.v_cmp : &maps.v,
                        panel * 64, t.g, entry.first, ring.full(place));
      }
    }
    return;
  }
  load_gathered<kD>(t, compressed, team.first_tile * t.per_tile, entry, stage);
  barrier_await_copies(ring.full(place));
  __syncwarp();
  if (t.lane == 0) {
    barrier_arrive(ring.full(place));
  }
}

// Shared memory of a row tile in which its four states are merged, in floats.
template <int kD>
inline constexpr int kMergePitch = kD + 8;
template <int kD>
inline constexpr int kMergeFloats = kSlices * kTileRows * (kMergePitch<kD> + 2);

// The row tile's four warps merge their states in ascending slice class and write a part: a span of
// compressed tokens, or a segment.
template <int kD>
__device__ __forceinline__ void store_part(const Queries& t, SliceRows<kD>& rows, bool compressed,
                                           int part, float* merge) {
  constexpr int kPitch = kMergePitch<kD>;
  float2* const states = reinterpret_cast<float2*>(merge);  // [slice, row]
  float* const outs = merge + 2 * kSlices * kTileRows;      // [slice, row, pitch]
  named_barrier(1 + t.tile, kSlices * 32);  // nobody still reads the part before
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int row = t.slice * kTileRows + t.lane / 4 + r * 8;
    float total = rows.sum[r];
    total += __shfl_xor_sync(0xFFFFFFFFU, total, 1);
    total += __shfl_xor_sync(0xFFFFFFFFU, total, 2);
    if (t.lane % 4 == 0) {
      states[row] = make_float2(rows.reference[r], total);
    }
#pragma unroll
    for (int n = 0; n < kD / 8; ++n) {
      *reinterpret_cast<float2*>(outs + row * kPitch + n * 8 + t.lane % 4 * 2) =
          make_float2(rows.out[n][r * 2], rows.out[n][r * 2 + 1]);
    }
  }
  named_barrier(1 + t.tile, kSlices * 32);
#pragma unroll 1
  for (int row = t.slice; row < kTileRows; row += kSlices) {
    if (!t.has_row(row)) {
      continue;
    }
    float most = kNoReference;
#pragma unroll
    for (int i = 0; i < kSlices; ++i) {
      const float2 state = states[i * kTileRows + row];
      most = state.y > 0.0F ? fmaxf(most, state.x) : most;
    }
    float sum = 0.0F;
    float2 value[kD / 64] = {};
#pragma unroll
    for (int i = 0; i < kSlices; ++i) {
      const float2 state = states[i * kTileRows + row];
      const float weight = state.y > 0.0F ? state_weight(state.x, most) : 0.0F;
      sum = fmaf(weight, state.y, sum);
#pragma unroll
      for (int w = 0; w < kD / 64; ++w) {
        const float2 pair = *reinterpret_cast<const float2*>(
            outs + (i * kTileRows + row) * kPitch + w * 64 + t.lane * 2);
        value[w].x = fmaf(weight, pair.x, value[w].x);
        value[w].y = fmaf(weight, pair.y, value[w].y);
      }
    }
    const int at = t.row_index(t.query_of(row), t.head_of(row)) *
                       (compressed ? t.a.max_spans : kSegments) + part;
    if (t.lane == 0) {
      __stcg((compressed ? t.a.span_states : t.a.segment_states) + at, make_float2(most, sum));
    }
#pragma unroll
    for (int w = 0; w < kD / 64; ++w) {
      const int element = w * 64 + t.lane * 2;
      if (element < t.a.head_dim) {
        float* const outs_at = (compressed ? t.a.span_outs : t.a.segment_outs) + at * t.a.head_dim;
        __stcg(reinterpret_cast<float2*>(outs_at + element), value[w]);
      }
    }
  }
  rows.reset();
}

// Runs a list of entries through the rows: tiles flow through the ring, each barrier's first phase
// first; finished states become parts [part, end_part). after_keys(first key of
// the slice, whether rows lane / 4 and lane / 4 + 8 took part) sees the weights in rows.p. `low`: first visible key of rows lane / 4 and
// lane / 4 + 8.
template <int kD, class AfterKeys>
__device__ __forceinline__ void run_entries(const Queries& t, const TileMaps& maps, bool compressed,
                                            const Team& team, const Entry* entries, int count,
                                            const Ring& ring, const int (&low)[2], float* merge,
                                            int part, int end_part, SliceRows<kD>& rows,
                                            const AfterKeys& after_keys) {
  const int ahead = ring.stages - 1;  // the place filled next was read two tiles ago
  const bool loads = team.thread < 32;
  const int bits = t.a.head_bits;
  // This warp's queries within the team. A team of the whole CTA may have more queries than bits; all
  // of them own all its entries.
  const int first_query = (t.tile - team.first_tile) * t.per_tile;
  const std::uint32_t tile_mask = ((1U << t.per_tile) - 1U) << (first_query & 31);
  const std::uint32_t own[2] = {1U << ((first_query & 31) + ((t.lane / 4) >> bits)),
                                1U << ((first_query & 31) + ((t.lane / 4 + 8) >> bits))};
  int filled = 0;  // place and round filled next
  int filled_round = 0;
  int place = 0;  // place read next and the parity of its phase
  int parity = 0;
#pragma unroll 1
  for (int i = -ahead; i <= count; ++i) {
    if (loads && i + ahead < count) {
      if (filled_round > 0) {
        barrier_wait(ring.empty(filled), (filled_round - 1) & 1);
      }
      load_stage<kD>(t, maps, compressed, team, entries[i + ahead], ring, filled);
      if (++filled == ring.stages) {
        filled = 0;
        ++filled_round;
      }
    }
    if (i < 0) {
      continue;
    }
    const int first = entries[max(min(i, count - 1), 0)].first;
    const int until = i == count ? end_part : compressed ? span_of(first) : part;
#pragma unroll 1
    for (; part < until; ++part) {
      store_part(t, rows, compressed, part, merge);
    }
    if (i == count) {
      break;
    }
    const int tail = entries[i].tail;
    const std::uint32_t keys =
        ring.stages_at + static_cast<std::uint32_t>(place * SliceRows<kD>::kStageBytes);
    const std::uint32_t values = keys + SliceRows<kD>::kUnitBytes;
    barrier_wait(ring.full(place), parity);
    if (tail < 0) {
      const std::uint32_t owners = entries[i].owners;
      const int slot = (t.slice - first / kSliceKeys) & (kSlices - 1);
      const int there = min(entries[i].count - slot * kSliceKeys, kSliceKeys);
      if (there > 0 && (owners & tile_mask) != 0U) {
        std::uint32_t visible[2];
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          const int begin = min(max(low[r] - first - slot * kSliceKeys, 0), kSliceKeys);
          visible[r] = (owners & own[r]) != 0U ? ((1U << there) - 1U) & (0xFFFFU << begin) : 0U;
        }
        rows.take_slot(keys, values, slot, visible);
        after_keys(first + slot * kSliceKeys, true, true);
      }
    } else if (static_cast<unsigned>(tail - first_query) < static_cast<unsigned>(t.per_tile) &&
               (first / kSliceKeys & (kSlices - 1)) == t.slice) {
      const std::uint64_t valid = entries[i].valid;
      int row_slot[2];
      std::uint32_t visible[2];
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const int slot = first_query + ((t.lane / 4 + r * 8) >> bits) - tail;
        const bool inside = slot >= 0 && slot < kTailQueries;
        row_slot[r] = inside ? slot : kSlices;
        visible[r] =
            inside ? static_cast<std::uint32_t>(valid >> (slot * kSliceKeys)) & 0xFFFFU : 0U;
      }
      rows.take_tail(keys, values, row_slot, visible);
      after_keys(first, row_slot[0] < kSlices, row_slot[1] < kSlices);
    }
    __syncwarp();  // the whole warp has read the tile
    if (t.lane == 0) {
      barrier_arrive(ring.empty(place));
    }
    if (++place == ring.stages) {
      place = 0;
      parity ^= 1;
    }
  }
}

// Softmax states of up to `used` parts of one row merged in ascending order: maximum, and 1 / sum or
// 0 where no key was seen. A part a lane (and 32 parts later).
struct MergedState {
  float most;
  float inverse;
};
__device__ inline MergedState merge_states(const float2* states, int used) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  float most = kNoReference;
#pragma unroll 1
  for (int base = 0; base < used; base += 32) {
    const float2 state =
        base + lane < used ? __ldcg(states + base + lane) : make_float2(kNoReference, 0.0F);
    most = state.y > 0.0F ? fmaxf(most, state.x) : most;
  }
#pragma unroll 1
  for (int apart = 16; apart > 0; apart /= 2) {
    most = fmaxf(most, __shfl_xor_sync(0xFFFFFFFFU, most, apart));
  }
  float sum = 0.0F;
#pragma unroll 1
  for (int base = 0; base < used; base += 32) {
    const float2 state =
        base + lane < used ? __ldcg(states + base + lane) : make_float2(kNoReference, 0.0F);
    const float share =
        state.y > 0.0F ? multiply_flushed(state_weight(state.x, most), state.y) : 0.0F;
#pragma unroll 1
    for (int i = 0; i < min(32, used - base); ++i) {
      sum += __shfl_sync(0xFFFFFFFFU, share, i);
    }
  }
  return {most, sum > 0.0F ? 1.0F / sum : 0.0F};
}

// A warp adds `factor` times the merged output of parts [begin, end) (at most 8) of a row to `value`:
// elements lane * 2 + 64 w and the next. state: of part `lane`; pair: the parts' outputs.
template <int kD>
struct LoadedParts {
  static constexpr int kMost = 8;
  float2 state;                    // of part `lane`
  float2 pair[kMost][kD / 64];

  __device__ __forceinline__ void load(int head_dim, const float2* states, const float* outs,
                                       int used) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    state = lane < used ? __ldcg(states + lane) : make_float2(kNoReference, 0.0F);
#pragma unroll
    for (int i = 0; i < kMost; ++i) {
#pragma unroll
      for (int w = 0; w < kD / 64; ++w) {
        const int element = min(w * 64 + lane * 2, head_dim - 2);
        pair[i][w] = i < used ? __ldcg(reinterpret_cast<const float2*>(outs + i * head_dim + element))
                              : make_float2(0.0F, 0.0F);
      }
    }
  }
  // Parts [begin, end), merged in ascending order under their own maximum.
  __device__ __forceinline__ void add(int begin, int end, float factor, float2* value) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const bool mine = lane >= begin && lane < end && state.y > 0.0F;
    float most = mine ? state.x : kNoReference;
#pragma unroll
    for (int apart = 4; apart > 0; apart /= 2) {  // parts lie in the first eight lanes
      most = fmaxf(most, __shfl_xor_sync(0xFFFFFFFFU, most, apart));
    }
    most = __shfl_sync(0xFFFFFFFFU, most, 0);
    const float weight = mine ? state_weight(state.x, most) : 0.0F;
    const float share = multiply_flushed(weight, state.y);
    float sum = 0.0F;
    float2 merged[kD / 64] = {};
#pragma unroll
    for (int i = 0; i < kMost; ++i) {
      const float w_i = __shfl_sync(0xFFFFFFFFU, weight, i);
      sum += __shfl_sync(0xFFFFFFFFU, share, i);
      if (w_i > 0.0F) {  // an empty part adds nothing
#pragma unroll
        for (int w = 0; w < kD / 64; ++w) {
          merged[w].x = fmaf(w_i, pair[i][w].x, merged[w].x);
          merged[w].y = fmaf(w_i, pair[i][w].y, merged[w].y);
        }
      }
    }
    const float inverse = sum > 0.0F ? factor / sum : 0.0F;
#pragma unroll
    for (int w = 0; w < kD / 64; ++w) {
      value[w].x = fmaf(merged[w].x, inverse, value[w].x);
      value[w].y = fmaf(merged[w].y, inverse, value[w].y);
    }
  }
};

// A warp adds `factor` times the merged output of `used` parts of a row to `value`: elements
// lane * 2 + 64 w and the next. states: [used], outs: [used, d].
template <int kD>
__device__ __noinline__ void add_merged(int head_dim, const float2* states, const float* outs,
                                        int used, float factor, float2* value) {
  constexpr int kBatch = 8;  // loads that fly together
  const int lane = static_cast<int>(threadIdx.x) % 32;
  float2 sum[kD / 64] = {};
  MergedState merged{};
#pragma unroll 1
  for (int base = 0; base < used; base += kBatch) {
    float2 state[kBatch];
    float2 pair[kBatch][kD / 64];
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      const int part = min(base + i, used - 1);
      state[i] = __ldcg(states + part);
#pragma unroll
      for (int w = 0; w < kD / 64; ++w) {
        const int element = min(w * 64 + lane * 2, head_dim - 2);
        pair[i][w] =
            __ldcg(reinterpret_cast<const float2*>(outs + part * head_dim + element));
      }
    }
    if (base == 0) {
      merged = merge_states(states, used);
    }
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      if (base + i < used && state[i].y > 0.0F) {
        const float weight = state_weight(state[i].x, merged.most);
#pragma unroll
        for (int w = 0; w < kD / 64; ++w) {
          sum[w].x = fmaf(weight, pair[i][w].x, sum[w].x);
          sum[w].y = fmaf(weight, pair[i][w].y, sum[w].y);
        }
      }
    }
  }
#pragma unroll
  for (int w = 0; w < kD / 64; ++w) {
    value[w].x = fmaf(sum[w].x, merged.inverse * factor, value[w].x);
    value[w].y = fmaf(sum[w].y, merged.inverse * factor, value[w].y);
  }
}

}  // namespace versieve::kernels
