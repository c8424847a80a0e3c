// How a fused launch is cut: row tiles and slots of a CTA, shares of the compressed tokens, units
// and tables in shared memory. Host code; included by fused.cu alone.
#pragma once

#include <algorithm>
#include <bit>
#include <optional>

#include "kernels/nsa_verify/fused_parts.cuh"
#include "kernels/nsa_verify/fused_select.cuh"

namespace versieve::kernels {
namespace {

constexpr std::size_t kMaxSharedBytes = 227 * 1024;  // of one CTA on compute capability 9.0
// Of which two CTAs fit an SM: 228 KB less 1 KB that each CTA reserves.
constexpr std::size_t kHalfSharedBytes = 113 * 1024;
constexpr int kMaxRanks = 16;
constexpr int kMostUnits = 12;  // of a CTA where two share an SM
constexpr int kSms = 132;
constexpr int kManyGroups = 16;  // of queries and KV heads: enough to take longer shares
constexpr int kLongShare = 512;  // compressed tokens of a share then

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
      for (const std::size_t room : {kHalfSharedBytes, kMaxSharedBytes}) {
        const FusedPlan plan = with_row_tiles(tiles, room);
        const int teams = plan.row_tiles / plan.team_tiles;
        const bool one_each =
            p_.num_queries > 1 &&  // a lone node leaves room for the launches around it
            (plan.part_blocks * plan.tiles + p_.num_queries) * p_.num_kv_heads <= kSms;
        if ((plan.units >= 3 * teams && !(one_each && room == kHalfSharedBytes)) ||
            (room == kMaxSharedBytes && plan.units >= 3 * teams)) {
          return plan;
        }
      }
    }
    return {};
  }

 private:
  FusedPlan with_row_tiles(int tiles, std::size_t room) const {
    FusedPlan plan;
    plan.row_tiles = tiles;
    plan.slots = kCtaWarps / tiles;
    plan.team_tiles =
        launch_ == Launch::kRoute ? tiles : std::min(tiles, std::max(1, group_ / tile_queries_));
    plan.group = std::min(group_, plan.team_tiles * tile_queries_);
    plan.depth_capacity = depth_;
    plan.path_compressed = path_compressed_;
    const int queries = tiles * tile_queries_;
    plan.tiles = static_cast<int>((p_.num_queries + queries - 1) / queries);
    const int tokens = static_cast<int>(most_compressed(p_));
    if (launch_ != Launch::kAttend) {
      const int spans = std::clamp(span_count(tokens), 1, kMaxRanks);
      plan.ranks = plan.tiles * p_.num_kv_heads < kManyGroups
                       ? spans
                       : std::clamp((tokens + kLongShare - 1) / kLongShare, 1, spans);
    }
    const int per_finish = 2 * kCtaWarps / (kTileRows / tile_queries_);
    plan.finish_nodes = launch_ == Launch::kRoute ? 1 : std::clamp(per_finish, 1, queries);
    plan.groups = Divisor(plan.tiles * static_cast<int>(p_.num_kv_heads));
    plan.list_length = Divisor(static_cast<int>(p_.nsa.sel_count));
    plan.words = Divisor(segment_words(static_cast<int>(p_.num_blocks)));
    const int parts = plan.ranks + (launch_ == Launch::kRoute ? 0 : kSegments);
    plan.part_blocks = (parts + plan.slots - 1) / plan.slots;
    lists_of(plan, tokens);
    const std::size_t slots = static_cast<std::size_t>(plan.slots);
    const std::size_t fixed =
        slots * (plan.list_capacity * sizeof(Entry) + plan.map_words * 4) + 16 +
        static_cast<std::size_t>(
            table_bytes(static_cast<int>(p_.num_queries), queries, depth_, path_compressed_));
    const std::size_t unit = static_cast<std::size_t>(kTileKeys) * head_width(p_) * 2 + 16;
    const int units = room > fixed ? static_cast<int>((room - fixed) / unit) : 0;
    const int teams = plan.row_tiles / plan.team_tiles;
    const int most = room == kHalfSharedBytes ? kMostUnits : 2 * kMostUnits;
    plan.units = std::min(units, most) / plan.slots / teams * teams;
    const std::size_t select =
        (static_cast<std::size_t>(
             select_floats(static_cast<int>(p_.num_blocks), static_cast<int>(p_.nsa.sel_count))) +
         2 * kTileRows) *
        4;
    plan.shared_bytes = std::max(slots * static_cast<std::size_t>(plan.units) * unit + fixed,
                                 launch_ == Launch::kRoute ? select : 0);
    if (plan.shared_bytes > room) {
      plan.units = 0;
    }
    return plan;
  }

  void lists_of(FusedPlan& plan, int tokens) const {
    const int tails = tail_groups_ * plan.row_tiles;
    const int compressed = longest_share(plan.ranks, tokens) / kTileKeys + 2 +
                           (path_compressed_ / kSliceKeys + 2) * tails;
    if (launch_ == Launch::kRoute) {
      plan.list_capacity = compressed;
      return;
    }
    // All blocks of a list may fall into one segment.
    const int ranks = static_cast<int>(p_.nsa.sel_count);
    const int blocks = static_cast<int>((p_.nsa.sel_block + kTileKeys - 1) / kTileKeys);
    const std::int64_t window = std::min(p_.nsa.window, p_.context_len) + depth_;
    const int chunks = static_cast<int>(window / kTileKeys / kWindowSegments) + 3;
    const int queries = plan.row_tiles * tile_queries_;
    plan.map_words = queries * segment_words(static_cast<int>(p_.num_blocks));
    const int selected = queries * ranks * blocks;
    const int teams = plan.row_tiles / plan.team_tiles;
    plan.list_capacity = std::max({selected, chunks * teams, plan.ranks > 0 ? compressed : 0}) +
                         (depth_ / kSliceKeys + 2) * tails;
  }

  // Tokens of the longest share of up to `tokens`: an even share and the span that its end falls
  // into.
  static int longest_share(int ranks, int tokens) {
    return ranks == 0 ? 0 : std::min(tokens, (tokens + ranks - 1) / ranks + kLongSpan);
  }

  const NsaVerifyParams<Bf16>& p_;
  Launch launch_;
  int tile_queries_, tail_groups_, depth_, path_compressed_, group_;
};

}  // namespace
}  // namespace versieve::kernels
