// How a fused launch of nsa_verify is cut: row tiles and slots of a thread block, parts, shares of
// the compressed tokens, the ring of units and what else lies in shared memory. One planner and one
// struct for all who ask: a launch takes it as an argument (kernels/nsa_verify/fused.cuh), the
// simulator traces it. What the words mean: kernels/nsa_verify/README.md, "The fused form".
#pragma once

#include <cstdint>
#include <optional>

#include "model/launches/fused_parts.h"
#include "model/words/llm_shape.h"
#include "model/words/strategy.h"

namespace versieve {

inline constexpr int kFusedTile = 64;   // keys of a tile
inline constexpr int kFusedSlice = 16;  // keys of a slice; the tree's tail goes by slices
inline constexpr int kFusedRows = 16;   // rows of a row tile: queries x heads
inline constexpr int kFusedWarps = 4;   // of a CTA, that work
inline constexpr int kFusedJoin = 512;  // compressed tokens whose spans are summed up first
inline constexpr int kFusedSms = 132;   // of the chip that launches are cut for
// Groups of queries, times KV heads, from which on a CTA may run several parts.
inline constexpr int kFusedManyGroups = 16;
// Shared memory, in bytes and words of 4.
inline constexpr int kFusedEntryBytes = 16;        // of a list
inline constexpr int kFusedUnitBarrierBytes = 32;  // two a unit for each set of teams
inline constexpr int kFusedKinds = 3;              // spans, window, selected blocks
// Two barriers, and of each list and row tile one and the list's length: of each kind, and of the
// segments of selected blocks behind the first.
inline constexpr int kFusedReadyBytes = 2 * 8 + (kFusedKinds + 1) * kFusedWarps * 16;
inline constexpr int kFusedFinishRows = 64;    // of a finishing CTA: a state each
inline constexpr int kFusedMostRanked = 64;    // candidates of a selecting warp
inline constexpr int kFusedMostCounted = 128;  // blocks of a node that are ranked by counting
inline constexpr int kFusedTailQueries = 4;    // of a tail entry: 64 bits, 16 positions each
inline constexpr int kFusedMostShared = 8;     // queries that share loads of selected blocks
inline constexpr int kFusedCallBytes = 1024;   // of a CTA of several calls: its call's arguments
// Elements that a tile's rows, and a part's outputs in memory, have for heads of this size.
std::int64_t fused_width(std::int64_t head_dim);
// Thread blocks of heads this wide that are on the chip at once.
std::int64_t fused_resident(std::int64_t head_dim);
// Words of a bit map of the blocks whose number is r modulo the selected segments.
std::int64_t fused_map_words(std::int64_t num_blocks);
// Bytes of a CTA's tables: positions of its queries, parents and owners of all nodes, ancestors and
// path-local compressed tokens of its queries.
std::int64_t fused_table_bytes(std::int64_t nodes, std::int64_t cta_queries, std::int64_t depths,
                               std::int64_t paths);
// Words of a node's keys, chosen blocks and candidates (key, block) in a finishing CTA of
// nsa_route.
template <class Count>
constexpr Count fused_select_words(Count num_blocks, Count sel_count) {
  return (num_blocks + 3) / 4 * 4 + (sel_count + 3) / 4 * 4 + 2 * kFusedMostRanked;
}

// Spans of compressed tokens: 128 long below 1,024, then 256. Short contexts spread over more CTAs,
// long ones write fewer partial results. In the arithmetic of who asks: Token is int on the device.
inline constexpr int kFusedShortSpan = 128;
inline constexpr int kFusedShortSpanEnd = 1024;
inline constexpr int kFusedLongSpan = 256;
template <class Token>
constexpr Token span_of(Token token) {
  return token < kFusedShortSpanEnd
             ? token / kFusedShortSpan
             : kFusedShortSpanEnd / kFusedShortSpan + (token - kFusedShortSpanEnd) / kFusedLongSpan;
}
template <class Token>
constexpr Token span_start(Token span) {
  return span <= kFusedShortSpanEnd / kFusedShortSpan
             ? span * kFusedShortSpan
             : kFusedShortSpanEnd + (span - kFusedShortSpanEnd / kFusedShortSpan) * kFusedLongSpan;
}
template <class Token>
constexpr Token span_count(Token tokens) {
  return tokens > 0 ? span_of(tokens - 1) + 1 : 0;
}
template <class Token>
constexpr Token join_count(Token tokens) {
  return (tokens + kFusedJoin - 1) / kFusedJoin;
}
template <class Token>
constexpr bool ends_join(Token span) {
  return span_start(span + 1) % kFusedJoin == 0;
}
// Shares of compressed tokens, each a CTA's: as many as spans; where row tiles hold few of the
// queries that they have room for, and are the more, two or as many as have 256 tokens.
std::int64_t fused_share_count(std::int64_t tokens, bool few_queries);

enum class FusedLaunch { kRoute, kAttend, kReuse };

// Memory for parts that announce themselves (kernels/nsa_verify/TRIED.md), and their sizes.
inline constexpr std::int64_t kFusedPartBytes = std::int64_t{16} << 20;
inline constexpr int kMostAnnouncedSpans = 16;   // of a row
inline constexpr int kAnnouncedSeenEighths = 7;  // of the parts, seen before all are looked for
inline constexpr int kMostAnnouncedReuse = 64;   // nodes
inline constexpr int kMostAnnouncedRefresh = 128;
// Whether the parts of a launch announce themselves, where they have the memory: in the launches in
// which that was measured to win. spans: that a row can have.
bool fused_announces(FusedLaunch launch, std::int64_t num_queries, std::int64_t num_heads,
                     std::int64_t head_dim, std::int64_t spans);

// What a cut depends on.
struct FusedCall {
  NsaGeometry nsa;
  std::int64_t num_heads = 0;     // H
  std::int64_t num_kv_heads = 0;  // G, divides H
  std::int64_t head_dim = 0;      // d
  std::int64_t num_queries = 1;   // N
  std::int64_t context_len = 0;   // L
  std::int64_t num_blocks = 0;    // S = greatest position / B + 1
  // The two above are bounds of what is read in device memory; a node may be N deep.
  bool counted = false;
  std::int64_t group_size = 1;  // C
  GroupMode group_mode = GroupMode::kExact;
  // Of its kind in one launch (those of other sequences), which share the chip: it says when parts
  // outnumber the thread blocks that the chip holds. Never changes an answer.
  std::int64_t calls = 1;

  bool operator==(const FusedCall&) const = default;
  std::int64_t max_compressed() const;  // that any node can see, as scratch is sized for
  std::int64_t max_slices() const;      // of 16 compressed tokens, or of 4 selection blocks
};

// Segments [from, to) of one kind.
struct SegmentRange {
  int from = 0;
  int to = 0;

  constexpr bool empty() const { return from >= to; }
};
// Parts of one slot of a group's CTAs.
struct SlotParts {
  int rank = -1;  // of the compressed tokens; -1: none
  SegmentRange window, selected;
};

// Plain numbers, 32 bits wide, powers of two as their logarithms: the device reads them all.
struct FusedCut {
  int finish_warps = kFusedWarps;  // of a finishing CTA that merge, half a one a row
  int tile_bits = 0;               // log2 of a CTA's row tiles: 1, 2 or 4
  int tile_queries = 1;            // of a row tile
  bool half = false;               // a row tile's rows 8 to 15 are empty
  int slots = 1;                   // parts that a CTA works on at once: one a warp and row tile
  int ranks = 0;                   // shares of the compressed tokens, each one or more spans
  bool many = false;               // a CTA runs several parts one after the other
  bool joined = false;             // a share is one or more joins, each stored as one part
  bool announced = false;          // parts announce themselves, where they have the memory
  int part_blocks = 1;             // CTAs of a group of queries
  int query_tiles = 1;             // groups of queries of a KV head
  int team_bits = 0;               // log2 of the row tiles that share a tile of selected keys
  int group = 1;                   // C, as far as loads are shared
  int units = 0;                   // of a slot's ring: a tile's keys, or its values
  int list_entries = 0;            // of a slot's lists
  int unit_entries = 0;            // and their units
  // Where the lists of each kind begin; those of a CTA of many parts lie one behind the other.
  int list_starts[kFusedKinds] = {};
  int unit_starts[kFusedKinds] = {};
  int map_words = 0;        // of a slot's bit maps of blocks
  int path_compressed = 0;  // path-local compressed tokens that a node can have
  int depth = 0;            // ancestors that a node can have, itself included
  int finish_bits = 0;      // log2 of a finishing CTA's nodes, all of one group
  int slot_segments = 1;    // segments of one kind that a slot runs through at most
  // If `many`: slot i of a group runs segments [ends[i - 1], ends[i]), the window's two counted
  // first, then those of selected blocks from the one on in which the tree begins, and share i of
  // the compressed tokens if i < ranks.
  std::uint8_t segment_ends[kFusedSlots] = {};
  std::uint8_t slot_order[kFusedSlots] = {};  // in which slots start
  int shared_bytes = 0;                       // of a CTA

  constexpr int row_tiles() const { return 1 << tile_bits; }
  constexpr int team_tiles() const { return 1 << team_bits; }
  constexpr int cta_queries() const { return tile_queries << tile_bits; }
  constexpr int team_queries() const { return tile_queries << team_bits; }
  constexpr int finish_nodes() const { return 1 << finish_bits; }
  constexpr std::int64_t finishers(std::int64_t nodes) const {
    return ((nodes - 1) >> finish_bits) + 1;
  }
  // kMany: `many`, as far as the kernel that runs the slot knows it.
  template <bool kMany>
  constexpr SlotParts parts_of(int slot) const;
  constexpr SlotParts parts_of(int slot) const;
  // Parts that the compressed tokens of a row leave which sees `seen` of them.
  template <class Token>
  constexpr Token compressed_parts(Token seen) const {
    return joined ? join_count(seen) : span_count(seen);
  }
  // First span of a rank when `tokens` compressed tokens are shared out in whole joins.
  template <class Token>
  constexpr Token joined_start(Token rank, Token tokens) const {
    const Token join = rank * join_count(tokens) / ranks;
    return join * kFusedJoin < tokens ? span_of(join * kFusedJoin) : span_count(tokens);
  }
  // The same, in joins or in spans.
  std::int64_t share_start(std::int64_t rank, std::int64_t tokens) const;

  bool operator==(const FusedCut&) const = default;
};

template <bool kMany>
constexpr SlotParts FusedCut::parts_of(int slot) const {
  const int rank = slot < ranks ? slot : -1;
  if (!kMany) {
    const int segment = slot - ranks;
    const SegmentRange own{segment, segment < kFusedSegments ? segment + 1 : segment};
    const bool chosen = segment >= 0 && segment < kFusedSelectedSegments;
    return {rank, rank >= 0 || chosen ? SegmentRange{} : own, chosen ? own : SegmentRange{}};
  }
  const int from = slot == 0 ? 0 : segment_ends[slot - 1];
  const int to = segment_ends[slot];
  return {rank,
          {kFusedSelectedSegments + from,
           kFusedSelectedSegments + (to < kFusedWindowSegments ? to : kFusedWindowSegments)},
          {(from > kFusedWindowSegments ? from : kFusedWindowSegments) - kFusedWindowSegments,
           to - kFusedWindowSegments}};
}
constexpr SlotParts FusedCut::parts_of(int slot) const {
  return many ? parts_of<true>(slot) : parts_of<false>(slot);
}

// Queries of a row tile: as many as it has room for, or in launches that attend selected blocks as
// few as leave all parts on the chip at once. Few queries have short lists and tails, and for the
// longest one everybody waits.
std::int64_t fused_tile_queries(const FusedCall& call, FusedLaunch launch);
// None: the lists of this call do not fit shared memory.
std::optional<FusedCut> cut_fused(const FusedCall& call, FusedLaunch launch);

}  // namespace versieve
