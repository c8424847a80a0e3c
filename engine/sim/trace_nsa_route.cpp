// nsa_route: a CTA (cluster rank, tile of queries, KV head) attends its spans of the compressed
// cache, weighs their blocks, merges its share of rows and lists blocks for its share of queries.
#include <algorithm>

#include "engine/sim/attention_traces.h"
#include "engine/sim/fused_access.h"

namespace versieve::engine {
namespace {

// Bytes that a thread spills, from the stores that L2 counted beyond its outputs'.
constexpr std::int64_t kRouteSpills = 32;

class NsaRouteTrace final : public LaunchTrace {
 public:
  NsaRouteTrace(const AttentionCase& a, const FusedCut& cut)
      : LaunchTrace({.path = "nsa_route",
                     .ctas = cut.ranks * cut.query_tiles * a.shape.num_kv_heads,
                     .cluster = cut.ranks,
                     .threads = cut.row_tiles * 128,
                     .registers = 128,
                     .shared_bytes = kFusedSharedBytes,
                     .local_bytes = kRouteSpills,
                     .step_cycles = kTileCycles,
                     .steps_in_flight = 3.0,
                     .code_sectors = kFusedCode,
                     .code_hit_share = kFusedCodeHits}),
        a_(a),
        cut_(cut),
        ctas_(fused_ctas(a_, cut_)) {}

  bool append_step(std::int64_t index, std::int64_t step, std::vector<Access>& out) const override;
  // States of all spans, then the importance of all blocks are there.
  bool meets_cluster(std::int64_t index, std::int64_t step) const override {
    const std::int64_t tiles = ctas_[static_cast<std::size_t>(index)].tiles;
    return step == tiles + 2 || step == tiles + 3;
  }

 private:
  // Importance of the blocks whose tokens are the rank's, in two parts.
  void append_importance(const FusedCta& cta, std::vector<Access>& out) const;
  void append_merge(const FusedCta& cta, std::vector<Access>& out) const;
  void append_choice(const FusedCta& cta, std::vector<Access>& out) const;

  AttentionCase a_;
  FusedCut cut_;
  std::vector<FusedCta> ctas_;
};

void NsaRouteTrace::append_importance(const FusedCta& cta, std::vector<Access>& out) const {
  const std::int64_t per_block = a_.shape.nsa.sel_block / a_.shape.nsa.cmp_stride;
  if (cta.from >= cta.to) {
    return;
  }
  const std::int64_t first = cta.from / per_block;
  const std::int64_t count = (cta.to - cta.from + per_block - 1) / per_block;
  for (std::int64_t node = cta.first; node < cta.end; ++node) {
    const std::int64_t row = (node * a_.shape.num_kv_heads + cta.g) * scratch_blocks(a_) + first;
    append_write(a_.at.importance_own + static_cast<std::uint64_t>(row * 4), count * 4, out);
    append_write(a_.at.importance_before + static_cast<std::uint64_t>((row + 1) * 4),
                 (count - (first + count >= scratch_blocks(a_) ? 1 : 0)) * 4, out);
  }
}

// Row i of the CTA's rows is rank i modulo the ranks'.
void NsaRouteTrace::append_merge(const FusedCta& cta, std::vector<Access>& out) const {
  const std::int64_t d = a_.shape.head_dim;
  const std::int64_t rows = (cta.end - cta.first) * a_.group_heads();
  for (std::int64_t i = cta.rank; i < rows; i += cut_.ranks) {
    const std::int64_t node = cta.first + i / a_.group_heads();
    const std::int64_t row =
        node * a_.shape.num_heads + cta.g * a_.group_heads() + i % a_.group_heads();
    const std::int64_t used = span_count(a_.seen_compressed(node));
    const std::int64_t first = row * scratch_spans(a_);
    append_read(a_.at.span_states + static_cast<std::uint64_t>(first * 8), used * 8, out);
    append_read(a_.at.span_outs + static_cast<std::uint64_t>(first * d * 4), used * d * 4, out);
    append_write(a_.at.compressed + static_cast<std::uint64_t>(row * d * 4), d * 4, out);
  }
}

void NsaRouteTrace::append_choice(const FusedCta& cta, std::vector<Access>& out) const {
  const std::int64_t n = a_.shape.nsa.sel_count;
  for (std::int64_t node = cta.first + cta.rank; node < cta.end; node += cut_.ranks) {
    const std::int64_t pair = node * a_.shape.num_kv_heads + cta.g;
    for (const std::uint64_t part : {a_.at.importance_own, a_.at.importance_before}) {
      append_read(part + static_cast<std::uint64_t>(pair * scratch_blocks(a_) * 4),
                  a_.num_blocks() * 4, out);
    }
    append_write(a_.at.indices + static_cast<std::uint64_t>(pair * n * 4), n * 4, out);
  }
}

bool NsaRouteTrace::append_step(std::int64_t index, std::int64_t step,
                                std::vector<Access>& out) const {
  const FusedCta& cta = ctas_[static_cast<std::size_t>(index)];
  if (step == 0) {
    append_tables(a_, cta, out);
    return true;
  }
  if (step <= cta.tiles) {
    append_compressed_tile(a_, cta, step - 1, out);
    return true;
  }
  switch (step - 1 - cta.tiles) {
    case 0:
      append_span_parts(a_, cta, out);
      return true;
    case 1:
      append_importance(cta, out);
      append_merge(cta, out);
      return true;
    case 2:
      append_choice(cta, out);
      return true;
    default:
      return false;
  }
}

}  // namespace

std::unique_ptr<LaunchTrace> trace_nsa_route(const AttentionCase& a) {
  return std::make_unique<NsaRouteTrace>(a, fused_cut(a, FusedLaunch::kRoute));
}

}  // namespace versieve::engine
