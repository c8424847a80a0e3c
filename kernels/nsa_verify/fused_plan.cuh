// How a fused launch is cut: row tiles and slots of a CTA, shares of the compressed tokens, units
// and tables in shared memory. Host code; included by fused.cu alone.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <optional>
#include <utility>

#include "kernels/nsa_verify/fused_parts.cuh"
#include "kernels/nsa_verify/fused_select.cuh"
#include "model/fused_parts.h"

namespace versieve::kernels {
namespace {

constexpr std::size_t kMaxSharedBytes = 227 * 1024;  // of one CTA on compute capability 9.0
// Of which two CTAs fit an SM: 228 KB less 1 KB that each CTA reserves.
constexpr std::size_t kHalfSharedBytes = 113 * 1024;
constexpr int kMostUnits = 12;  // of a CTA where two share an SM
constexpr int kTeamUnits = 3;   // of a team at least
constexpr int kSms = 132;
constexpr int kManyGroups = 16;   // of queries and KV heads: enough to take longer shares
constexpr int kMostFinished = 4;  // nodes of a finishing CTA of nsa_route; times what attend merges
static_assert(kFusedShares == kMaxRanks && kFusedSlots <= kMaxSlots);
static_assert(kFusedSelected == kSelectedSegments && kFusedWindow == kWindowSegments);

enum class Launch { kRoute, kAttend, kReuse };

int round_up_to_power_of_two(std::int64_t x) {
  int power = 1;
  while (power < x) {
    power *= 2;
  }
  return power;
}

int head_width(const NsaVerifyParams<Bf16>& p) {
  return p.head_dim <= 64 ? 64 : 128;
}

std::int64_t most_compressed(const NsaVerifyParams<Bf16>& p) {
  const std::int64_t tokens =
      p.counts != nullptr ? p.context_len + p.num_queries
                          : std::min(p.context_len + p.num_queries, p.num_blocks * p.nsa.sel_block);
  return compressed_count(p.nsa, tokens);
}

// Slices of 16 compressed tokens, and selection blocks of 4, which reach as far.
std::int64_t most_slices(const NsaVerifyParams<Bf16>& p) {
  return std::max((most_compressed(p) + kSliceKeys - 1) / kSliceKeys, (p.num_blocks + 3) / 4);
}

class Planner {
 public:
  Planner(const NsaVerifyParams<Bf16>& p, Launch launch) : p_(p), launch_(launch) {
    tile_queries_ = kTileRows / round_up_to_power_of_two(p.num_heads / p.num_kv_heads);
    tail_groups_ = (tile_queries_ + kTailQueries - 1) / kTailQueries;
    depth_ = static_cast<int>(
        p.counts != nullptr
            ? p.num_queries
            : std::max<std::int64_t>(
                  1, std::min(p.num_queries, p.num_blocks * p.nsa.sel_block - p.context_len)));
    path_compressed_ = static_cast<int>((depth_ + p.nsa.cmp_stride - 1) / p.nsa.cmp_stride) + 1;
    group_ = 1;
    while (group_ < kMostShared && group_ * 2 <= p.group_size) {
      group_ *= 2;
    }
  }

  std::optional<FusedPlan> best() const {
    const std::int64_t row_tiles = (p_.num_queries + tile_queries_ - 1) / tile_queries_;
    for (int tiles = std::min(kMaxRowTiles, round_up_to_power_of_two(row_tiles)); tiles >= 1;
         tiles /= 2) {
      const int team =
          launch_ == Launch::kRoute ? tiles : std::min(tiles, std::max(1, group_ / tile_queries_));
      for (const auto& [room, team_tiles] :
           {std::pair{kHalfSharedBytes, team}, std::pair{kMaxSharedBytes, team},
            std::pair{kMaxSharedBytes, tiles}}) {
        const FusedPlan plan = with_row_tiles(tiles, team_tiles, room);
        const bool one_each =
            p_.num_queries > 1 &&  // a lone node leaves room for the launches around it
            (plan.part_blocks * plan.tiles + p_.num_queries) * p_.num_kv_heads <= kSms;
        if (plan.units >= least_units(team_tiles) * (tiles / team_tiles) &&
            !(one_each && room == kHalfSharedBytes)) {
          return plan;
        }
      }
    }
    return {};
  }

 private:
  FusedPlan with_row_tiles(int tiles, int team_tiles, std::size_t room) const {
    FusedPlan plan;
    plan.row_tiles = tiles;
    plan.slots = kCtaWarps / tiles;
    plan.team_tiles = team_tiles;
    plan.group = std::min(group_, plan.team_tiles * tile_queries_);
    plan.depth_capacity = depth_;
    plan.path_compressed = path_compressed_;
    const int queries = tiles * tile_queries_;
    plan.tiles = static_cast<int>((p_.num_queries + queries - 1) / queries);
    const int tokens = static_cast<int>(most_compressed(p_));
    plan.finish_nodes = finish_nodes(queries);
    plan.groups = Divisor(plan.tiles * static_cast<int>(p_.num_kv_heads));
    plan.list_length = Divisor(static_cast<int>(p_.nsa.sel_count));
    plan.words = Divisor(segment_words(static_cast<int>(p_.num_blocks)));
    share_out(plan, tokens);
    lists_of(plan, tokens);
    const std::size_t slots = static_cast<std::size_t>(plan.slots);
    const std::size_t fixed =
        slots * (plan.list_capacity * sizeof(Entry) +
                 (plan.unit_capacity + plan.map_words) * sizeof(std::uint32_t)) +
        16 +
        static_cast<std::size_t>(
            table_bytes(static_cast<int>(p_.num_queries), queries, depth_, path_compressed_));
    const std::size_t unit = static_cast<std::size_t>(kTileKeys) * head_width(p_) * 2 + 16;
    const int units = room > fixed ? static_cast<int>((room - fixed) / unit) : 0;
    const int teams = plan.row_tiles / plan.team_tiles;
    const int most = room == kHalfSharedBytes ? kMostUnits : 2 * kMostUnits;
    plan.units = std::min(units, most) / plan.slots / teams * teams;
    plan.shared_bytes =
        std::max(slots * static_cast<std::size_t>(plan.units) * unit + fixed,
                 launch_ == Launch::kRoute ? select_bytes(plan.finish_nodes) : std::size_t{0});
    if (plan.shared_bytes > room) {
      plan.units = 0;
    }
    return plan;
  }

  // A team's ring holds the keys of a tile, its values and the next keys, and at once all keys of
  // a slice of the tail: committed rows and the tree's. A place is left out where warps share it.
  int least_units(int team_tiles) const {
    return std::max(kTeamUnits, tree_units() + 1 + (team_tiles > 1 ? 1 : 0));
  }
  int tree_units() const { return static_cast<int>((p_.num_queries + kTileKeys - 1) / kTileKeys); }

  int resident_ctas() const { return kSms * (head_width(p_) == 64 ? 2 : 1); }

  std::size_t select_bytes(int nodes) const {
    const int floats =
        select_floats(static_cast<int>(p_.num_blocks), static_cast<int>(p_.nsa.sel_count));
    return kFinishRows * sizeof(float2) + static_cast<std::size_t>(nodes * floats) * sizeof(float);
  }

  // As many as the warps of a finishing CTA take at once, or more where the finishing CTAs would
  // not fit the chip at once.
  int finish_nodes(int queries) const {
    const bool routes = launch_ == Launch::kRoute;
    const int at_once =
        routes ? 1 : std::clamp(2 * kCtaWarps / (kTileRows / tile_queries_), 1, queries);
    int nodes = at_once;
    while (nodes * 2 <= queries && nodes < kMostFinished * at_once &&
           (p_.num_queries + nodes - 1) / nodes * p_.num_kv_heads > resident_ctas() &&
           !(routes && select_bytes(nodes * 2) > kHalfSharedBytes)) {
      nodes *= 2;
    }
    return nodes;
  }

  // Each slot gets one part, a share of the compressed tokens or a segment; or several where slots
  // of one part would not fit the chip at once.
  void share_out(FusedPlan& plan, int tokens) const {
    const int segments = launch_ == Launch::kRoute ? 0 : kSegments;
    const int groups = plan.groups.value;
    const bool many = plan.slots == 1 && groups >= kManyGroups && head_width(p_) <= kFusedManyHead;
    // Where there are many groups the few tokens of the tree get no share of their own.
    const int shared = many ? static_cast<int>(compressed_count(p_.nsa, p_.context_len)) : tokens;
    plan.ranks = launch_ == Launch::kAttend ? 0 : std::clamp(span_count(shared), 1, kMaxRanks);
    if (many && groups * (plan.ranks + segments) > resident_ctas()) {
      join_parts(plan, shared);
      return;
    }
    plan.part_blocks = (plan.ranks + segments + plan.slots - 1) / plan.slots;
  }

  // Which CTAs run several parts: model/fused_parts.h.
  void join_parts(FusedPlan& plan, int tokens) const {
    const bool segments = launch_ != Launch::kRoute;
    const int joins = launch_ == Launch::kAttend ? 0 : std::max(1, join_count(tokens));
    const FusedShares shares = fused_shares(
        {.groups = plan.groups.value,
         .resident = resident_ctas(),
         .shared_sms = resident_ctas() > kSms,
         .joins = joins,
         .compressed_tiles = std::ceil(static_cast<double>(tokens) / kTileKeys),
         .window_tiles = segments ? window_segment(p_.nsa.window, p_.context_len) : 0.0,
         .queries = {.sel_count = p_.nsa.sel_count,
                     .sel_block = p_.nsa.sel_block,
                     .num_blocks = p_.num_blocks,
                     .tile_queries = tile_queries_,
                     .group = plan.group,
                     .one_list = p_.group_mode == GroupMode::kApprox}});
    plan.many = true;
    plan.joined = joins > 0;
    plan.ranks = shares.ranks;
    plan.part_blocks = shares.ctas;
    for (int slot = 0; slot < kFusedSlots; ++slot) {
      const int from = slot == 0 ? 0 : plan.segment_end[slot - 1];
      plan.segment_end[slot] = shares.segment_end[static_cast<std::size_t>(slot)];
      const SegmentRange window = window_range(from, plan.segment_end[slot]);
      const SegmentRange selected = selected_range(from, plan.segment_end[slot]);
      plan.slot_segments =
          std::max({plan.slot_segments, window.to - window.from, selected.to - selected.from});
    }
  }

  void lists_of(FusedPlan& plan, int tokens) const {
    const int tails = tail_groups_ * plan.row_tiles;
    const int compressed =
        longest_share(plan, tokens) / kTileKeys + 2 + (path_compressed_ / kSliceKeys + 2) * tails;
    if (launch_ == Launch::kRoute) {
      plan.list_capacity = compressed;
      set_unit_capacity(plan);
      return;
    }
    // All blocks of a list may fall into one slot's segments.
    const int ranks = static_cast<int>(p_.nsa.sel_count);
    const int blocks = static_cast<int>((p_.nsa.sel_block + kTileKeys - 1) / kTileKeys);
    const std::int64_t window = std::min(p_.nsa.window, p_.context_len) + depth_;
    const int chunks =
        plan.slot_segments * (static_cast<int>(window / kTileKeys / kWindowSegments) + 3);
    const int queries = plan.row_tiles * tile_queries_;
    plan.map_words = queries * plan.slot_segments * segment_words(static_cast<int>(p_.num_blocks));
    const int selected = queries * ranks * blocks;
    const int teams = plan.row_tiles / plan.team_tiles;
    plan.list_capacity = std::max({selected, chunks * teams, plan.ranks > 0 ? compressed : 0}) +
                         (depth_ / kSliceKeys + 2) * tails;
    set_unit_capacity(plan);
  }
  // Two units an entry, or a tail slice's all.
  void set_unit_capacity(FusedPlan& plan) const {
    const int slices = std::max(depth_, path_compressed_) / kSliceKeys + 2;
    plan.unit_capacity =
        2 * plan.list_capacity + plan.row_tiles / plan.team_tiles * slices * 2 * (tree_units() + 1);
  }

  // Tokens of the longest share of up to `tokens`: an even share and the span or join that its end
  // falls into.
  static int longest_share(const FusedPlan& plan, int tokens) {
    const int more = plan.joined ? kJoin : kLongSpan;
    return plan.ranks == 0 ? 0 : std::min(tokens, (tokens + plan.ranks - 1) / plan.ranks + more);
  }

  const NsaVerifyParams<Bf16>& p_;
  Launch launch_;
  int tile_queries_, tail_groups_, depth_, path_compressed_, group_;
};

}  // namespace
}  // namespace versieve::kernels
