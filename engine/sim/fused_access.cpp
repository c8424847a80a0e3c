#include "engine/sim/fused_access.h"

#include <algorithm>

namespace versieve::engine {
namespace {

// Of a thread; of a tile of 64 keys for a warp alone and for two on a scheduler (1.1 and 0.7 us,
// kernels/nsa_verify/README.md).
constexpr std::int64_t kFusedRegisters = 216;
constexpr double kTileCycles = 2100.0;
constexpr double kTileIssueCycles = 1000.0;
constexpr double kFusedCode = 450.0;  // sectors
constexpr double kFusedCodeHits = 0.05;

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
  return {.first = first, .count = std::min(kFusedTile, cache_rows - first)};
}

bool lists_block(const AttentionCase& a, std::int64_t node, std::int64_t g, std::int64_t block) {
  const std::int64_t n = a.shape.nsa.sel_count;
  const auto row = a.indices.begin() + (node * a.shape.num_kv_heads + g) * n;
  return std::find(row, row + n, static_cast<std::int32_t>(block)) != row + n;
}

// Whether a query of the team sees keys of that slice of the tail.
bool sees_slice(const AttentionCase& a, std::int64_t g, std::int64_t segment, std::int64_t node,
                std::int64_t slice) {
  if (slice > a.position[static_cast<std::size_t>(node)]) {
    return false;
  }
  if (segment >= kFusedSelectedSegments) {
    return slice / kFusedTile % kFusedWindowSegments == segment - kFusedSelectedSegments;
  }
  const std::int64_t block = slice / a.shape.nsa.sel_block;
  return block % kFusedSelectedSegments == segment && lists_block(a, node, g, block);
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
      const std::int64_t share = block / groups;
      add_slot(cut_.many && launch_ != FusedLaunch::kRoute ? cut_.part_blocks - 1 - share
                                                           : share * cut_.slots + slot,
               cta);
    }
    return cta;
  }

  FusedCta finishing(std::int64_t index) const {
    FusedCta cta;
    cta.finishes = true;
    cta.g = index % a_.shape.num_kv_heads;
    cta.first = index / a_.shape.num_kv_heads * cut_.finish_nodes;
    cta.end = std::min(a_.num_queries(), cta.first + cut_.finish_nodes);
    cta.group = cta.g * cut_.query_tiles + cta.first / cut_.cta_queries();
    return cta;
  }

 private:
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
    const auto [window, window_end] = cut_.window_of(slot);
    if (window < window_end) {
      add(cut_.cta_queries(), {}, [&, from = window, to = window_end](FusedTeam& team) {
        for (std::int64_t segment = from; segment < to; ++segment) {
          add_window(segment, team);
          add_tail(cta.g, segment, team);
          end_parts(segment, segment + 1, team);
        }
      });
    }
    const auto [selected, selected_end] = cut_.selected_of(slot);
    if (selected < selected_end) {
      add(cut_.team_queries(), {.selected = true},
          [&, from = selected, to = selected_end](FusedTeam& team) {
            for (std::int64_t segment = from; segment < to; ++segment) {
              add_selected(cta.g, segment, team);
              add_tail(cta.g, segment, team);
              end_parts(segment, segment + 1, team);
            }
          });
    }
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
        team.tiles.push_back(
            {.first = at, .count = kFusedSlice, .tail = true, .from = team.first, .to = team.end});
      }
      if (!cut_.joined) {
        end_parts(span, span + 1, team);
      } else if (span + 1 == last || span_start(span + 1) % kFusedJoin == 0) {
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
          }
        }
      }
    }
  }

  void add_window(std::int64_t segment, FusedTeam& team) const {
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
      for (std::int64_t from = team.first; from < team.end; from += cut_.tile_queries) {
        const std::int64_t to = std::min(team.end, from + cut_.tile_queries);
        bool seen = false;
        for (std::int64_t node = from; node < to; ++node) {
          seen = seen || sees_slice(a_, g, segment, node, slice);
        }
        if (seen) {
          team.tiles.push_back({.first = slice,
                                .count = kFusedSlice,
                                .tail = true,
                                .segment = segment,
                                .from = from,
                                .to = to});
        }
      }
    }
  }

  const AttentionCase& a_;
  const FusedCut& cut_;
  FusedLaunch launch_;
};

void append_tail_rows(const AttentionCase& a, std::int64_t g, const FusedTeam& team,
                      const FusedTile& tile, std::vector<Access>& out) {
  for (std::int64_t node = tile.from; node < tile.to; ++node) {
    const std::int64_t end = tile.first + tile.count;
    if (team.compressed) {
      append_path_compressed(a, node, g, tile.first, std::min(end, a.seen_compressed(node)),
                             AccessKind::kBulkRead, out);
    } else if (sees_slice(a, g, tile.segment, node, tile.first)) {
      const std::int64_t t = a.position[static_cast<std::size_t>(node)];
      append_path_tokens(a, node, g, tile.first, std::min(t, end - 1), AccessKind::kBulkRead, out);
    }
  }
}

std::int64_t row_of(const AttentionCase& a, std::int64_t node, std::int64_t g) {
  return node * a.shape.num_heads + g * a.group_heads();
}

// A part of the team's rows: a state, and the output by stores of a sector each.
void append_part(const AttentionCase& a, std::int64_t g, const FusedTeam& team, std::int64_t part,
                 std::vector<Access>& out) {
  const std::int64_t d = a.shape.head_dim;
  const std::int64_t parts = team.compressed ? scratch_spans(a) : kFusedSegments;
  const std::uint64_t states = team.compressed ? a.at.span_states : a.at.segment_states;
  const std::uint64_t outs = team.compressed ? a.at.span_outs : a.at.segment_outs;
  for (std::int64_t node = team.first; node < team.end; ++node) {
    for (std::int64_t head = 0; head < a.group_heads(); ++head) {
      const std::int64_t at = (row_of(a, node, g) + head) * parts + part;
      append_write(states + static_cast<std::uint64_t>(at * 8), 8, out);
      append_sectors(outs + static_cast<std::uint64_t>(at * d * 4), d * 4, AccessKind::kWrite, out);
    }
  }
}

// What nsa_route keeps of a tile's softmax weights: by slice of 16 tokens four sums of blocks, or
// the weights themselves, and the slice's reference.
void append_weights(const AttentionCase& a, std::int64_t g, const FusedTile& tile,
                    std::int64_t first, std::int64_t end, std::vector<Access>& out) {
  const std::int64_t each = slice_weights(a.shape.nsa) * 4;
  const std::uint32_t slices =
      static_cast<std::uint32_t>((tile.count + kFusedSlice - 1) / kFusedSlice);
  for (std::int64_t node = first; node < end; ++node) {
    for (std::int64_t head = 0; head < a.group_heads(); ++head) {
      const std::int64_t at =
          (row_of(a, node, g) + head) * scratch_slices(a) + tile.first / kFusedSlice;
      out.push_back({.address = a.at.weights + static_cast<std::uint64_t>(at * each),
                     .bytes = static_cast<std::uint32_t>(each),
                     .count = slices,
                     .stride = static_cast<std::uint64_t>(each),
                     .kind = AccessKind::kWrite});
      out.push_back({.address = a.at.slices + static_cast<std::uint64_t>(at * 8),
                     .bytes = 8,
                     .count = slices,
                     .stride = 8,
                     .kind = AccessKind::kWrite});
    }
  }
}

}  // namespace

std::int64_t FusedCta::steps() const {
  std::int64_t most = 0;
  for (const FusedTeam& team : teams) {
    most = std::max(most, team.start + static_cast<std::int64_t>(team.tiles.size()));
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

LaunchShape fused_shape(const std::string& path, const AttentionCase& a, const FusedCut& cut) {
  const std::int64_t groups = cut.query_tiles * a.shape.num_kv_heads;
  return {.path = path,
          .ctas = cut.part_blocks * groups + cut.finishers(a.num_queries()) * a.shape.num_kv_heads,
          .threads = kFusedWarps * 32,
          .registers = kFusedRegisters,
          .shared_bytes = cut.shared_bytes,
          .step_cycles = kTileCycles,
          .issue_cycles = kTileIssueCycles,
          .steps_in_flight = std::max(1.0, 0.5 * static_cast<double>(cut.units)),
          .code_sectors = kFusedCode,
          .code_hit_share = kFusedCodeHits};
}

void append_tables(const AttentionCase& a, const FusedCta& cta, std::vector<Access>& out) {
  out.push_back(
      {.address = a.at.q + static_cast<std::uint64_t>(row_of(a, cta.first, cta.g) * a.row_bytes()),
       .bytes = static_cast<std::uint32_t>(a.group_heads() * a.row_bytes()),
       .count = static_cast<std::uint32_t>(cta.end - cta.first),
       .stride = static_cast<std::uint64_t>(a.shape.num_heads * a.row_bytes())});
  append_read(a.at.parent, a.num_queries() * 4, out);
  append_read(a.at.position + static_cast<std::uint64_t>(cta.first * 4), (cta.end - cta.first) * 4,
              out);
  append_read(a.at.owner, static_cast<std::int64_t>(a.cmp_tree_owner.size()) * 4, out);
  const std::int64_t n = a.shape.nsa.sel_count;
  for (const FusedTeam& team : cta.teams) {
    if (team.selected) {
      out.push_back({.address = (a.reuse ? a.at.indices_in : a.at.indices) +
                                static_cast<std::uint64_t>(
                                    (team.first * a.shape.num_kv_heads + cta.g) * n * 4),
                     .bytes = static_cast<std::uint32_t>(n * 4),
                     .count = static_cast<std::uint32_t>(team.end - team.first),
                     .stride = static_cast<std::uint64_t>(a.shape.num_kv_heads * n * 4)});
    }
  }
}

void append_tiles(const AttentionCase& a, const FusedCta& cta, std::int64_t step,
                  bool keeps_weights, std::vector<Access>& out) {
  for (const FusedTeam& team : cta.teams) {
    const std::int64_t own = step - team.start;
    if (own < 0 || own >= static_cast<std::int64_t>(team.tiles.size())) {
      continue;
    }
    const FusedTile& tile = team.tiles[static_cast<std::size_t>(own)];
    if (tile.tail) {
      append_tail_rows(a, cta.g, team, tile, out);
    } else if (tile.count > 0) {
      append_rows(a, team.compressed ? a.at.k_cmp : a.at.k, team.compressed ? a.at.v_cmp : a.at.v,
                  cta.g, tile.first, tile.count, AccessKind::kBulkRead, out);
    }
    if (keeps_weights && tile.count > 0) {
      append_weights(a, cta.g, tile, team.first, team.end, out);
    }
    for (std::int64_t part = tile.part; part < tile.end_part; ++part) {
      append_part(a, cta.g, team, part, out);
    }
  }
}

void append_row_parts(const AttentionCase& a, std::int64_t row, bool segments, std::int64_t spans,
                      std::vector<Access>& out) {
  const std::int64_t d = a.shape.head_dim * 4;
  const auto read = [&](std::uint64_t states, std::uint64_t outs, std::int64_t pitch,
                        std::int64_t parts) {
    append_read(states + static_cast<std::uint64_t>(row * pitch * 8), parts * 8, out);
    append_read(outs + static_cast<std::uint64_t>(row * pitch * d), parts * d, out);
  };
  if (segments) {
    read(a.at.segment_states, a.at.segment_outs, kFusedSegments, kFusedSegments);
  }
  read(a.at.span_states, a.at.span_outs, scratch_spans(a), spans);
}

}  // namespace versieve::engine
