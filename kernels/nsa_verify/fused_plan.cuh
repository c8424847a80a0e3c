// The cut of a fused launch (model/launches/fused_cut.h) as the kernels take it. Host code;
// included by fused.cu and its tests alone.
#pragma once

#include <algorithm>
#include <bit>
#include <optional>
#include <type_traits>

#include "kernels/nsa_verify/fused_parts.cuh"
#include "kernels/nsa_verify/fused_select.cuh"
#include "model/launches/fused_cut.h"
#include "model/launches/fused_parts.h"
#include "model/words/assert.h"

namespace versieve::kernels {
namespace {

static_assert(kFusedTile == kTileKeys && kFusedSlice == kSliceKeys && kFusedRows == kTileRows &&
              kFusedWarps == kCtaWarps && kFusedTailQueries == kTailQueries &&
              kFusedMostShared == kMostShared);
static_assert(kFusedSelectedSegments == kSelectedSegments &&
              kFusedWindowSegments == kWindowSegments && kMaxFusedRanks == kMaxRanks &&
              kMaxFusedSlots == kMaxSlots && kFusedShares == kMaxRanks);
static_assert(kFusedShortSpan == kShortSpan && kFusedShortSpanEnd == kShortSpanEnd &&
              kFusedLongSpan == kLongSpan && kFusedJoin == kJoin);
static_assert(kMostAnnouncedSpans == RowParts<64, true, true, true>::kMostAwaited &&
              kAnnouncedSeenEighths == RowParts<64, true, true, true>::kSeenEighths);
static_assert(kFusedReadyBytes == kReadyBytes && kFusedKinds == kListRegions &&
              kFusedUnitBarrierBytes == kPlaceBarrierBytes);
static_assert(kFusedEntryBytes == sizeof(Entry) && kFusedFinishRows == kFinishRows &&
              kFusedMostRanked == kMaxRanked);

FusedCall call_of(const NsaVerifyParams<Bf16>& p) {
  return {.nsa = p.nsa,
          .num_heads = p.num_heads,
          .num_kv_heads = p.num_kv_heads,
          .head_dim = p.head_dim,
          .num_queries = p.num_queries,
          .context_len = p.context_len,
          .num_blocks = p.num_blocks,
          .counted = p.counts != nullptr,
          .group_size = p.group_size,
          .group_mode = p.group_mode};
}

int head_width(const NsaVerifyParams<Bf16>& p) {
  return static_cast<int>(fused_width(p.head_dim));
}

// None: the lists of this call do not fit shared memory.
std::optional<FusedPlan> fused_plan(const NsaVerifyParams<Bf16>& p, FusedLaunch launch) {
  const std::optional<FusedCut> cut = cut_fused(call_of(p), launch);
  if (!cut.has_value()) {
    return {};
  }
  const auto small = [](std::int64_t x) { return static_cast<int>(x); };
  FusedPlan plan;
  plan.row_tiles = small(cut->row_tiles);
  plan.tile_bits = std::countr_zero(static_cast<std::uint64_t>(cut->row_tiles));
  plan.per_tile = small(cut->tile_queries);
  plan.half = cut->half;
  plan.slots = small(cut->slots);
  plan.ranks = small(cut->ranks);
  plan.many = cut->many;
  plan.joined = cut->joined;
  plan.announced = cut->announced;
  plan.part_blocks = small(cut->part_blocks);
  plan.tiles = small(cut->query_tiles);
  plan.team_bits = std::countr_zero(static_cast<std::uint64_t>(cut->team_tiles));
  plan.group = small(cut->group);
  plan.units = small(cut->units);
  for (std::size_t kind = 0; kind < kListRegions; ++kind) {
    plan.list_start[kind] = small(cut->list_starts[kind]);
    plan.unit_start[kind] = small(cut->unit_starts[kind]);
  }
  plan.list_capacity = small(cut->list_entries);
  plan.unit_capacity = small(cut->unit_entries);
  plan.map_words = small(cut->map_words);
  plan.path_compressed = small(cut->path_compressed);
  plan.depth_capacity = small(cut->depth);
  plan.finish_bits = std::countr_zero(static_cast<std::uint64_t>(cut->finish_nodes));
  plan.counts = launch == FusedLaunch::kRoute && !plan.many && cut->finish_nodes == 1 &&
                p.head_dim <= kFusedManyHead && p.num_blocks <= kMostCounted;
  plan.slot_segments = small(cut->slot_segments);
  std::transform(cut->segment_ends.begin(), cut->segment_ends.end(), plan.segment_end,
                 [](std::int64_t end) { return static_cast<std::uint8_t>(end); });
  std::transform(cut->slot_order.begin(), cut->slot_order.end(), plan.slot_order,
                 [](std::int64_t slot) { return static_cast<std::uint8_t>(slot); });
  plan.query_tiles = Divisor(plan.tiles);
  plan.groups = Divisor(plan.tiles * small(p.num_kv_heads));
  plan.list_length = Divisor(small(p.nsa.sel_count));
  plan.words = Divisor(small(fused_map_words(p.num_blocks)));
  plan.shared_bytes = static_cast<std::size_t>(cut->shared_bytes);
  return plan;
}

// Puts the parts of a launch that announces them into `memory`, kFusedPartBytes: [N, H, ...] as in
// scratch, what is read 16 bytes at a time first.
inline void place_announced(void* memory, bool reuses, FusedArguments& a) {
  const std::int64_t rows = std::int64_t{a.nodes} * a.heads;
  char* at = static_cast<char*>(memory);
  const auto place = [&at](auto*& array, std::int64_t count) {
    array = reinterpret_cast<std::remove_reference_t<decltype(array)>>(at);
    at += count * static_cast<std::int64_t>(sizeof(*array));
  };
  const std::int64_t spans = reuses ? rows * a.max_spans : 0;
  place(a.segment_outs, rows * kSegments * kFusedManyHead);
  if (reuses) {
    place(a.span_outs, spans * kFusedManyHead);
  }
  place(a.segment_states, rows * kSegments);
  if (reuses) {
    place(a.span_states, spans);
  }
  VERSIEVE_ASSERT(at - static_cast<char*>(memory) <= kFusedPartBytes, "fused_announces was asked");
}

}  // namespace
}  // namespace versieve::kernels
