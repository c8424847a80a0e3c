// nsa_attend and nsa_reuse: working CTAs take segments of the chosen blocks and of the window, in
// nsa_reuse shares of the compressed cache too; the last CTAs, for a few nodes of a KV head each,
// wait for those of their queries, merge all branches, gate and write.
#include <algorithm>

#include "engine/analyse/sim/attention_traces.h"
#include "engine/analyse/sim/fused_access.h"
#include "engine/analyse/sim/memory_machine.h"
#include "model/words/assert.h"

namespace versieve::engine {
namespace {

class NsaAttendTrace final : public LaunchTrace {
 public:
  NsaAttendTrace(const AttentionCase& a, const FusedCut& cut)
      : LaunchTrace(fused_shape(a.reuse ? "nsa_reuse" : "nsa_attend", a, cut)),
        a_(a),
        cut_(cut),
        ctas_(fused_ctas(a_, cut_, a.reuse ? FusedLaunch::kReuse : FusedLaunch::kAttend)) {}

  bool append_step(std::int64_t index, std::int64_t step, std::vector<Access>& out) const override;
  double step_share(std::int64_t index, std::int64_t step) const override {
    const FusedCta& cta = ctas_[static_cast<std::size_t>(index)];
    return cta.finishes || step == 0 ? 1.0 : cta.tile_share(step - 1);
  }
  std::int64_t arrives_at(std::int64_t index) const override {
    const FusedCta& cta = ctas_[static_cast<std::size_t>(index)];
    return cta.finishes ? -1 : cta.group;
  }
  Waiting waits_for(std::int64_t index, std::int64_t step) const override {
    const FusedCta& cta = ctas_[static_cast<std::size_t>(index)];
    return cta.finishes && step == 1 ? waiting_of(cta) : Waiting{};
  }

 private:
  Waiting waiting_of(const FusedCta& cta) const;
  void append_node(std::int64_t node, std::int64_t g, std::vector<Access>& out) const;

  AttentionCase a_;
  FusedCut cut_;
  std::vector<FusedCta> ctas_;
};

// Parts that announce themselves are looked for: first a row's states, of segments and of spans,
// then, with most parts there, all that the merge reads.
Waiting NsaAttendTrace::waiting_of(const FusedCta& cta) const {
  Waiting waiting{cta.group, cut_.part_blocks};
  if (!cut_.announced) {
    return waiting;
  }
  const double rows = static_cast<double>(
      std::min<std::int64_t>((cta.end - cta.first) * a_.group_heads(), 2 * cut_.finish_warps));
  const double lines =
      static_cast<double>(fused_width(a_.shape.head_dim) * 4) / static_cast<double>(kLineBytes);
  const double spans =
      a_.reuse ? static_cast<double>(cut_.compressed_parts(a_.seen_compressed(cta.first))) : 0.0;
  waiting.requests = rows * (a_.reuse ? 2.0 : 1.0);
  waiting.nearly_all = (cut_.part_blocks * kAnnouncedSeenEighths + 7) / 8;
  waiting.late_requests =
      waiting.requests + rows * lines * (static_cast<double>(kFusedSegments) + spans);
  return waiting;
}

void NsaAttendTrace::append_node(std::int64_t node, std::int64_t g,
                                 std::vector<Access>& out) const {
  const std::int64_t d = a_.shape.head_dim;
  for (std::int64_t head = 0; head < a_.group_heads(); ++head) {
    const std::int64_t row = node * a_.shape.num_heads + g * a_.group_heads() + head;
    const std::int64_t spans = a_.reuse ? cut_.compressed_parts(a_.seen_compressed(node)) : 0;
    append_row_parts(a_, row, true, spans, AccessKind::kRead, out);
    if (cut_.announced) {  // left blank
      append_row_parts(a_, row, true, spans, AccessKind::kWrite, out);
    }
    if (!a_.reuse) {
      append_read(a_.at.compressed + static_cast<std::uint64_t>(row * d * 4), d * 4, out);
    }
    append_read(a_.at.gates + static_cast<std::uint64_t>(row * 3 * a_.element_bytes),
                3 * a_.element_bytes, out);
    append_write(a_.at.out + static_cast<std::uint64_t>(row * d * a_.element_bytes),
                 d * a_.element_bytes, out);
  }
  if (a_.reuse) {
    const std::int64_t n = a_.shape.nsa.sel_count;
    const std::uint64_t at = static_cast<std::uint64_t>((node * a_.shape.num_kv_heads + g) * n * 4);
    append_read(a_.at.indices_in + at, n * 4, out);
    append_write(a_.at.indices + at, n * 4, out);
  }
}

bool NsaAttendTrace::append_step(std::int64_t index, std::int64_t step,
                                 std::vector<Access>& out) const {
  const FusedCta& cta = ctas_[static_cast<std::size_t>(index)];
  if (!cta.finishes) {
    if (step == 0) {
      append_tables(a_, cta, out);
      return true;
    }
    append_tiles(a_, cta, step - 1, false, out);
    return step <= cta.steps();
  }
  if (step == 0) {
    append_read(a_.at.position + static_cast<std::uint64_t>(cta.first * 4),
                (cta.end - cta.first) * 4, out);
    return true;
  }
  for (std::int64_t node = cta.first; step == 1 && node < cta.end; ++node) {
    append_node(node, cta.g, out);
  }
  return step == 1;
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
