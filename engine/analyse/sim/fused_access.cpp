#include "engine/analyse/sim/fused_access.h"

#include <algorithm>

namespace versieve::engine {
namespace {

// Registers of a thread; a tile of 64 keys for a warp alone and for two on a scheduler: 1.1 and 0.7
// us as measured with 590 instructions a tile, of which 400 are left.
constexpr std::int64_t kFusedRegisters = 216;
constexpr double kTileCycles = 1400.0;
constexpr double kTileIssueCycles = 680.0;

// The committed rows from a slice of the tail on, and all of the tree's: once for the slice.
void append_tail_rows(const AttentionCase& a, std::int64_t g, const FusedTeam& team,
                      const FusedTile& tile, std::vector<Access>& out) {
  if (!tile.loads) {
    return;
  }
  const AccessKind kind = AccessKind::kBulkRead;
  const auto append = [&](std::int64_t committed, std::uint64_t k, std::uint64_t v,
                          std::int64_t rows, std::uint64_t k_tree, std::uint64_t v_tree) {
    append_rows(a, k, v, g, tile.first, std::min<std::int64_t>(kFusedTile, committed - tile.first),
                kind, out);
    append_rows(a, k_tree, v_tree, g, 0, rows, kind, out);
  };
  if (team.compressed) {
    append(a.committed_compressed(), a.at.k_cmp, a.at.v_cmp,
           static_cast<std::int64_t>(a.cmp_tree_owner.size()), a.at.k_cmp_tree, a.at.v_cmp_tree);
  } else {
    append(a.context_len, a.at.k, a.at.v, a.num_queries(), a.at.k_tree, a.at.v_tree);
  }
}

std::int64_t row_of(const AttentionCase& a, std::int64_t node, std::int64_t g) {
  return node * a.shape.num_heads + g * a.group_heads();
}

// A part of the team's rows: a state, and the output by stores of a sector each.
void append_part(const AttentionCase& a, std::int64_t g, const FusedTeam& team, std::int64_t part,
                 std::vector<Access>& out) {
  const std::int64_t d = fused_width(a.shape.head_dim);
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

LaunchShape fused_shape(const std::string& path, const AttentionCase& a, const FusedCut& cut) {
  const std::int64_t groups = cut.query_tiles * a.shape.num_kv_heads;
  return {.path = path,
          .ctas = cut.part_blocks * groups + cut.finishers(a.num_queries()) * a.shape.num_kv_heads,
          .threads = kFusedWarps * 32,
          .registers = kFusedRegisters,
          .shared_bytes = cut.shared_bytes,
          .step_cycles = kTileCycles,
          .issue_cycles = kTileIssueCycles,
          .steps_in_flight = std::max(1.0, 0.5 * static_cast<double>(cut.units))};
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
                      AccessKind kind, std::vector<Access>& out) {
  const std::int64_t d = fused_width(a.shape.head_dim) * 4;
  const auto append = [&](std::uint64_t at, std::int64_t bytes) {
    kind == AccessKind::kRead ? append_read(at, bytes, out) : append_write(at, bytes, out);
  };
  const auto append_parts = [&](std::uint64_t states, std::uint64_t outs, std::int64_t pitch,
                                std::int64_t parts) {
    append(states + static_cast<std::uint64_t>(row * pitch * 8), parts * 8);
    append(outs + static_cast<std::uint64_t>(row * pitch * d), parts * d);
  };
  if (segments) {
    append_parts(a.at.segment_states, a.at.segment_outs, kFusedSegments, kFusedSegments);
  }
  append_parts(a.at.span_states, a.at.span_outs, scratch_spans(a), spans);
}

}  // namespace versieve::engine
