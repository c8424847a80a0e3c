// Which thread block of a fused launch takes which tiles of whose queries.
#include <algorithm>

#include "engine/analyse/sim/fused_access.h"

namespace versieve::engine {
namespace {

// Compressed tokens and tokens below are loaded once for all queries of a team.
std::int64_t shared_compressed(const AttentionCase& a) {
  const std::int64_t committed = a.committed_compressed();
  return a.cmp_tree_owner.empty() ? committed : committed / kFusedSlice * kFusedSlice;
}
std::int64_t shared_tokens(const AttentionCase& a) {
  return a.context_len / kFusedSlice * kFusedSlice;
}

// A tile's copy is 64 rows, or as many as the cache has.
FusedTile tile_at(std::int64_t first, std::int64_t cache_rows) {
  return {.first = first, .count = std::min<std::int64_t>(kFusedTile, cache_rows - first)};
}

bool lists_block(const AttentionCase& a, std::int64_t node, std::int64_t g, std::int64_t block) {
  const std::int64_t n = a.shape.nsa.sel_count;
  const auto row = a.indices.begin() + (node * a.shape.num_kv_heads + g) * n;
  return std::find(row, row + n, static_cast<std::int32_t>(block)) != row + n;
}

class CtaBuilder {
 public:
  CtaBuilder(const AttentionCase& a, const FusedCut& cut, FusedLaunch launch)
      : a_(a), cut_(cut), launch_(launch) {}

  FusedCta working(std::int64_t block) const {
    const std::int64_t groups = cut_.query_tiles * a_.shape.num_kv_heads;
    FusedCta cta;
    cta.group = block % groups;
    cta.g = cta.group / cut_.query_tiles;
    cta.first = cta.group % cut_.query_tiles * cut_.cta_queries();
    cta.end = std::min(a_.num_queries(), cta.first + cut_.cta_queries());
    for (std::int64_t slot = 0; slot < cut_.slots; ++slot) {
      add_slot(slot_of(block / groups, slot), cta);
    }
    return cta;
  }

  FusedCta finishing(std::int64_t index) const {
    FusedCta cta;
    cta.finishes = true;
    cta.g = index % a_.shape.num_kv_heads;
    cta.first = index / a_.shape.num_kv_heads * cut_.finish_nodes();
    cta.end = std::min(a_.num_queries(), cta.first + cut_.finish_nodes());
    cta.group = cta.g * cut_.query_tiles + cta.first / cut_.cta_queries();
    return cta;
  }

 private:
  // Parts that take longest start first (kernels/nsa_verify/fused_attend.cuh).
  std::int64_t slot_of(std::int64_t share, std::int64_t slot) const {
    if (cut_.many && launch_ != FusedLaunch::kRoute) {
      return cut_.slot_order[static_cast<std::size_t>(share)];
    }
    const bool turned =
        a_.shape.head_dim > kFusedManyHead && cut_.slots == 1 && launch_ != FusedLaunch::kRoute;
    return turned ? (share + cut_.ranks) % cut_.part_blocks : share * cut_.slots + slot;
  }
  void add_slot(std::int64_t slot, FusedCta& cta) const {
    std::int64_t start = 0;
    const auto add = [&](std::int64_t queries, FusedTeam what, const auto& fill) {
      std::int64_t longest = 0;
      for (std::int64_t first = cta.first; first < cta.end; first += queries) {
        FusedTeam team = what;
        team.first = first;
        team.end = std::min(cta.end, first + queries);
        team.start = start;
        fill(team);
        longest = std::max(longest, static_cast<std::int64_t>(team.tiles.size()));
        cta.teams.push_back(std::move(team));
      }
      start += longest;
    };
    if (slot < cut_.ranks) {
      add(cut_.cta_queries(), {.compressed = true},
          [&](FusedTeam& team) { add_spans(slot, team); });
    }
    if (launch_ == FusedLaunch::kRoute) {
      return;
    }
    const SlotParts parts = cut_.parts_of(static_cast<int>(slot));
    std::int64_t window = parts.window.from;
    std::int64_t window_end = parts.window.to;
    if (cut_.many && window_end - window == 1) {  // the first: in which the tree does not begin
      window = kFusedSelectedSegments +
               (window + shared_tokens(a_) / kFusedTile + 1) % kFusedWindowSegments;
      window_end = window + 1;
    }
    if (window < window_end) {
      add(cut_.cta_queries(), {}, [&](FusedTeam& team) {
        for (std::int64_t segment = window; segment < window_end; ++segment) {
          add_window(segment, team);
          add_tail(cta.g, segment, team);
          end_parts(segment, segment + 1, team);
        }
      });
    }
    if (!parts.selected.empty()) {
      add(cut_.team_queries(), {.selected = true}, [&](FusedTeam& team) {
        for (std::int64_t place = parts.selected.from; place < parts.selected.to; ++place) {
          const std::int64_t segment = selected_segment_at(place);
          add_selected(cta.g, segment, team);
          add_tail(cta.g, segment, team);
          end_parts(segment, segment + 1, team);
        }
      });
    }
  }

  // Those of many parts begin with the segment in which the tree begins.
  std::int64_t selected_segment_at(std::int64_t place) const {
    const std::int64_t first = cut_.many ? shared_tokens(a_) / a_.shape.nsa.sel_block : 0;
    return (place + first) % kFusedSelectedSegments;
  }

  static void end_parts(std::int64_t part, std::int64_t end_part, FusedTeam& team) {
    if (team.tiles.empty() || team.tiles.back().part < team.tiles.back().end_part) {
      team.tiles.push_back({});  // nothing lies in these parts
    }
    team.tiles.back().part = part;
    team.tiles.back().end_part = end_part;
  }

  void add_spans(std::int64_t rank, FusedTeam& team) const {
    std::int64_t visible = 0;
    for (std::int64_t node = team.first; node < team.end; ++node) {
      visible = std::max(visible, a_.seen_compressed(node));
    }
    const std::int64_t last = cut_.share_start(rank + 1, visible);
    for (std::int64_t span = cut_.share_start(rank, visible); span < last; ++span) {
      const std::int64_t end = std::min(span_start(span + 1), visible);
      std::int64_t at = span_start(span);
      for (; at < std::min(end, shared_compressed(a_)); at += kFusedTile) {
        team.tiles.push_back(tile_at(at, a_.committed_compressed()));
      }
      at = std::max(span_start(span), shared_compressed(a_) / kFusedSlice * kFusedSlice);
      for (; at < end && !a_.cmp_tree_owner.empty(); at += kFusedSlice) {
        team.tiles.push_back({.first = at, .count = kFusedSlice, .tail = true});
      }
      if (!cut_.joined) {
        end_parts(span, span + 1, team);
      } else if (span + 1 == last || ends_join(span)) {
        end_parts(span_start(span) / kFusedJoin, span_start(span) / kFusedJoin + 1, team);
      }
    }
  }

  // Each group's blocks once, group after group.
  void add_selected(std::int64_t g, std::int64_t segment, FusedTeam& team) const {
    const NsaGeometry& nsa = a_.shape.nsa;
    for (std::int64_t group = team.first; group < team.end; group += cut_.group) {
      std::vector<std::int32_t> blocks;
      for (std::int64_t node = group; node < std::min(team.end, group + cut_.group); ++node) {
        const auto row = a_.indices.begin() + (node * a_.shape.num_kv_heads + g) * nsa.sel_count;
        std::copy_if(row, row + nsa.sel_count, std::back_inserter(blocks), [&](std::int32_t b) {
          return b >= 0 && b % kFusedSelectedSegments == segment &&
                 b * nsa.sel_block < shared_tokens(a_);
        });
      }
      std::sort(blocks.begin(), blocks.end());
      blocks.erase(std::unique(blocks.begin(), blocks.end()), blocks.end());
      for (const std::int32_t block : blocks) {
        for (std::int64_t at = 0; at < nsa.sel_block; at += kFusedTile) {
          const std::int64_t first = block * nsa.sel_block + at;
          if (first < a_.context_len) {
            team.tiles.push_back(tile_at(first, a_.context_len));
            team.tiles.back().share = computing_share(g, block, group, team);
          }
        }
      }
    }
  }

  // Of the team's row tiles, those with a query of the group that lists the block.
  double computing_share(std::int64_t g, std::int64_t block, std::int64_t group,
                         const FusedTeam& team) const {
    std::int64_t computing = 0;
    std::int64_t last = -1;
    for (std::int64_t node = group; node < std::min(team.end, group + cut_.group); ++node) {
      const std::int64_t row_tile = (node - team.first) / cut_.tile_queries;
      if (row_tile != last && lists_block(a_, node, g, block)) {
        ++computing;
        last = row_tile;
      }
    }
    const std::int64_t all = (team.end - team.first + cut_.tile_queries - 1) / cut_.tile_queries;
    return static_cast<double>(computing) / static_cast<double>(all);
  }

  void add_window(std::int64_t segment, FusedTeam& team) const {
    if (a_.shape.nsa.window == 0) {
      return;
    }
    const std::int64_t least =
        *std::min_element(a_.position.begin() + team.first, a_.position.begin() + team.end);
    std::int64_t chunk = std::max<std::int64_t>(least - a_.shape.nsa.window + 1, 0) / kFusedTile;
    chunk += (chunk + segment - kFusedSelectedSegments) % kFusedWindowSegments;
    for (; chunk * kFusedTile < shared_tokens(a_); chunk += kFusedWindowSegments) {
      team.tiles.push_back(tile_at(chunk * kFusedTile, a_.context_len));
    }
  }

  // Slices of the newest positions, where every node has keys of its own: row tile after row tile.
  void add_tail(std::int64_t g, std::int64_t segment, FusedTeam& team) const {
    const std::int64_t last =
        *std::max_element(a_.position.begin() + team.first, a_.position.begin() + team.end);
    for (std::int64_t slice = shared_tokens(a_); slice <= last; slice += kFusedSlice) {
      bool loads = true;
      for (std::int64_t from = team.first; from < team.end; from += cut_.tile_queries) {
        const std::int64_t to = std::min(team.end, from + cut_.tile_queries);
        bool seen = false;
        for (std::int64_t node = from; node < to; ++node) {
          seen = seen || sees_slice(a_, g, segment, node, slice);
        }
        if (seen) {
          team.tiles.push_back(
              {.first = slice, .count = kFusedSlice, .tail = true, .loads = loads});
          loads = false;
        }
      }
    }
  }

  const AttentionCase& a_;
  const FusedCut& cut_;
  FusedLaunch launch_;
};

}  // namespace

// Whether a query of the team sees keys of that slice of the tail.
bool sees_slice(const AttentionCase& a, std::int64_t g, std::int64_t segment, std::int64_t node,
                std::int64_t slice) {
  if (slice > a.position[static_cast<std::size_t>(node)]) {
    return false;
  }
  if (segment >= kFusedSelectedSegments) {
    return a.shape.nsa.window > 0 &&
           slice / kFusedTile % kFusedWindowSegments == segment - kFusedSelectedSegments;
  }
  const std::int64_t block = slice / a.shape.nsa.sel_block;
  return block % kFusedSelectedSegments == segment && lists_block(a, node, g, block);
}

std::int64_t FusedCta::steps() const {
  std::int64_t most = 0;
  for (const FusedTeam& team : teams) {
    most = std::max(most, team.start + static_cast<std::int64_t>(team.tiles.size()));
  }
  return most;
}

double FusedCta::tile_share(std::int64_t step) const {
  double most = 0.0;
  for (const FusedTeam& team : teams) {
    const std::int64_t own = step - team.start;
    if (own >= 0 && own < static_cast<std::int64_t>(team.tiles.size())) {
      most = std::max(most, team.tiles[static_cast<std::size_t>(own)].share);
    }
  }
  return most;
}

std::vector<FusedCta> fused_ctas(const AttentionCase& a, const FusedCut& cut, FusedLaunch launch) {
  const CtaBuilder builder(a, cut, launch);
  const std::int64_t heads = a.shape.num_kv_heads;
  std::vector<FusedCta> ctas;
  for (std::int64_t block = 0; block < cut.part_blocks * cut.query_tiles * heads; ++block) {
    ctas.push_back(builder.working(block));
  }
  for (std::int64_t i = 0; i < cut.finishers(a.num_queries()) * heads; ++i) {
    ctas.push_back(builder.finishing(i));
  }
  return ctas;
}

}  // namespace versieve::engine
