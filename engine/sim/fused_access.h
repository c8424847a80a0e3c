// Accesses that the fused launches share: a CTA's queries, tiles of keys, partial results.
#pragma once

#include <vector>

#include "engine/sim/attention_access.h"
#include "engine/sim/fused_cut.h"

namespace versieve::engine {

// The queries of one CTA: nodes [first, end) of KV head g, its rank in the cluster, and what it
// takes of the compressed cache.
struct FusedCta {
  std::int64_t rank = 0, g = 0, first = 0, end = 0;
  std::int64_t first_span = 0, end_span = 0;
  std::int64_t from = 0, to = 0;  // compressed tokens of its spans that a query of it sees
  std::int64_t tiles = 0;         // tiles of them, a last one for those that not all queries share
};
// All CTAs of a launch, by index.
std::vector<FusedCta> fused_ctas(const AttentionCase& a, const FusedCut& cut);

// Query rows, positions and parents: what a CTA reads first.
void append_tables(const AttentionCase& a, const FusedCta& cta, std::vector<Access>& out);
// One of the CTA's tiles of compressed tokens; in the last one path-local tokens are read a query.
void append_compressed_tile(const AttentionCase& a, const FusedCta& cta, std::int64_t tile,
                            std::vector<Access>& out);
// States and outputs of the rank's spans, all rows.
void append_span_parts(const AttentionCase& a, const FusedCta& cta, std::vector<Access>& out);
// A part of every row of the CTA: `parts` of a row, this one is `part`.
void append_parts(const AttentionCase& a, const FusedCta& cta, std::uint64_t states,
                  std::uint64_t outs, std::int64_t parts, std::int64_t part,
                  std::vector<Access>& out);

}  // namespace versieve::engine
