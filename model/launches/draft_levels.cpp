#include "model/launches/draft_levels.h"

#include <algorithm>

#include "model/launches/launch_parts.h"
#include "model/launches/step_shape.h"

namespace versieve {
namespace {

// Nodes of a level that take no longer than one: each more adds a step (ranges of h200-demo-step).
constexpr std::int64_t kNodesAtOnce = 4;

std::int64_t row_tiles(std::int64_t rows) {
  return (rows + kLinearGroupRows - 1) / kLinearGroupRows;
}

// A CTA takes 64 rows (64 pairs under swiglu), and all slices of K, a warpgroup each.
bool matrix_fits(std::int64_t k, std::int64_t m, bool swiglu, std::int64_t rows) {
  const LinearCut cut = linear_cut(k, m, swiglu);
  const std::int64_t groups = swiglu ? 2 : 1;
  return k % kLinearTileK == 0 && cut.groups == groups && groups * cut.slices <= kDraftWarpgroups &&
         draft_product_bytes(k, groups, rows) <= kDraftCtaBytes;
}

// The widest slice of K.
std::int64_t slice_width(std::int64_t k, std::int64_t m) {
  const std::int64_t slices = linear_cut(k, m, false).slices;
  return (k / kLinearTileK + slices - 1) / slices * kLinearTileK;
}

bool matrices_fit(const DraftShape& d) {
  // A token's half of the joint projection is a slice of K of its own, so a table holds it.
  const LinearCut joint = linear_cut(2 * d.hidden, d.joint_rows(), false);
  return joint.slices == 2 && joint.groups == 1 &&
         matrix_fits(3 * d.hidden, d.hidden, false, kDraftEntries) &&
         draft_product_bytes(d.hidden, 1, kDraftEntries) <= kDraftCtaBytes &&
         matrix_fits(d.num_heads * d.head_dim, d.hidden, false, kDraftRows) &&
         matrix_fits(d.hidden, d.intermediate, true, kDraftRows) &&
         matrix_fits(d.intermediate, d.hidden, false, kDraftRows) &&
         matrix_fits(d.hidden, d.vocab, false, kDraftRows) &&
         slice_width(d.num_heads * d.head_dim, d.hidden) <= kDraftSliceK &&
         slice_width(d.intermediate, d.hidden) <= kDraftSliceK;
}

}  // namespace

DraftCtas draft_ctas(const DraftShape& d, const DraftChoice& c) {
  return {.fuse = row_tiles(d.hidden),
          .feature = row_tiles(d.joint_rows()),
          .attention = c.width * d.num_heads,
          .output = row_tiles(d.hidden),
          .gate_up = row_tiles(d.intermediate),
          .down = row_tiles(d.hidden),
          .head = row_tiles(d.vocab)};
}

bool drafts_in_one_launch(const DraftShape& d, std::int64_t target_vocab, const DraftChoice& c,
                          std::int64_t sms) {
  const std::int64_t levels = c.levels();
  return d.is_plain() && levels >= 1 && levels < kDraftEntries && c.width >= 1 &&
         c.width <= kDraftRows && d.head_dim == kDraftHeadDim && d.num_kv_heads > 0 &&
         d.num_heads % d.num_kv_heads == 0 && d.num_heads / d.num_kv_heads <= kDraftGroupHeads &&
         d.window >= kDraftEntries && d.window <= kDraftMostWindow &&
         d.hidden % kLinearTileK == 0 && d.hidden <= kDraftMostHidden &&
         d.intermediate % kLinearGroupRows == 0 && d.vocab >= 1 && d.vocab <= kDraftMostVocab &&
         target_vocab <= kDraftMostVocab && matrices_fit(d) && draft_ctas(d, c).total() <= sms &&
         draft_attention_bytes(d.window, (levels - 1) * (c.width + 1)) <= kDraftCtaBytes;
}

bool is_small_pair(const DraftShape& draft, std::int64_t target_vocab) {
  return drafts_in_one_launch(draft, target_vocab, {.depth = 1, .width = 1, .nodes = 2});
}

namespace traffic {

Traffic draft_levels(const DraftShape& d, const DraftChoice& c, std::int64_t context_len,
                     std::int64_t element_bytes) {
  const double e = number(element_bytes);
  const double hidden = number(d.hidden);
  const double joint = number(d.joint_rows());
  const double levels = number(c.levels());
  const double entries = levels + 1.0;
  const double nodes = 1.0 + (levels - 1.0) * number(c.width);  // whose output is wanted
  const double fuse = 3.0 * hidden * hidden;
  const double layer =
      hidden * (number(d.num_heads * d.head_dim) + 3.0 * number(d.intermediate) + number(d.vocab));
  const double kv = 2.0 * number(d.num_kv_heads * d.head_dim);
  const double keys = number(std::min(d.window, context_len));
  Traffic t;
  t.read(TrafficTerm::kDraft, (fuse + joint * hidden + layer) * e);
  t.read(TrafficTerm::kDraft, (entries + nodes - 1.0) * joint * sizeof(float));  // tokens' halves
  t.read(TrafficTerm::kDraft, (entries * 3.0 * hidden + keys * kv) * e);
  t.write(TrafficTerm::kDraft, entries * kv * e);
  t.flops = 2.0 * (entries * (fuse + joint * hidden) + (nodes - 1.0) * joint * hidden +
                   nodes * (layer + keys * 2.0 * number(d.num_heads * d.head_dim)));
  return t;
}

}  // namespace traffic

// A chain of hops, which no byte and no product shows: the newest tokens' entries and the first
// level (the launch's base), then a round a level, and a step for each node beyond the first four.
void add_draft_levels(const StepShape& s, StepWork& out) {
  const Traffic moved = traffic::draft_levels(s.draft, s.tree, s.context_len, s.element_bytes);
  LaunchWork work = streaming(LaunchKind::kDraftLevels, Phase::kDraft, 1.0, moved,
                              number(draft_ctas(s.draft, s.tree).total()), 0.0);
  work.rounds = number(s.tree.levels()) - 1.0;
  work.steps = work.rounds * number(std::max<std::int64_t>(0, s.tree.width - kNodesAtOnce));
  work.handover_distance = 0.0;  // packets that are read as soon as they are there
  out.add(work);
}

}  // namespace versieve
