// How the fused launches of nsa_verify are cut, as kernels/nsa_verify/fused_plan.cuh cuts them:
// rows, ranks, spans and segments. What a cut costs in shared memory is taken to fit.
#pragma once

#include "engine/sim/attention_case.h"

namespace versieve::engine {

inline constexpr std::int64_t kFusedTile = 64;   // keys of a tile
inline constexpr std::int64_t kFusedSlice = 16;  // keys of a slice; the tree's tail goes by slices
inline constexpr std::int64_t kFusedRows = 16;   // rows of a row tile: queries x heads
inline constexpr std::int64_t kFusedSegments = 8;
inline constexpr std::int64_t kFusedSelectedSegments = 6;
inline constexpr std::int64_t kFusedWindowSegments = 2;

enum class FusedLaunch { kRoute, kAttend, kReuse };

struct FusedCut {
  std::int64_t row_tiles = 1;     // of a CTA
  std::int64_t team_tiles = 1;    // of them, that share a tile of keys
  std::int64_t tile_queries = 1;  // of a row tile
  std::int64_t ranks = 1;         // CTAs of a cluster
  std::int64_t group = 1;         // C, as far as loads are shared
  std::int64_t query_tiles = 1;   // CTAs along the queries

  std::int64_t cta_queries() const { return row_tiles * tile_queries; }
  std::int64_t team_queries() const { return team_tiles * tile_queries; }
};
FusedCut fused_cut(const AttentionCase& a, FusedLaunch launch);

// Spans of compressed tokens: 128 long below 1,024, then 256.
std::int64_t span_of(std::int64_t token);
std::int64_t span_start(std::int64_t span);
std::int64_t span_count(std::int64_t tokens);
// First span of a rank when the spans of `tokens` tokens are shared out among the ranks.
std::int64_t first_span(std::int64_t rank, std::int64_t ranks, std::int64_t tokens);

std::int64_t scratch_spans(const AttentionCase& a);   // a row's partial results
std::int64_t scratch_blocks(const AttentionCase& a);  // a row's importance

void place_fused_scratch(AddressSpace& space, AttentionCase& attention);

}  // namespace versieve::engine
