#include "engine/sim/fused_access.h"

#include <algorithm>

namespace versieve::engine {

namespace {

// Compressed tokens below are loaded once for all queries of a CTA.
std::int64_t shared_compressed(const AttentionCase& a) {
  const std::int64_t committed = a.committed_compressed();
  return a.cmp_tree_owner.empty() ? committed : committed / kFusedSlice * kFusedSlice;
}

}  // namespace

std::vector<FusedCta> fused_ctas(const AttentionCase& a, const FusedCut& cut) {
  std::vector<FusedCta> ctas;
  for (std::int64_t i = 0; i < cut.ranks * cut.query_tiles * a.shape.num_kv_heads; ++i) {
    FusedCta c;
    c.rank = i % cut.ranks;
    c.first = i / cut.ranks % cut.query_tiles * cut.cta_queries();
    c.g = i / cut.ranks / cut.query_tiles;
    c.end = std::min(a.num_queries(), c.first + cut.cta_queries());
    std::int64_t visible = 0;
    for (std::int64_t node = c.first; node < c.end; ++node) {
      visible = std::max(visible, a.seen_compressed(node));
    }
    c.first_span = first_span(c.rank, cut.ranks, visible);
    c.end_span = first_span(c.rank + 1, cut.ranks, visible);
    c.from = span_start(c.first_span);
    c.to = std::max(c.from, std::min(span_start(c.end_span), visible));
    const std::int64_t shared_end = std::min(c.to, shared_compressed(a));
    c.tiles = std::max<std::int64_t>(0, shared_end - c.from + kFusedTile - 1) / kFusedTile +
              (c.to > std::max(c.from, shared_compressed(a)) ? 1 : 0);
    ctas.push_back(c);
  }
  return ctas;
}

void append_tables(const AttentionCase& a, const FusedCta& cta, std::vector<Access>& out) {
  const std::int64_t heads = a.group_heads();
  out.push_back(
      {.address = a.at.q + static_cast<std::uint64_t>(
                               (cta.first * a.shape.num_heads + cta.g * heads) * a.row_bytes()),
       .bytes = static_cast<std::uint32_t>(heads * a.row_bytes()),
       .count = static_cast<std::uint32_t>(cta.end - cta.first),
       .stride = static_cast<std::uint64_t>(a.shape.num_heads * a.row_bytes())});
  append_read(a.at.parent, a.num_queries() * 4, out);
  append_read(a.at.position + static_cast<std::uint64_t>(cta.first * 4), (cta.end - cta.first) * 4,
              out);
}

void append_compressed_tile(const AttentionCase& a, const FusedCta& cta, std::int64_t tile,
                            std::vector<Access>& out) {
  const std::int64_t shared_end = std::min(cta.to, shared_compressed(a));
  const std::int64_t first = cta.from + tile * kFusedTile;
  if (first < shared_end) {
    append_rows(a, a.at.k_cmp, a.at.v_cmp, cta.g, first,
                std::min(shared_end, first + kFusedTile) - first, AccessKind::kBulkRead, out);
    return;
  }
  for (std::int64_t node = cta.first; node < cta.end; ++node) {
    append_path_compressed(a, node, cta.g, std::max(cta.from, shared_compressed(a)),
                           std::min(cta.to, a.seen_compressed(node)), AccessKind::kBulkRead, out);
  }
}

void append_parts(const AttentionCase& a, const FusedCta& cta, std::uint64_t states,
                  std::uint64_t outs, std::int64_t parts, std::int64_t part,
                  std::vector<Access>& out) {
  const std::int64_t d = a.shape.head_dim;
  for (std::int64_t node = cta.first; node < cta.end; ++node) {
    const std::int64_t row = node * a.shape.num_heads + cta.g * a.group_heads();
    const std::uint32_t heads = static_cast<std::uint32_t>(a.group_heads());
    out.push_back({.address = states + static_cast<std::uint64_t>((row * parts + part) * 8),
                   .bytes = 8,
                   .count = heads,
                   .stride = static_cast<std::uint64_t>(parts * 8),
                   .kind = AccessKind::kWrite});
    out.push_back({.address = outs + static_cast<std::uint64_t>((row * parts + part) * d * 4),
                   .bytes = static_cast<std::uint32_t>(d * 4),
                   .count = heads,
                   .stride = static_cast<std::uint64_t>(parts * d * 4),
                   .kind = AccessKind::kWrite});
  }
}

void append_span_parts(const AttentionCase& a, const FusedCta& cta, std::vector<Access>& out) {
  for (std::int64_t span = cta.first_span; span < cta.end_span; ++span) {
    append_parts(a, cta, a.at.span_states, a.at.span_outs, scratch_spans(a), span, out);
  }
}

}  // namespace versieve::engine
