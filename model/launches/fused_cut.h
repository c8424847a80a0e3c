// How a fused launch of nsa_verify is cut: row tiles and slots of a thread block, parts, shares of
// the compressed tokens, the ring of units and what else lies in shared memory. One planner for the
// kernels (kernels/nsa_verify/fused_plan.cuh) and for the simulator, which traces what they run.
// What the words mean: kernels/nsa_verify/README.md, "The fused form".
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <utility>

#include "model/words/llm_shape.h"
#include "model/words/strategy.h"

namespace versieve {

inline constexpr std::int64_t kFusedTile = 64;   // keys of a tile
inline constexpr std::int64_t kFusedSlice = 16;  // keys of a slice; the tree's tail goes by slices
inline constexpr std::int64_t kFusedRows = 16;   // rows of a row tile: queries x heads
inline constexpr std::int64_t kFusedWarps = 4;   // of a CTA, that work
inline constexpr std::int64_t kFusedSelectedSegments = 6;
inline constexpr std::int64_t kFusedWindowSegments = 2;
inline constexpr std::int64_t kFusedSegments = kFusedSelectedSegments + kFusedWindowSegments;
inline constexpr std::int64_t kFusedJoin =
    512;  // compressed tokens whose spans are summed up first
inline constexpr std::int64_t kMaxFusedRanks = 16;
inline constexpr std::int64_t kFusedSms = 132;  // of the chip that launches are cut for
// Groups of queries, times KV heads, from which on a CTA may run several parts.
inline constexpr std::int64_t kFusedManyGroups = 16;
inline constexpr std::int64_t kMaxFusedSlots = kMaxFusedRanks + kFusedSegments + kFusedWarps;
// Shared memory, in bytes and words of 4.
inline constexpr std::int64_t kFusedEntryBytes = 16;        // of a list
inline constexpr std::int64_t kFusedUnitBarrierBytes = 32;  // two a unit for each set of teams
inline constexpr std::int64_t kFusedKinds = 3;              // spans, window, selected blocks
// Two barriers, and of each list and row tile one and the list's length: of each kind, and of the
// segments of selected blocks behind the first.
inline constexpr std::int64_t kFusedReadyBytes = 2 * 8 + (kFusedKinds + 1) * kFusedWarps * 16;
inline constexpr std::int64_t kFusedFinishRows = 64;  // of a finishing CTA: a state each
inline constexpr std::int64_t kFusedMostRanked = 64;  // candidates of a selecting warp
inline constexpr std::int64_t kFusedTailQueries = 4;  // of a tail entry
inline constexpr std::int64_t kFusedMostShared = 8;   // queries that share selected blocks
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
// Words of a node's keys, chosen blocks and candidates in a finishing CTA of nsa_route.
std::int64_t fused_select_words(std::int64_t num_blocks, std::int64_t sel_count);

// Spans of compressed tokens: 128 long below 1,024, then 256.
inline constexpr std::int64_t kFusedShortSpan = 128;
inline constexpr std::int64_t kFusedShortSpanEnd = 1024;
inline constexpr std::int64_t kFusedLongSpan = 256;
std::int64_t span_of(std::int64_t token);
std::int64_t span_start(std::int64_t span);
std::int64_t span_count(std::int64_t tokens);
// Shares of compressed tokens, each a CTA's: as many as spans; where row tiles hold few of the
// queries that they have room for, and are the more, two or as many as have 256 tokens.
std::int64_t fused_share_count(std::int64_t tokens, bool few_queries);

enum class FusedLaunch { kRoute, kAttend, kReuse };

// Memory for parts that announce themselves (kernels/nsa_verify/TRIED.md), and their sizes.
inline constexpr std::int64_t kFusedPartBytes = std::int64_t{16} << 20;
inline constexpr std::int64_t kMostAnnouncedSpans = 16;   // of a row
inline constexpr std::int64_t kAnnouncedSeenEighths = 7;  // of the parts, before all are looked for
inline constexpr std::int64_t kMostAnnouncedReuse = 64;   // nodes
inline constexpr std::int64_t kMostAnnouncedRefresh = 128;
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

  std::int64_t max_compressed() const;  // that any node can see, as scratch is sized for
  std::int64_t max_slices() const;      // of 16 compressed tokens, or of 4 selection blocks
};

struct FusedCut {
  std::int64_t row_tiles = 1;      // of a CTA: 1, 2 or 4
  std::int64_t slots = 1;          // parts that a CTA works on at once
  std::int64_t team_tiles = 1;     // row tiles that share a tile of selected keys
  std::int64_t tile_queries = 1;   // of a row tile
  bool half = false;               // a row tile's rows 8 to 15 are empty
  std::int64_t group = 1;          // C, as far as loads are shared
  std::int64_t ranks = 0;          // shares of the compressed tokens
  bool many = false;               // a CTA runs several parts one after the other
  bool joined = false;             // a share is whole joins, each stored as one part
  bool announced = false;          // fused_announces
  std::int64_t slot_segments = 1;  // segments of one kind that a slot runs through at most
  // If `many`: slot i of a group runs segments [ends[i - 1], ends[i]), the window's two counted
  // first, then those of selected blocks from the one on in which the tree begins.
  std::array<std::int64_t, kMaxFusedSlots> segment_ends{};
  std::array<std::int64_t, kMaxFusedSlots> slot_order{};  // in which they start
  std::int64_t part_blocks = 1;                           // CTAs of a group of queries
  std::int64_t query_tiles = 1;                           // groups of queries of a KV head
  std::int64_t finish_nodes = 1;                          // nodes of a finishing CTA
  std::int64_t finish_warps = kFusedWarps;                // of it that merge, half a one a row
  std::int64_t units = 0;         // of a slot's ring: a tile's keys, or its values
  std::int64_t list_entries = 0;  // of a slot's lists
  std::int64_t unit_entries = 0;  // and their units
  // Where the lists of each kind begin; those of a CTA of many parts lie one behind the other.
  std::array<std::int64_t, kFusedKinds> list_starts{};
  std::array<std::int64_t, kFusedKinds> unit_starts{};
  std::int64_t map_words = 0;        // of a slot's bit maps of blocks
  std::int64_t depth = 0;            // ancestors that a node can have, itself included
  std::int64_t path_compressed = 0;  // path-local compressed tokens that a node can have
  std::int64_t shared_bytes = 0;     // of a CTA

  std::int64_t cta_queries() const { return row_tiles * tile_queries; }
  std::int64_t team_queries() const { return team_tiles * tile_queries; }
  // Segments [first, second) that a slot runs through: of the window, and of selected blocks.
  std::pair<std::int64_t, std::int64_t> window_of(std::int64_t slot) const;
  std::pair<std::int64_t, std::int64_t> selected_of(std::int64_t slot) const;
  // Parts that the compressed tokens of a row leave which sees `seen` of them.
  std::int64_t compressed_parts(std::int64_t seen) const;
  // First span of a rank when `tokens` compressed tokens are shared out.
  std::int64_t share_start(std::int64_t rank, std::int64_t tokens) const;
  std::int64_t finishers(std::int64_t nodes) const {
    return (nodes + finish_nodes - 1) / finish_nodes;
  }

  bool operator==(const FusedCut&) const = default;
};
// Queries of a row tile: as many as it has room for, or in launches that attend selected blocks as
// few as leave all parts on the chip at once. Few queries have short lists and tails, and for the
// longest one everybody waits.
std::int64_t fused_tile_queries(const FusedCall& call, FusedLaunch launch);
// None: the lists of this call do not fit shared memory.
std::optional<FusedCut> cut_fused(const FusedCall& call, FusedLaunch launch);

}  // namespace versieve
