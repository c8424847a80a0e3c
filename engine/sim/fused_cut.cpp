#include "engine/sim/fused_cut.h"

#include <algorithm>
#include <bit>

namespace versieve::engine {
namespace {

constexpr std::int64_t kShortSpan = 128;
constexpr std::int64_t kShortSpanEnd = 1024;
constexpr std::int64_t kLongSpan = 256;
constexpr std::int64_t kMaxRanks = 8;
constexpr std::int64_t kMaxRowTiles = 4;
constexpr std::int64_t kWantedCtas = 132;
constexpr std::int64_t kMaxGroup = 8;

std::int64_t power_of_two_above(std::int64_t x) {
  return static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(x)));
}

}  // namespace

std::int64_t span_of(std::int64_t token) {
  return token < kShortSpanEnd ? token / kShortSpan
                               : kShortSpanEnd / kShortSpan + (token - kShortSpanEnd) / kLongSpan;
}

std::int64_t span_start(std::int64_t span) {
  constexpr std::int64_t kShortSpans = kShortSpanEnd / kShortSpan;
  return span <= kShortSpans ? span * kShortSpan : kShortSpanEnd + (span - kShortSpans) * kLongSpan;
}

std::int64_t span_count(std::int64_t tokens) {
  return tokens > 0 ? span_of(tokens - 1) + 1 : 0;
}

std::int64_t first_span(std::int64_t rank, std::int64_t ranks, std::int64_t tokens) {
  std::int64_t span = 0;
  // A span goes where its middle falls.
  while (span < span_count(tokens) &&
         (span_start(span) + std::min(span_start(span + 1), tokens)) * ranks < 2 * rank * tokens) {
    ++span;
  }
  return span;
}

std::int64_t scratch_spans(const AttentionCase& a) {
  return span_count((a.max_compressed() + 3) / 4 * 4);
}

std::int64_t scratch_blocks(const AttentionCase& a) {
  return (a.num_blocks() + 3) / 4 * 4;
}

FusedCut fused_cut(const AttentionCase& a, FusedLaunch launch) {
  FusedCut cut;
  cut.tile_queries = kFusedRows / power_of_two_above(a.group_heads());
  cut.ranks = launch == FusedLaunch::kRoute
                  ? std::clamp<std::int64_t>(scratch_spans(a), 1, kMaxRanks)
                  : kMaxRanks;
  while (cut.group < kMaxGroup && cut.group * 2 <= a.group_size) {
    cut.group *= 2;
  }
  const std::int64_t most = kMaxRowTiles * 64 / (a.shape.head_dim <= 64 ? 64 : 128);
  const std::int64_t tiles = (a.num_queries() + cut.tile_queries - 1) / cut.tile_queries;
  const std::int64_t team = std::max<std::int64_t>(1, cut.group / cut.tile_queries);
  const std::int64_t wanted = power_of_two_above(
      (tiles * a.shape.num_kv_heads * cut.ranks + kWantedCtas - 1) / kWantedCtas);
  cut.row_tiles = std::max(std::min(team, most), std::min(wanted, most));
  cut.team_tiles = launch == FusedLaunch::kRoute ? cut.row_tiles : std::min(cut.row_tiles, team);
  cut.group = std::min(cut.group, cut.team_queries());
  cut.query_tiles = (a.num_queries() + cut.cta_queries() - 1) / cut.cta_queries();
  return cut;
}

void place_fused_scratch(AddressSpace& space, AttentionCase& attention) {
  AttentionBuffers& at = attention.at;
  const std::int64_t rows = attention.num_queries() * attention.shape.num_heads;
  const std::int64_t pairs = attention.num_queries() * attention.shape.num_kv_heads;
  const std::int64_t d = attention.shape.head_dim;
  const std::int64_t blocks = attention.reuse ? 0 : pairs * scratch_blocks(attention);
  at.span_states = space.place(rows * scratch_spans(attention) * 8);
  at.span_outs = space.place(rows * scratch_spans(attention) * d * 4);
  at.importance_own = space.place(blocks * 4);
  at.importance_before = space.place(blocks * 4);
  at.compressed = space.place(attention.reuse ? 0 : rows * d * 4);
  at.segment_states = space.place(rows * kFusedSegments * 8);
  at.segment_outs = space.place(rows * kFusedSegments * d * 4);
}

}  // namespace versieve::engine
