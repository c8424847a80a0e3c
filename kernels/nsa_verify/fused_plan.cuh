// How a fused launch is cut: row tiles of a CTA, ranks of a cluster, stages and tables in shared
// memory. Host code; included by fused.cu alone.
#pragma once

#include <algorithm>
#include <bit>
#include <map>
#include <mutex>
#include <optional>
#include <tuple>

#include "kernels/nsa_verify/fused_ring.cuh"
#include "kernels/nsa_verify/fused_select.cuh"

namespace versieve::kernels {
namespace {

constexpr std::size_t kMaxSharedBytes = 227 * 1024;  // of one CTA on compute capability 9.0
constexpr int kMaxRanks = 8;                         // the portable cluster size
constexpr int kWantedBlocks = 132;                   // CTAs that fill the chip once
constexpr int kMaxStages = 16;

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
  return (compressed_count(p.nsa, tokens) + 3) / 4 * 4;  // rows of whole 16-byte words
}

std::int64_t most_blocks(const NsaVerifyParams<Bf16>& p) {
  return (p.num_blocks + 3) / 4 * 4;
}

int longest_rank(int tokens, int ranks) {
  int most = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    const int begin = span_start(first_span(rank, ranks, tokens));
    const int end = std::min(span_start(first_span(rank + 1, ranks, tokens)), tokens);
    most = std::max(most, end - begin);
  }
  return most;
}

// Tokens of the longest rank over all contexts of least to most tokens, rounded up to a tile. What
// was computed is kept: a captured step asks for all contexts at once.
int most_rank_tokens(int least, int most, int ranks) {
  static std::mutex mutex;
  static std::map<std::tuple<int, int, int>, int> known;
  const std::lock_guard<std::mutex> lock(mutex);
  const auto [at, is_new] = known.try_emplace({least, most, ranks}, 0);
  if (is_new) {
    for (int tokens = least; tokens <= most; ++tokens) {
      at->second = std::max(at->second, longest_rank(tokens, ranks));
    }
    at->second = (at->second + kTileKeys - 1) / kTileKeys * kTileKeys;
  }
  return at->second;
}

// The plan of a launch with that many warps a CTA, or nothing if it does not fit.
class Planner {
 public:
  Planner(const NsaVerifyParams<Bf16>& p, Launch launch) : p_(p), launch_(launch) {
    padded_heads_ = round_up_to_power_of_two(p.num_heads / p.num_kv_heads);
    tile_queries_ = kTileRows / padded_heads_;
    tail_groups_ = (tile_queries_ + kTailQueries - 1) / kTailQueries;
    depth_ = static_cast<int>(
        p.counts != nullptr
            ? p.num_queries
            : std::max<std::int64_t>(
                  1, std::min(p.num_queries, p.num_blocks * p.nsa.sel_block - p.context_len)));
    path_compressed_ = static_cast<int>((depth_ + p.nsa.cmp_stride - 1) / p.nsa.cmp_stride) + 1;
    spans_ = span_count(static_cast<int>(most_compressed(p)));
    ranks_ = launch == Launch::kRoute ? std::clamp(spans_, 1, kMaxRanks) : kMaxRanks;
    const std::int64_t committed = compressed_count(p.nsa, p.context_len);
    rank_tokens_ = std::max(most_rank_tokens(p.counts != nullptr ? 1 : static_cast<int>(committed),
                                             static_cast<int>(most_compressed(p)), ranks_),
                            kShortSpan);
    group_ = 1;
    while (group_ < 8 && group_ * 2 <= p.group_size) {
      group_ *= 2;
    }
  }

  std::optional<FusedPlan> best() const {
    const std::int64_t row_tiles = (p_.num_queries + tile_queries_ - 1) / tile_queries_;
    const int most = kMaxRowTiles * 64 / head_width(p_);
    const int team = std::max(1, group_ / tile_queries_);
    const int wanted = round_up_to_power_of_two(
        (row_tiles * p_.num_kv_heads * ranks_ + kWantedBlocks - 1) / kWantedBlocks);
    for (int tiles = std::max(std::min(team, most), std::min(wanted, most)); tiles >= 1;
         tiles /= 2) {
      const FusedPlan plan = with_row_tiles(tiles);
      if (plan.stages >= 2 * (tiles / plan.team_tiles)) {
        return plan;
      }
    }
    return {};
  }

 private:
  FusedPlan with_row_tiles(int tiles) const {
    FusedPlan plan;
    plan.row_tiles = tiles;
    plan.ranks = ranks_;
    plan.team_tiles =
        launch_ == Launch::kRoute ? tiles : std::min(tiles, std::max(1, group_ / tile_queries_));
    plan.group = std::min(group_, plan.team_tiles * tile_queries_);
    plan.depth_capacity = depth_;
    plan.path_compressed = path_compressed_;
    plan.rank_tokens = rank_tokens_;
    const int queries = tiles * tile_queries_;
    plan.tiles = static_cast<int>((p_.num_queries + queries - 1) / queries);
    const int teams = tiles / plan.team_tiles;
    std::size_t fixed = static_cast<std::size_t>(queries) * (4 + 2 * (path_compressed_ + depth_)) +
                        static_cast<std::size_t>(p_.num_queries) * 4 + 32 +
                        static_cast<std::size_t>(tiles) *
                            (head_width(p_) == 64 ? kMergeFloats<64> : kMergeFloats<128>)*4;
    const int compressed_entries =
        rank_tokens_ / kTileKeys + 1 + (path_compressed_ / kSliceKeys + 2) * tiles * tail_groups_;
    if (launch_ == Launch::kRoute) {
      plan.list_capacity = compressed_entries;
      plan.barriers = 2;
      const std::size_t rows = static_cast<std::size_t>(tiles) * kTileRows;
      fixed += rows * (rank_tokens_ + 8) * 2 + rows * (rank_tokens_ / kSliceKeys) * 4 +
               compressed_entries * sizeof(Entry);
    } else {
      plan.barriers = 4;
      const int team_queries = plan.team_tiles * tile_queries_;
      // All blocks of a list may fall into one segment.
      const int ranks = static_cast<int>(p_.nsa.sel_count);
      const int parts = static_cast<int>((p_.nsa.sel_block + kTileKeys - 1) / kTileKeys);
      const std::int64_t window = std::min(p_.nsa.window, p_.context_len) + depth_;
      const int chunks = static_cast<int>(window / kTileKeys / kWindowSegments) + 3;
      plan.candidates = 2 * team_queries * ranks;
      plan.list_capacity = std::max(team_queries * ranks * parts, chunks) +
                           (depth_ / kSliceKeys + 2) * plan.team_tiles * tail_groups_;
      if (launch_ == Launch::kReuse) {
        plan.list_capacity = std::max(plan.list_capacity, (compressed_entries + teams - 1) / teams);
      }
      fixed += static_cast<std::size_t>(teams) *
                   (plan.list_capacity * sizeof(Entry) + plan.candidates * 4) +
               static_cast<std::size_t>(teams) * 8;
    }
    finish(plan, (fixed + 127) / 128 * 128, teams);
    return plan;
  }

  void finish(FusedPlan& plan, std::size_t fixed, int teams) const {
    const std::size_t tile = static_cast<std::size_t>(kTileKeys) * head_width(p_) * 4;
    const std::size_t unit = tile + static_cast<std::size_t>(plan.barriers) * 8;
    const int room =
        fixed < kMaxSharedBytes ? static_cast<int>((kMaxSharedBytes - fixed) / unit) : 0;
    plan.stages = std::min({room, std::max(4, 3 * teams), kMaxStages}) / teams * teams;
    plan.shared_bytes = static_cast<std::size_t>(plan.stages) * unit + fixed;
    if (launch_ == Launch::kRoute) {
      const std::size_t select =
          static_cast<std::size_t>(plan.row_tiles) * kSlices *
          select_floats(static_cast<int>(p_.num_blocks), static_cast<int>(p_.nsa.sel_count)) * 4;
      const std::size_t reused =
          static_cast<std::size_t>(plan.stages) * tile +
          static_cast<std::size_t>(plan.row_tiles) * kTileRows * (plan.rank_tokens + 8) * 2;
      if (select > reused) {  // a larger ring makes room
        plan.stages += static_cast<int>((select - reused + tile - 1) / tile);
        plan.shared_bytes = static_cast<std::size_t>(plan.stages) * unit + fixed;
      }
    }
    if (plan.shared_bytes > kMaxSharedBytes) {
      plan.stages = 0;
    }
  }

  const NsaVerifyParams<Bf16>& p_;
  Launch launch_;
  int padded_heads_, tile_queries_, tail_groups_, depth_, path_compressed_, spans_, ranks_,
      rank_tokens_, group_;
};

}  // namespace
}  // namespace versieve::kernels
