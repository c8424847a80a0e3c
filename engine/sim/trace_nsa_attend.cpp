// nsa_attend and nsa_reuse: a CTA (cluster rank, tile of queries, KV head) takes one segment of its
// queries' keys: ranks 0-5 the chosen blocks whose number is the rank modulo six, each block once a
// group, ranks 6 and 7 the window's even and odd chunks; then the cluster's rows are merged, gated
// and written. nsa_reuse attends its spans of the compressed cache first.
#include <algorithm>

#include "engine/sim/attention_traces.h"
#include "engine/sim/fused_access.h"
#include "model/assert.h"

namespace versieve::engine {
namespace {

// Bytes that a thread of nsa_reuse spills, from the stores that L2 counted beyond its outputs'.
constexpr std::int64_t kReuseSpills = 96;

class NsaAttendTrace final : public LaunchTrace {
 public:
  NsaAttendTrace(const AttentionCase& a, const FusedCut& cut)
      : LaunchTrace({.path = a.reuse ? "nsa_reuse" : "nsa_attend",
                     .ctas = cut.ranks * cut.query_tiles * a.shape.num_kv_heads,
                     .cluster = cut.ranks,
                     .threads = cut.row_tiles * 128,
                     .registers = 128,
                     .shared_bytes = kFusedSharedBytes,
                     .local_bytes = a.reuse ? kReuseSpills : 0,
                     .step_cycles = kTileCycles,
                     .steps_in_flight = 3.0,
                     .code_sectors = kFusedCode,
                     .code_hit_share = kFusedCodeHits}),
        a_(a),
        cut_(cut),
        ctas_(fused_ctas(a_, cut_)) {
    for (const FusedCta& cta : ctas_) {
      tiles_.push_back(tiles_of(cta));
    }
  }

  bool append_step(std::int64_t index, std::int64_t step, std::vector<Access>& out) const override;
  // All parts of the queries' rows are there.
  bool meets_cluster(std::int64_t index, std::int64_t step) const override {
    return step == finish_step(index);
  }

 private:
  // First committed tokens of the tiles that the CTA loads, team after team, group after group.
  std::vector<std::int32_t> tiles_of(const FusedCta& cta) const;
  void add_selected(const FusedCta& cta, std::int64_t first, std::int64_t end,
                    std::vector<std::int32_t>& tiles) const;
  void add_window(const FusedCta& cta, std::int64_t first, std::int64_t end,
                  std::vector<std::int32_t>& tiles) const;
  void append_tail(const FusedCta& cta, std::vector<Access>& out) const;
  void append_finish(const FusedCta& cta, std::vector<Access>& out) const;
  std::int64_t first_tile_step(const FusedCta& cta) const { return a_.reuse ? cta.tiles + 2 : 1; }
  std::int64_t finish_step(std::int64_t index) const {
    const std::size_t at = static_cast<std::size_t>(index);
    return first_tile_step(ctas_[at]) + static_cast<std::int64_t>(tiles_[at].size()) + 2;
  }
  std::int64_t shared_tokens() const { return a_.context_len / kFusedSlice * kFusedSlice; }

  AttentionCase a_;
  FusedCut cut_;
  std::vector<FusedCta> ctas_;
  std::vector<std::vector<std::int32_t>> tiles_;  // by CTA
};

void NsaAttendTrace::add_selected(const FusedCta& cta, std::int64_t first, std::int64_t end,
                                  std::vector<std::int32_t>& tiles) const {
  const NsaGeometry& nsa = a_.shape.nsa;
  std::vector<std::int32_t> blocks;
  for (std::int64_t node = first; node < end; ++node) {
    const std::size_t row =
        static_cast<std::size_t>((node * a_.shape.num_kv_heads + cta.g) * nsa.sel_count);
    for (std::size_t i = 0; i < static_cast<std::size_t>(nsa.sel_count); ++i) {
      const std::int32_t block = a_.indices[row + i];
      if (block >= 0 && block % kFusedSelectedSegments == cta.rank &&
          block * nsa.sel_block < shared_tokens()) {
        blocks.push_back(block);
      }
    }
  }
  std::sort(blocks.begin(), blocks.end());
  blocks.erase(std::unique(blocks.begin(), blocks.end()), blocks.end());
  for (const std::int32_t block : blocks) {
    for (std::int64_t at = 0; at < nsa.sel_block; at += kFusedTile) {
      tiles.push_back(static_cast<std::int32_t>(block * nsa.sel_block + at));
    }
  }
}

void NsaAttendTrace::add_window(const FusedCta& cta, std::int64_t first, std::int64_t end,
                                std::vector<std::int32_t>& tiles) const {
  const std::int64_t least =
      *std::min_element(a_.position.begin() + first, a_.position.begin() + end);
  const std::int64_t segment = cta.rank - kFusedSelectedSegments;
  std::int64_t chunk = std::max<std::int64_t>(least - a_.shape.nsa.window + 1, 0) / kFusedTile;
  chunk += (chunk + segment) % kFusedWindowSegments;
  for (; chunk * kFusedTile < shared_tokens(); chunk += kFusedWindowSegments) {
    tiles.push_back(static_cast<std::int32_t>(chunk * kFusedTile));
  }
}

std::vector<std::int32_t> NsaAttendTrace::tiles_of(const FusedCta& cta) const {
  std::vector<std::int32_t> tiles;
  for (std::int64_t team = cta.first; team < cta.end; team += cut_.team_queries()) {
    const std::int64_t team_end = std::min(cta.end, team + cut_.team_queries());
    if (cta.rank >= kFusedSelectedSegments) {
      add_window(cta, team, team_end, tiles);
      continue;
    }
    for (std::int64_t group = team; group < team_end; group += cut_.group) {
      add_selected(cta, group, std::min(team_end, group + cut_.group), tiles);
    }
  }
  return tiles;
}

// The newest positions, where every node has keys of its own: 16-byte copies, a query each.
void NsaAttendTrace::append_tail(const FusedCta& cta, std::vector<Access>& out) const {
  const NsaGeometry& nsa = a_.shape.nsa;
  for (std::int64_t node = cta.first; node < cta.end; ++node) {
    const std::int64_t t = a_.position[static_cast<std::size_t>(node)];
    for (std::int64_t slice = shared_tokens(); slice <= t; slice += kFusedSlice) {
      bool mine;
      if (cta.rank >= kFusedSelectedSegments) {
        mine = slice / kFusedTile % kFusedWindowSegments == cta.rank - kFusedSelectedSegments;
      } else {
        const auto row =
            a_.indices.begin() + (node * a_.shape.num_kv_heads + cta.g) * nsa.sel_count;
        const std::int32_t block = static_cast<std::int32_t>(slice / nsa.sel_block);
        mine = block % kFusedSelectedSegments == cta.rank &&
               std::find(row, row + nsa.sel_count, block) != row + nsa.sel_count;
      }
      if (mine) {
        append_path_tokens(a_, node, cta.g, slice, std::min(t, slice + kFusedSlice - 1),
                           AccessKind::kBulkRead, out);
      }
    }
  }
}

void NsaAttendTrace::append_finish(const FusedCta& cta, std::vector<Access>& out) const {
  const std::int64_t d = a_.shape.head_dim;
  const std::int64_t rows = (cta.end - cta.first) * a_.group_heads();
  for (std::int64_t i = cta.rank; i < rows; i += cut_.ranks) {
    const std::int64_t node = cta.first + i / a_.group_heads();
    const std::int64_t row =
        node * a_.shape.num_heads + cta.g * a_.group_heads() + i % a_.group_heads();
    append_read(a_.at.segment_states + static_cast<std::uint64_t>(row * kFusedSegments * 8),
                kFusedSegments * 8, out);
    append_read(a_.at.segment_outs + static_cast<std::uint64_t>(row * kFusedSegments * d * 4),
                kFusedSegments * d * 4, out);
    if (a_.reuse) {
      const std::int64_t used = span_count(a_.seen_compressed(node));
      const std::int64_t first = row * scratch_spans(a_);
      append_read(a_.at.span_states + static_cast<std::uint64_t>(first * 8), used * 8, out);
      append_read(a_.at.span_outs + static_cast<std::uint64_t>(first * d * 4), used * d * 4, out);
    } else {
      append_read(a_.at.compressed + static_cast<std::uint64_t>(row * d * 4), d * 4, out);
    }
    append_read(a_.at.gates + static_cast<std::uint64_t>(row * 3 * a_.element_bytes),
                3 * a_.element_bytes, out);
    append_write(a_.at.out + static_cast<std::uint64_t>(row * d * a_.element_bytes),
                 d * a_.element_bytes, out);
  }
  const std::int64_t n = a_.shape.nsa.sel_count;
  for (std::int64_t node = cta.first + cta.rank; a_.reuse && node < cta.end; node += cut_.ranks) {
    const std::uint64_t at =
        static_cast<std::uint64_t>((node * a_.shape.num_kv_heads + cta.g) * n * 4);
    append_read(a_.at.indices_in + at, n * 4, out);
    append_write(a_.at.indices + at, n * 4, out);
  }
}

bool NsaAttendTrace::append_step(std::int64_t index, std::int64_t step,
                                 std::vector<Access>& out) const {
  const FusedCta& cta = ctas_[static_cast<std::size_t>(index)];
  if (step == 0) {
    append_tables(a_, cta, out);
    const std::int64_t n = a_.shape.nsa.sel_count;
    if (cta.rank < kFusedSelectedSegments) {
      out.push_back({.address = (a_.reuse ? a_.at.indices_in : a_.at.indices) +
                                static_cast<std::uint64_t>(
                                    (cta.first * a_.shape.num_kv_heads + cta.g) * n * 4),
                     .bytes = static_cast<std::uint32_t>(n * 4),
                     .count = static_cast<std::uint32_t>(cta.end - cta.first),
                     .stride = static_cast<std::uint64_t>(a_.shape.num_kv_heads * n * 4)});
    }
    return true;
  }
  if (a_.reuse) {
    if (step <= cta.tiles) {
      append_compressed_tile(a_, cta, step - 1, out);
      return true;
    }
    if (step == cta.tiles + 1) {
      append_span_parts(a_, cta, out);
      return true;
    }
  }
  const std::vector<std::int32_t>& tiles = tiles_[static_cast<std::size_t>(index)];
  const std::int64_t tile = step - first_tile_step(cta);
  const std::int64_t count = static_cast<std::int64_t>(tiles.size());
  if (tile < count) {
    const std::int64_t first = tiles[static_cast<std::size_t>(tile)];
    append_rows(a_, a_.at.k, a_.at.v, cta.g, first,
                std::min(first + kFusedTile, shared_tokens()) - first, AccessKind::kBulkRead, out);
    return true;
  }
  switch (tile - count) {
    case 0:
      append_tail(cta, out);
      return true;
    case 1:
      append_parts(a_, cta, a_.at.segment_states, a_.at.segment_outs, kFusedSegments, cta.rank,
                   out);
      return true;
    case 2:
      append_finish(cta, out);
      return true;
    default:
      return false;
  }
}

}  // namespace

std::unique_ptr<LaunchTrace> trace_nsa_attend(const AttentionCase& a) {
  VERSIEVE_ASSERT(!a.reuse, "a reuse layer runs nsa_reuse");
  return std::make_unique<NsaAttendTrace>(a, fused_cut(a, FusedLaunch::kAttend));
}
std::unique_ptr<LaunchTrace> trace_nsa_reuse(const AttentionCase& a) {
  VERSIEVE_ASSERT(a.reuse, "a refresh layer runs nsa_route and nsa_attend");
  return std::make_unique<NsaAttendTrace>(a, fused_cut(a, FusedLaunch::kReuse));
}

}  // namespace versieve::engine
