// How the fused launches of nsa_verify are cut, as kernels/nsa_verify/fused_plan.cuh cuts them: row
// tiles and slots of a thread block, parts, shares of the compressed tokens, the ring of units. A
// test compares the two wherever the kernels are built.
#pragma once

#include <array>

#include "engine/sim/attention_case.h"

namespace versieve::engine {

inline constexpr std::int64_t kFusedTile = 64;   // keys of a tile
inline constexpr std::int64_t kFusedSlice = 16;  // keys of a slice; the tree's tail goes by slices
inline constexpr std::int64_t kFusedRows = 16;   // rows of a row tile: queries x heads
inline constexpr std::int64_t kFusedWarps = 4;   // of a CTA
inline constexpr std::int64_t kFusedSelectedSegments = 6;
inline constexpr std::int64_t kFusedWindowSegments = 2;
inline constexpr std::int64_t kFusedSegments = kFusedSelectedSegments + kFusedWindowSegments;
inline constexpr std::int64_t kFusedJoin =
    512;  // compressed tokens whose spans are summed up first
inline constexpr std::int64_t kMaxFusedRanks = 16;
inline constexpr std::int64_t kMaxFusedSlots = kMaxFusedRanks + kFusedSegments + kFusedWarps;

enum class FusedLaunch { kRoute, kAttend, kReuse };

struct FusedCut {
  std::int64_t row_tiles = 1;      // of a CTA: 1, 2 or 4
  std::int64_t slots = 1;          // parts that a CTA works on at once
  std::int64_t team_tiles = 1;     // row tiles that share a tile of selected keys
  std::int64_t tile_queries = 1;   // of a row tile
  std::int64_t group = 1;          // C, as far as loads are shared
  std::int64_t ranks = 0;          // shares of the compressed tokens
  bool many = false;               // a CTA runs several parts one after the other
  bool joined = false;             // a share is whole joins, each stored as one part
  std::int64_t slot_segments = 1;  // segments of one kind that a slot runs through at most
  // If `many`: slot i of a group runs segments [ends[i - 1], ends[i]), the window's two counted
  // first.
  std::array<std::int64_t, kMaxFusedSlots> segment_ends{};
  std::int64_t part_blocks = 1;   // CTAs of a group of queries
  std::int64_t query_tiles = 1;   // groups of queries of a KV head
  std::int64_t finish_nodes = 1;  // nodes of a finishing CTA
  std::int64_t units = 0;         // of a slot's ring
  std::int64_t shared_bytes = 0;  // of a CTA

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
// Throws Error(kAnswerNo) for what the kernels decline for lack of shared memory.
FusedCut fused_cut(const AttentionCase& a, FusedLaunch launch);

// Spans of compressed tokens: 128 long below 1,024, then 256.
std::int64_t span_of(std::int64_t token);
std::int64_t span_start(std::int64_t span);
std::int64_t span_count(std::int64_t tokens);

std::int64_t scratch_spans(const AttentionCase& a);   // a row's partial results
std::int64_t scratch_slices(const AttentionCase& a);  // a row's softmax weights, by 16 tokens
// A slice is four blocks (B/s = 4, l/s = 2): weights are kept as sums of blocks, not by token.
bool sums_blocks(const NsaGeometry& nsa);
std::int64_t slice_weights(const NsaGeometry& nsa);  // of a row and slice

// What the finishing CTAs of nsa_route store of their registers: 28 bytes a thread, from the stores
// that L2 counted beyond their outputs'; memory of as many CTAs as are resident.
inline constexpr std::int64_t kRouteSpills = 128 * 28;
inline constexpr std::int64_t kSpillingCtas = 264;

void place_fused_scratch(AddressSpace& space, AttentionCase& attention);

}  // namespace versieve::engine
