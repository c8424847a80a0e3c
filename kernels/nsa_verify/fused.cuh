// What the fused launches share: their arguments, a CTA's queries and its tables in shared memory.
//
// A row tile is 16 rows for one KV head, held by one warp (fused_rows.cuh): consecutive nodes with
// their query heads. A group of up to four row tiles is worked on by several CTAs, which share out
// its parts: spans of compressed tokens, six segments of selected blocks (by a block's number
// modulo six), two segments of the window (chunks of 64 positions, even and odd). A CTA has four
// warps that work: four row tiles and one part after the other, or fewer row tiles and more parts
// at a time (slots); in a tree's launches four more ask for their tiles (fused_ring.cuh) and, in a
// CTA of many parts, list them. Partial results go to memory (L2); the last CTAs of the grid wait
// for those of their group and merge them. All these cuts depend on positions and on a node's own
// list, never on the call, so partial results and their order are a node's own.
//
// Spans are summed up in two steps: those of a join (512 compressed tokens) in ascending order,
// then joins. A CTA that has whole joins takes the first step in registers and stores a join as one
// part (FusedCut::joined); else the finishing CTA takes both. The sums are the same, bit for bit.
//
// Progress: a finishing CTA waits for CTAs of smaller block number only, and blocks start in the
// order of their numbers (what CUB's single-pass scan relies on too), so that whoever is waited for
// is running or done.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "kernels/common/dependent_launch.cuh"
#include "kernels/common/warp.cuh"
#include "kernels/nsa_verify/fused_rows.cuh"
#include "kernels/nsa_verify/params.h"
#include "kernels/ptx/block.cuh"
#include "kernels/ptx/settle.cuh"
#include "model/launches/fused_cut.h"

namespace versieve::kernels {

inline constexpr int kSelectedSegments = kFusedSelectedSegments;
inline constexpr int kWindowSegments = kFusedWindowSegments;
inline constexpr int kSegments = kFusedSegments;
inline constexpr int kCtaWarps = kFusedWarps;
// A CTA of the launches for trees has as many warps again, which feed rings (fused_ring.cuh).
inline constexpr int kTreeThreads = 2 * kCtaWarps * 32;
// Registers of a thread that feeds, and of one that feeds and makes lists. Those of a thread that
// works, with which an SM holds two CTAs: 256 less.
inline constexpr int kFeedRegisters = 40;
inline constexpr int kListRegisters = 48;
inline constexpr int kMaxFusedQueries = 256;

// First span of rank `rank` of `ranks` when the spans of `tokens` tokens are shared out: a span
// goes where its middle falls. All lanes of a warp call it.
__device__ inline int first_span(int rank, int ranks, int tokens) {
  const int spans = span_count(tokens);
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll 1
  for (int base = 0; base < spans; base += 32) {
    const int span = base + lane;
    const int end = min(span_start(span + 1), tokens);
    const bool from_here = span < spans && (span_start(span) + end) * ranks >= 2 * rank * tokens;
    const unsigned found = __ballot_sync(0xFFFFFFFFU, from_here);
    if (found != 0U) {
      return base + __ffs(static_cast<int>(found)) - 1;
    }
  }
  return spans;
}

// What the copy engine knows of keys and values, the committed ones and the tree's: [rows, G, d] in
// boxes of 64 rows x 1 x 64 elements.
struct TileMaps {
  // [tokens, compressed tokens][committed keys, values, the tree's keys, values]
  CUtensorMap of[2][4];
};

// Division by what the host knows: exact for 0 <= x < 2^16 and divisors up to 2^16.
struct Divisor {
  int value = 1;
  unsigned magic = 0;  // ceil(2^32 / value), 0 for 1

  Divisor() = default;
  explicit Divisor(int divisor)
      : value(divisor),
        magic(divisor == 1
                  ? 0U
                  : static_cast<unsigned>(((1ULL << 32) + static_cast<unsigned>(divisor) - 1U) /
                                          static_cast<unsigned>(divisor))) {}
  __device__ __forceinline__ int quotient(int x) const {
    return magic == 0U ? x : static_cast<int>(__umulhi(static_cast<unsigned>(x), magic));
  }
};

struct FusedArguments {
  FusedCut cut;
  int nodes;
  // By cut.query_tiles; by those times G; by n; by the words of a query's bit map of blocks.
  Divisor query_tiles, groups, list_length, words;
  int heads, kv_heads, head_dim, group_heads;
  int head_bits;                     // log2 Hp
  int cta_queries, cta_bits;         // cut.cta_queries(), and their log2
  int context_len, tree_compressed;  // read if counts is null
  int cmp_block, stride_bits;        // l, log2 s
  int block_bits;                    // log2 B
  int sel_count, init_blocks, local_blocks, window;
  int num_blocks;                  // S: pitch of p.importance
  int group_size;                  // C where groups share their representative's blocks, else 1
  bool older_lists, older_blocks;  // NsaVerifyParams
  int max_spans;
  bool spans_joined;  // the launch that stores spans stores joins: its cut's `joined`
  int max_blocks;     // selection blocks a node can have, a multiple of 4
  const StepCounts* counts;
  const Bf16 *q, *k_tree, *v_tree, *k_cmp_tree, *v_cmp_tree, *gates;
  const std::int32_t *parent, *position, *owner;
  const std::int32_t* chosen;  // [N, G, n]: the blocks that are attended
  Bf16* out;
  std::int32_t* indices;  // [N, G, n]
  float* importance;      // [N, G, S] or null
  float2* span_states;    // [N, H, spans]: reference, sum
  float* span_outs;       // [N, H, spans, 64 or 128]
  // Softmax weights of compressed tokens under their slice's reference, and by slice of 16 tokens
  // that reference and the weight of the slice's last token. `four` (B/s = 4, l/s = 2): weights
  // summed into blocks as importance counts them, the block before left out, [N, H, max_blocks];
  // else a token each, [N, H, 16 max_slices].
  float* weights;
  float2* slices;  // [N, H, max_slices]
  int max_slices;
  bool four;
  // Rows of the maps that come before those of the call: [tokens, compressed tokens][committed, the
  // tree's].
  int first_row[2][2];
  // Of the committed rows, [tokens, compressed tokens]: PageTable::page.
  const std::int32_t* pages[2];
  unsigned* counters;      // [G, tiles, 2]: CTAs that arrived, and that finished
  int blocks;              // CTAs of the call
  float2* segment_states;  // [N, H, 8]
  float* segment_outs;     // [N, H, 8, 64 or 128]

  // Where a tile of the committed rows begins whose first key that is; no tile goes on in another
  // page with keys that anybody sees.
  __device__ __forceinline__ int row_of(bool compressed, int first) const {
    return row_in_page(pages[compressed ? 1 : 0], first);
  }
  // Compressed tokens that end within the first `tokens` tokens.
  __device__ int compressed_of(int tokens) const {
    return tokens >= cmp_block ? ((tokens - cmp_block) >> stride_bits) + 1 : 0;
  }
};

// What a launch takes: one call, in constant memory as all kernel parameters.
struct FusedOne {
  static constexpr int kLoneCtas = 2;  // of an SM, that take a node alone

  FusedArguments arguments;
  TileMaps maps;

  __device__ __forceinline__ const FusedArguments& mine() const { return arguments; }
  __device__ __forceinline__ int block() const { return static_cast<int>(blockIdx.x); }
  __device__ __forceinline__ bool leaves_idle(const FusedArguments&) const { return false; }
};
// Or those of several sequences, blockIdx.x each, whose arguments lie in device memory and were
// complete before any launch that may still run began. Blocks of the same number start together:
// those that finish come behind those that all of the others wait for.
struct FusedSeveral {
  static constexpr int kLoneCtas = 3;

  const FusedArguments* arguments;  // [gridDim.x]
  TileMaps maps;                    // of all rows, which are cut into those of sequences and layers

  // In shared memory, at an address that takes no registers. All threads, once.
  __device__ __forceinline__ const FusedArguments& mine() const {
    constexpr int kWords = sizeof(FusedArguments) / sizeof(std::uint64_t);
    static_assert(sizeof(FusedArguments) % sizeof(std::uint64_t) == 0 &&
                  sizeof(FusedArguments) <= kFusedCallBytes);
    __shared__ FusedArguments own;
    const auto* const from = reinterpret_cast<const std::uint64_t*>(arguments + blockIdx.x);
#pragma unroll 1
    for (int i = static_cast<int>(threadIdx.x); i < kWords; i += static_cast<int>(blockDim.x)) {
      reinterpret_cast<std::uint64_t*>(&own)[i] = from[i];
    }
    __syncthreads();
    return own;
  }
  __device__ __forceinline__ int block() const {
    return static_cast<int>(blockIdx.y);
  }
  // The grid is as deep as the call with the most blocks.
  __device__ __forceinline__ bool leaves_idle(const FusedArguments& a) const {
    return block() >= a.blocks;
  }
};

// A tile of up to 64 keys. Shared: keys first, first + 1, ... for every query in `bits`. Tail: one
// slice of 16 positions from `first`, of which each of four queries sees keys of its own; the tail
// entries of a slice stand together, and their units are loaded once.
struct Entry {
  std::int32_t first;
  std::int8_t count;   // shared: keys that are there; tail: entries of the slice from here on
  std::int8_t tail;    // -1: shared; else the first of its queries, counted in the team
  std::int16_t part;   // that the tile belongs to: a segment, or a span of compressed tokens
  std::uint64_t bits;  // shared: by query of the team; tail: by key, query * 16 + position
};
static_assert(sizeof(Entry) == kFusedEntryBytes);
struct ListLength {
  int entries = 0;
  int units = 0;
};
// A team's tiles, and what is loaded for them, in shared memory.
struct TileList {
  Entry* entries;
  // A unit of a ring each: row * 4 + (the tree's ? 2 : 0) + (values ? 1 : 0), its first row.
  std::uint32_t* units;
  ListLength* length;
  std::uint32_t ready;  // barrier that signals: the list is there
};

// What a CTA knows of its queries. Pointers lead into shared memory.
struct Queries {
  const FusedArguments& a;
  int group;  // of queries and KV head
  int g;      // KV head
  int first_node;
  int count;                   // nodes of this tile that exist
  int tile, slot, lane;        // row tile and slot of this warp
  int per_tile;                // queries of a row tile: 16 / Hp, or fewer
  int tail_groups;             // of a row tile: ceil(per_tile / 4)
  int context_len;             // L
  int committed;               // Lc
  int tree_compressed;         // E
  int shared_tokens;           // tokens below are loaded once for all: L rounded down to a slice
  int shared_compressed;       // the same of compressed tokens; Lc itself where no node adds one
  int most_position;           // of the tile's nodes
  std::int16_t* ancestor;      // [tile_queries, depth_capacity]
  std::int16_t* path_row;      // [tile_queries, path_compressed]: row of k_cmp_tree or -1
  std::int32_t* position;      // [tile_queries]; -1: no such node
  std::uint32_t tables_ready;  // barrier that signals: all tables are filled

  __device__ int query_of(int row) const { return tile * per_tile + (row >> a.head_bits); }
  __device__ int head_of(int row) const { return row & ((1 << a.head_bits) - 1); }
  __device__ bool has_row(int row) const {
    return (row >> a.head_bits) < per_tile && query_of(row) < count && head_of(row) < a.group_heads;
  }
  // Row of [N, H] of a query of the tile and a head of the group.
  __device__ int row_index(int query, int head) const {
    return (first_node + query) * a.heads + g * a.group_heads + head;
  }
  __device__ int pair_index(int query) const { return (first_node + query) * a.kv_heads + g; }
  __device__ int compressed_of(int tokens) const { return a.compressed_of(tokens); }
  // Compressed tokens that a query of the tile sees.
  __device__ int seen_by(int query) const { return compressed_of(position[query] + 1); }
};

__device__ inline Queries make_queries(const FusedArguments& a, int group) {
  Queries t{a};
  t.group = group;
  t.g = a.query_tiles.quotient(group);
  t.first_node = (group - t.g * a.cut.query_tiles) * a.cta_queries;
  t.count = min(a.cta_queries, a.nodes - t.first_node);
  const int warp = warp_of_block() % kCtaWarps;  // a feeding warp is its working one's
  t.slot = warp >> a.cut.tile_bits;
  t.tile = warp - (t.slot << a.cut.tile_bits);
  t.lane = static_cast<int>(threadIdx.x) % 32;
  t.per_tile = a.cut.tile_queries;
  t.tail_groups = (t.per_tile + kFusedTailQueries - 1) / kFusedTailQueries;
  return t;
}

// What a finishing CTA knows of one node and KV head.
struct NodeOfHead {
  int node, g;
  int position;
  int seen;        // compressed tokens that it sees, indices without a row among them
  float2* states;  // [H/G]: maximum and 1 / sum of the compressed branch; in shared memory

  // After the wait for predecessors.
  __device__ __forceinline__ void locate(const FusedArguments& a) {
    position = a.position[node];
    seen = a.compressed_of(position + 1);
    const int tree = a.counts != nullptr ? a.counts->tree_compressed : a.tree_compressed;
    if (tree == 0) {
      seen =
          min(seen, a.compressed_of(a.counts != nullptr ? a.counts->context_len : a.context_len));
    }
  }
};

// Where the queries of this lane's rows lie, worked out before they may be read.
struct RowPlaces {
  const Bf16* at[2];

  template <class AnyQueries>
  __device__ __forceinline__ explicit RowPlaces(const AnyQueries& t) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int row = t.lane / 4 + r * 8;
      at[r] = t.has_row(row) ? t.a.q + t.row_index(t.query_of(row), t.head_of(row)) * t.a.head_dim +
                                   t.lane % 4 * 2
                             : nullptr;
      settle(at[r]);
    }
  }
};

// Of the CTA's working warps; hardware barrier 0.
__device__ inline void work_sync() {
  meet<0, kCtaWarps * 32>();
}

}  // namespace versieve::kernels
