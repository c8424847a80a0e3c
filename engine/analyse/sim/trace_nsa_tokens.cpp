// nsa_selected and nsa_window: a CTA (node, KV head) reads the tokens of its chosen blocks, or of
// its window, in chunks of 64 aligned positions.
#include <algorithm>

#include "engine/analyse/sim/attention_access.h"
#include "engine/analyse/sim/attention_traces.h"
#include "engine/analyse/sim/vanilla_cut.h"

namespace versieve::engine {
namespace {

class NsaTokensTrace final : public LaunchTrace {
 public:
  NsaTokensTrace(const AttentionCase& a, bool window)
      : LaunchTrace({.path = window ? "nsa_window" : "nsa_selected",
                     .ctas = a.num_queries() * a.shape.num_kv_heads,
                     .threads = attention_threads(a),
                     .registers = kAttentionRegisters,
                     .step_cycles = kChunkCycles,
                     .issue_cycles = kChunkIssueCycles}),
        a_(a),
        window_(window) {}

  bool append_step(std::int64_t cta, std::int64_t step, std::vector<Access>& out) const override;

 private:
  // Positions [first, last] of chunk `chunk` of the node; an empty range past the last chunk.
  bool chunk_of(std::int64_t node, std::int64_t g, std::int64_t chunk, std::int64_t& first,
                std::int64_t& last) const;
  AttentionCase a_;
  bool window_;
};

bool NsaTokensTrace::chunk_of(std::int64_t node, std::int64_t g, std::int64_t chunk,
                              std::int64_t& first, std::int64_t& last) const {
  const NsaGeometry& nsa = a_.shape.nsa;
  const std::int64_t t = a_.position[static_cast<std::size_t>(node)];
  std::int64_t from;
  std::int64_t to;
  if (window_) {
    from = std::max<std::int64_t>(0, t - nsa.window + 1);
    to = t;
  } else {
    const std::int64_t parts = (nsa.sel_block + kVanillaChunk - 1) / kVanillaChunk;
    const std::int64_t rank = chunk / parts;
    chunk %= parts;
    const std::size_t at =
        static_cast<std::size_t>((node * a_.shape.num_kv_heads + g) * nsa.sel_count + rank);
    if (rank >= nsa.sel_count || a_.indices[at] < 0) {
      return false;
    }
    from = a_.indices[at] * nsa.sel_block;
    to = std::min(from + nsa.sel_block - 1, t);
  }
  const std::int64_t base = from / kVanillaChunk * kVanillaChunk + chunk * kVanillaChunk;
  first = std::max(from, base);
  last = std::min(to, base + kVanillaChunk - 1);
  return window_ ? base <= to && from <= to : true;
}

bool NsaTokensTrace::append_step(std::int64_t cta, std::int64_t step,
                                 std::vector<Access>& out) const {
  const std::int64_t node = cta % a_.num_queries();
  const std::int64_t g = cta / a_.num_queries();
  const std::int64_t row = node * a_.shape.num_heads + g * a_.group_heads();
  const std::int64_t n = a_.shape.nsa.sel_count;
  if (step == 0) {
    append_read(a_.at.position + static_cast<std::uint64_t>(node * 4), 4, out);
    append_read(a_.at.parent, (node + 1) * 4, out);
    append_read(a_.at.q + static_cast<std::uint64_t>(row * a_.row_bytes()),
                a_.group_heads() * a_.row_bytes(), out);
    if (!window_) {
      append_read(
          a_.at.indices + static_cast<std::uint64_t>((node * a_.shape.num_kv_heads + g) * n * 4),
          n * 4, out);
    }
    return true;
  }
  std::int64_t first = 0;
  std::int64_t last = -1;
  if (chunk_of(node, g, step - 1, first, last)) {
    append_path_tokens(a_, node, g, first, last, AccessKind::kRead, out);
    return true;
  }
  if (step == 1 || chunk_of(node, g, step - 2, first, last)) {
    append_write((window_ ? a_.at.window : a_.at.selected) +
                     static_cast<std::uint64_t>(row * a_.shape.head_dim * 4),
                 a_.group_heads() * a_.shape.head_dim * 4, out);
    return true;
  }
  return false;
}

}  // namespace

std::unique_ptr<LaunchTrace> trace_nsa_selected(const AttentionCase& a) {
  return std::make_unique<NsaTokensTrace>(a, false);
}
std::unique_ptr<LaunchTrace> trace_nsa_window(const AttentionCase& a) {
  return std::make_unique<NsaTokensTrace>(a, true);
}

}  // namespace versieve::engine
