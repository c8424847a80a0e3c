#include "engine/analyse/sim/fused_cut.h"

#include "model/words/error.h"

namespace versieve::engine {

FusedCall fused_call(const AttentionCase& a) {
  return {.nsa = a.shape.nsa,
          .num_heads = a.shape.num_heads,
          .num_kv_heads = a.shape.num_kv_heads,
          .head_dim = a.shape.head_dim,
          .num_queries = a.num_queries(),
          .context_len = a.context_len,
          .num_blocks = a.num_blocks(),
          .group_size = a.group_size,
          .group_mode = a.group_mode};
}

std::int64_t scratch_spans(const AttentionCase& a) {
  return span_count(a.max_compressed());
}

std::int64_t scratch_slices(const AttentionCase& a) {
  return fused_call(a).max_slices();
}

bool sums_blocks(const NsaGeometry& nsa) {
  return nsa.sel_block == 4 * nsa.cmp_stride && nsa.cmp_block == 2 * nsa.cmp_stride;
}

std::int64_t slice_weights(const NsaGeometry& nsa) {
  return sums_blocks(nsa) ? 4 : kFusedSlice;
}

FusedCut fused_cut(const AttentionCase& a, FusedLaunch launch) {
  const std::optional<FusedCut> cut = cut_fused(fused_call(a), launch);
  if (!cut.has_value()) {
    throw Error(ExitCode::kAnswerNo,
                "the fused attention's lists of this tree do not fit shared memory");
  }
  return *cut;
}

void place_fused_scratch(AddressSpace& space, AttentionCase& attention) {
  AttentionBuffers& at = attention.at;
  const std::int64_t rows = attention.num_queries() * attention.shape.num_heads;
  const std::int64_t width = fused_width(attention.shape.head_dim);
  const std::int64_t slices = attention.reuse ? 0 : rows * scratch_slices(attention);
  at.span_states = space.place(rows * scratch_spans(attention) * 8);
  at.span_outs = space.place(rows * scratch_spans(attention) * width * 4);
  at.weights = space.place(slices * slice_weights(attention.shape.nsa) * 4);
  at.slices = space.place(slices * 8);
  at.compressed = space.place(attention.reuse ? 0 : rows * attention.shape.head_dim * 4);
  at.segment_states = space.place(rows * kFusedSegments * 8);
  at.segment_outs = space.place(rows * kFusedSegments * width * 4);
  at.spills = space.place(attention.reuse ? 0 : kSpillingCtas * kRouteSpills);
}

}  // namespace versieve::engine
