// nsa_compressed: a CTA (node, KV head, span of 512 compressed tokens) reads the span's keys and
// values in chunks of 64 and keeps scores, states and partial outputs.
#include <algorithm>

#include "engine/analyse/sim/attention_access.h"
#include "engine/analyse/sim/attention_traces.h"
#include "engine/analyse/sim/vanilla_cut.h"

namespace versieve::engine {
namespace {

constexpr std::int64_t kScoreTokens = 4;

class NsaCompressedTrace final : public LaunchTrace {
 public:
  explicit NsaCompressedTrace(const AttentionCase& a)
      : LaunchTrace({.path = "nsa_compressed",
                     .ctas = a.num_queries() * a.shape.num_kv_heads * vanilla_spans(a),
                     .threads = attention_threads(a),
                     .registers = kAttentionRegisters,
                     .step_cycles = kChunkCycles,
                     .issue_cycles = kChunkIssueCycles}),
        a_(a) {}

  bool append_step(std::int64_t cta, std::int64_t step, std::vector<Access>& out) const override;

 private:
  AttentionCase a_;
};

bool NsaCompressedTrace::append_step(std::int64_t cta, std::int64_t step,
                                     std::vector<Access>& out) const {
  const std::int64_t node = cta % a_.num_queries();
  const std::int64_t g = cta / a_.num_queries() % a_.shape.num_kv_heads;
  const std::int64_t span = cta / a_.num_queries() / a_.shape.num_kv_heads;
  const std::int64_t first = span * kVanillaSpan;
  const std::int64_t end = std::min(a_.seen_compressed(node), first + kVanillaSpan);
  const std::int64_t chunks =
      std::max<std::int64_t>(0, end - first + kVanillaChunk - 1) / kVanillaChunk;
  const std::int64_t pair = node * a_.shape.num_kv_heads + g;
  const std::int64_t heads = a_.group_heads();
  const std::int64_t d = a_.shape.head_dim;
  if (step == 0) {
    append_read(a_.at.position + static_cast<std::uint64_t>(node * 4), 4, out);
    if (chunks > 0) {
      append_read(a_.at.q + static_cast<std::uint64_t>((node * a_.shape.num_heads + g * heads) *
                                                       a_.row_bytes()),
                  heads * a_.row_bytes(), out);
    }
    return true;
  }
  if (step <= chunks) {
    const std::int64_t from = first + (step - 1) * kVanillaChunk;
    const std::int64_t to = std::min(end, from + kVanillaChunk);
    append_path_compressed(a_, node, g, from, to, AccessKind::kRead, out);
    if (!a_.reuse) {  // a warp stores four tokens' scores at once
      const std::int64_t bytes = kScoreTokens * padded_heads(a_) * 4;
      out.push_back(
          {.address =
               a_.at.scores + static_cast<std::uint64_t>((pair * a_.max_compressed() + from) *
                                                         padded_heads(a_) * 4),
           .bytes = static_cast<std::uint32_t>(bytes),
           .count = static_cast<std::uint32_t>((to - from + kScoreTokens - 1) / kScoreTokens),
           .stride = static_cast<std::uint64_t>(bytes),
           .kind = AccessKind::kWrite});
    }
    return true;
  }
  if (step == chunks + 1 && chunks > 0) {
    const std::int64_t row = (pair * vanilla_spans(a_) + span) * padded_heads(a_);
    append_write(a_.at.partials + static_cast<std::uint64_t>(row * d * 4), heads * d * 4, out);
    append_write(a_.at.states + static_cast<std::uint64_t>(row * 8), heads * 8, out);
    return true;
  }
  return false;
}

}  // namespace

std::unique_ptr<LaunchTrace> trace_nsa_compressed(const AttentionCase& a) {
  return std::make_unique<NsaCompressedTrace>(a);
}

}  // namespace versieve::engine
