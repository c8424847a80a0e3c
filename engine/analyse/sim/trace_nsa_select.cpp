// nsa_select: a CTA (node, KV head) reads the scores of its router and writes n indices.
#include <algorithm>

#include "engine/analyse/sim/attention_access.h"
#include "engine/analyse/sim/attention_traces.h"
#include "engine/analyse/sim/vanilla_cut.h"

namespace versieve::engine {
namespace {

class NsaSelectTrace final : public LaunchTrace {
 public:
  explicit NsaSelectTrace(const AttentionCase& a)
      : LaunchTrace({.path = "nsa_select",
                     .ctas = a.num_queries() * a.shape.num_kv_heads,
                     .threads = 256,
                     .registers = 40,
                     .shared_bytes = (a.num_blocks() + kScoreTile) * 4,
                     .step_cycles = 2000.0,
                     .steps_in_flight = 1.0}),
        a_(a) {}

  bool append_step(std::int64_t cta, std::int64_t step, std::vector<Access>& out) const override;

 private:
  std::int64_t router_of(std::int64_t node) const;
  AttentionCase a_;
};

// The node whose scores choose: itself, or its approximate group's row of greatest position.
std::int64_t NsaSelectTrace::router_of(std::int64_t node) const {
  if (a_.group_mode == GroupMode::kExact) {
    return node;
  }
  const std::int64_t first = node / a_.group_size * a_.group_size;
  const std::int64_t end = std::min(first + a_.group_size, a_.num_queries());
  return std::max_element(a_.position.begin() + first, a_.position.begin() + end) -
         a_.position.begin();
}

bool NsaSelectTrace::append_step(std::int64_t cta, std::int64_t step,
                                 std::vector<Access>& out) const {
  const std::int64_t node = cta % a_.num_queries();
  const std::int64_t g = cta / a_.num_queries();
  const std::int64_t router = router_of(node);
  const std::int64_t pair = router * a_.shape.num_kv_heads + g;
  const std::int64_t count = a_.seen_compressed(router);
  const std::int64_t padded = padded_heads(a_);
  const std::int64_t tiles = (count + kScoreTile - 1) / kScoreTile;
  if (step == 0) {
    append_read(a_.at.position, a_.num_queries() * 4, out);
    append_read(a_.at.states + static_cast<std::uint64_t>(pair * vanilla_spans(a_) * padded * 8),
                (count + kVanillaSpan - 1) / kVanillaSpan * padded * 8, out);
    return true;
  }
  if (step <= tiles) {
    const std::int64_t from = (step - 1) * kScoreTile;
    append_read(
        a_.at.scores + static_cast<std::uint64_t>((pair * a_.max_compressed() + from) * padded * 4),
        (std::min(count, from + kScoreTile) - from) * padded * 4, out);
    return true;
  }
  if (step == tiles + 1) {
    const std::int64_t n = a_.shape.nsa.sel_count;
    append_write(
        a_.at.indices + static_cast<std::uint64_t>((node * a_.shape.num_kv_heads + g) * n * 4),
        n * 4, out);
    return true;
  }
  return false;
}

}  // namespace

std::unique_ptr<LaunchTrace> trace_nsa_select(const AttentionCase& a) {
  return std::make_unique<NsaSelectTrace>(a);
}

}  // namespace versieve::engine
