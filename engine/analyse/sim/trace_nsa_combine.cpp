// nsa_combine: a CTA merges the spans of 512 output elements and adds the three gated branches.
#include <algorithm>

#include "engine/analyse/sim/attention_access.h"
#include "engine/analyse/sim/attention_traces.h"
#include "engine/analyse/sim/vanilla_cut.h"

namespace versieve::engine {
namespace {

class NsaCombineTrace final : public LaunchTrace {
 public:
  explicit NsaCombineTrace(const AttentionCase& a)
      : LaunchTrace({.path = "nsa_combine",
                     .ctas = (a.num_queries() * a.shape.q_width() + kCombineElements - 1) /
                             kCombineElements,
                     .threads = 128,
                     .registers = 40}),
        a_(a) {}

  bool append_step(std::int64_t cta, std::int64_t step, std::vector<Access>& out) const override;

 private:
  AttentionCase a_;
};

bool NsaCombineTrace::append_step(std::int64_t cta, std::int64_t step,
                                  std::vector<Access>& out) const {
  if (step > 0) {
    return false;
  }
  const std::int64_t d = a_.shape.head_dim;
  const std::int64_t elements = a_.num_queries() * a_.shape.q_width();
  const std::int64_t end = std::min(elements, (cta + 1) * kCombineElements);
  for (std::int64_t i = cta * kCombineElements; i < end; i = (i / d + 1) * d) {
    const std::int64_t row = i / d;
    const std::int64_t node = row / a_.shape.num_heads;
    const std::int64_t head = row % a_.shape.num_heads;
    const std::int64_t used = (a_.seen_compressed(node) + kVanillaSpan - 1) / kVanillaSpan;
    const std::int64_t pair = node * a_.shape.num_kv_heads + head / a_.group_heads();
    const std::int64_t first =
        pair * vanilla_spans(a_) * padded_heads(a_) + head % a_.group_heads();
    const std::int64_t length = std::min(end, (row + 1) * d) - i;
    if (used > 0) {
      out.push_back({.address = a_.at.states + static_cast<std::uint64_t>(first * 8),
                     .bytes = 8,
                     .count = static_cast<std::uint32_t>(used),
                     .stride = static_cast<std::uint64_t>(padded_heads(a_) * 8)});
      out.push_back(
          {.address = a_.at.partials + static_cast<std::uint64_t>((first * d + i % d) * 4),
           .bytes = static_cast<std::uint32_t>(length * 4),
           .count = static_cast<std::uint32_t>(used),
           .stride = static_cast<std::uint64_t>(padded_heads(a_) * d * 4)});
    }
    append_read(a_.at.selected + static_cast<std::uint64_t>(i * 4), length * 4, out);
    append_read(a_.at.window + static_cast<std::uint64_t>(i * 4), length * 4, out);
    append_read(a_.at.gates + static_cast<std::uint64_t>(row * 3 * a_.element_bytes),
                3 * a_.element_bytes, out);
    append_write(a_.at.out + static_cast<std::uint64_t>(i * a_.element_bytes),
                 length * a_.element_bytes, out);
  }
  append_read(a_.at.position, 4, out);
  return true;
}

}  // namespace

std::unique_ptr<LaunchTrace> trace_nsa_combine(const AttentionCase& a) {
  return std::make_unique<NsaCombineTrace>(a);
}

}  // namespace versieve::engine
