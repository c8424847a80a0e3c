// nsa_route: working CTAs attend shares of the compressed cache and keep softmax weights; the last
// CTAs, for one to four nodes of a KV head, wait for those of their queries, merge, and list the
// blocks.
#include <algorithm>

#include "engine/analyse/sim/attention_traces.h"
#include "engine/analyse/sim/fused_access.h"

namespace versieve::engine {
namespace {

class NsaRouteTrace final : public LaunchTrace {
 public:
  NsaRouteTrace(const AttentionCase& a, const FusedCut& cut)
      : LaunchTrace(fused_shape("nsa_route", a, cut)),
        a_(a),
        cut_(cut),
        ctas_(fused_ctas(a_, cut_, FusedLaunch::kRoute)) {}

  bool append_step(std::int64_t index, std::int64_t step, std::vector<Access>& out) const override;
  std::int64_t arrives_at(std::int64_t index) const override {
    const FusedCta& cta = ctas_[static_cast<std::size_t>(index)];
    return cta.finishes ? -1 : cta.group;
  }
  Waiting waits_for(std::int64_t index, std::int64_t step) const override {
    const FusedCta& cta = ctas_[static_cast<std::size_t>(index)];
    return cta.finishes && step == 1 ? Waiting{cta.group, cut_.part_blocks} : Waiting{};
  }

 private:
  bool append_finish(const FusedCta& cta, std::int64_t index, std::int64_t step,
                     std::vector<Access>& out) const;
  void append_merge(std::int64_t node, std::int64_t g, std::vector<Access>& out) const;
  bool chooses(std::int64_t node) const;
  void append_choice(std::int64_t node, std::int64_t g, std::vector<Access>& out) const;

  AttentionCase a_;
  FusedCut cut_;
  std::vector<FusedCta> ctas_;
};

void NsaRouteTrace::append_merge(std::int64_t node, std::int64_t g,
                                 std::vector<Access>& out) const {
  const std::int64_t d = a_.shape.head_dim;
  for (std::int64_t head = 0; head < a_.group_heads(); ++head) {
    const std::int64_t row = node * a_.shape.num_heads + g * a_.group_heads() + head;
    append_row_parts(a_, row, false, cut_.compressed_parts(a_.seen_compressed(node)),
                     AccessKind::kRead, out);
    append_write(a_.at.compressed + static_cast<std::uint64_t>(row * d * 4), d * 4, out);
  }
}

// A node chooses for itself, or for its group if it is the row of greatest position, the first one.
bool NsaRouteTrace::chooses(std::int64_t node) const {
  if (a_.group_mode != GroupMode::kApprox || a_.group_size == 1) {
    return true;
  }
  const std::int64_t first = node / a_.group_size * a_.group_size;
  const std::int64_t end = std::min(first + a_.group_size, a_.num_queries());
  const auto at = a_.position.begin();
  return std::max_element(at + first, at + end) - at == node;
}

// Weights of all slices that the node sees, and the reference of the one before each.
void NsaRouteTrace::append_choice(std::int64_t node, std::int64_t g,
                                  std::vector<Access>& out) const {
  const std::int64_t each = slice_weights(a_.shape.nsa) * 4;
  const std::int64_t slices = (a_.seen_compressed(node) + kFusedSlice - 1) / kFusedSlice;
  for (std::int64_t head = 0; head < a_.group_heads(); ++head) {
    const std::int64_t at =
        (node * a_.shape.num_heads + g * a_.group_heads() + head) * scratch_slices(a_);
    append_read(a_.at.weights + static_cast<std::uint64_t>(at * each), slices * each, out);
    append_read(a_.at.slices + static_cast<std::uint64_t>(at * 8), slices * 8, out);
    append_read(a_.at.slices + static_cast<std::uint64_t>(at * 8), slices * 8, out);
  }
  const std::int64_t n = a_.shape.nsa.sel_count;
  const bool shares = a_.group_mode == GroupMode::kApprox && a_.group_size > 1;
  const std::int64_t first = shares ? node / a_.group_size * a_.group_size : node;
  const std::int64_t end = shares ? std::min(first + a_.group_size, a_.num_queries()) : first + 1;
  for (std::int64_t row = first; row < end; ++row) {
    const std::int64_t pair = row * a_.shape.num_kv_heads + g;
    append_write(a_.at.indices + static_cast<std::uint64_t>(pair * n * 4), n * 4, out);
  }
}

bool NsaRouteTrace::append_finish(const FusedCta& cta, std::int64_t index, std::int64_t step,
                                  std::vector<Access>& out) const {
  switch (step) {
    case 0:
      append_read(a_.at.position + static_cast<std::uint64_t>(cta.first * 4),
                  (cta.end - cta.first) * 4, out);
      append_write(a_.at.spills + static_cast<std::uint64_t>(index % kSpillingCtas * kRouteSpills),
                   kRouteSpills, out);
      return true;
    case 1:
      for (std::int64_t node = cta.first; node < cta.end; ++node) {
        append_merge(node, cta.g, out);
      }
      return true;
    case 2:
      for (std::int64_t node = cta.first; node < cta.end; ++node) {
        if (chooses(node)) {
          append_choice(node, cta.g, out);
        }
      }
      return true;
    default:
      return false;
  }
}

bool NsaRouteTrace::append_step(std::int64_t index, std::int64_t step,
                                std::vector<Access>& out) const {
  const FusedCta& cta = ctas_[static_cast<std::size_t>(index)];
  if (cta.finishes) {
    return append_finish(cta, index, step, out);
  }
  if (step == 0) {
    append_tables(a_, cta, out);
    return true;
  }
  append_tiles(a_, cta, step - 1, true, out);
  return step <= cta.steps();
}

}  // namespace

std::unique_ptr<LaunchTrace> trace_nsa_route(const AttentionCase& a) {
  return std::make_unique<NsaRouteTrace>(a, fused_cut(a, FusedLaunch::kRoute));
}

}  // namespace versieve::engine
