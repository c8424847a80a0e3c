// ReSA's launches one by one (form=vanilla): resa_score, resa_select, resa_attend, resa_combine.
#include <algorithm>

#include "engine/analyse/sim/attention_access.h"
#include "engine/analyse/sim/dense_traces.h"
#include "model/launches/flash_decode.h"

namespace versieve::engine {
namespace {

constexpr std::int64_t kFloat = 4;
constexpr std::int64_t kRankBytes = 4;        // a block's order key
constexpr std::int64_t kScoreCtas = 132 * 4;  // at most
constexpr std::int64_t kScoreBytes = 4096;    // of block keys that a CTA asks for together
constexpr std::int64_t kSelectThreads = 1024;
constexpr std::int64_t kTile = 64;  // tokens that a CTA takes at once

std::int64_t ceil_of(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}
std::int64_t active_blocks(const DenseCase& a) {
  return static_cast<std::int64_t>(a.blocks.size()) / a.shape.num_kv_heads;
}

// Each CTA a share of the blocks, all KV heads of them; a rank is stored alone.
class ScoreTrace final : public LaunchTrace {
 public:
  explicit ScoreTrace(const DenseCase& a)
      : LaunchTrace({.path = "resa_score",
                     .ctas = std::clamp<std::int64_t>(
                         ceil_of(a.scored_blocks() * a.token_bytes(), kScoreBytes), 1, kScoreCtas),
                     .threads = 256,
                     .registers = 64,
                     .shared_bytes = a.shape.kv_width() * kFloat}),
        a_(a) {}

  bool append_step(std::int64_t cta, std::int64_t step, std::vector<Access>& out) const override {
    const std::int64_t bytes = a_.scored_blocks() * a_.token_bytes();
    const std::int64_t ctas = shape().ctas;
    const std::int64_t pieces = ceil_of(bytes, kScoreBytes);
    const std::int64_t piece = step * ctas + cta;  // a wave of pieces after the other
    if (piece >= pieces) {
      return false;
    }
    if (step == 0) {
      append_read(a_.at.q, a_.shape.q_width() * a_.element_bytes, out);
    }
    const std::int64_t first = piece * kScoreBytes;
    const std::int64_t end = std::min(bytes, first + kScoreBytes);
    append_read(a_.at.kmin + static_cast<std::uint64_t>(first), end - first, out);
    append_read(a_.at.kmax + static_cast<std::uint64_t>(first), end - first, out);
    const std::int64_t from = first / a_.row_bytes();
    for (std::int64_t row = from; row < end / a_.row_bytes(); ++row) {
      const std::int64_t at =
          row % a_.shape.num_kv_heads * a_.all_blocks() + row / a_.shape.num_kv_heads;
      append_write(a_.at.scores + static_cast<std::uint64_t>(at * kRankBytes), kRankBytes, out);
    }
    return true;
  }

 private:
  DenseCase a_;
};

// A chunk of a KV head's list.
class AttendTrace final : public LaunchTrace {
 public:
  AttendTrace(const DenseCase& a, std::int64_t tokens, std::int64_t chunks)
      : LaunchTrace({.path = "resa_attend",
                     .ctas = chunks * a.shape.num_kv_heads,
                     .threads = 128 * ceil_of(a.group_heads(), 4),
                     .registers = 96,
                     .shared_bytes = 8 * 1024,
                     .step_cycles = 600.0}),
        a_(a),
        tokens_(tokens),
        chunks_(chunks),
        chunk_(static_cast<std::int64_t>(flash_chunk_keys(static_cast<double>(tokens)))) {}

  bool append_step(std::int64_t cta, std::int64_t step, std::vector<Access>& out) const override {
    const std::int64_t chunk = cta % chunks_;
    const std::int64_t g = cta / chunks_;
    const std::int64_t first = chunk * chunk_ + step * kTile;
    const std::int64_t end = std::min(tokens_, (chunk + 1) * chunk_);
    if (first >= end) {
      return false;
    }
    if (step == 0) {
      append_read(a_.at.q + static_cast<std::uint64_t>(g * a_.group_heads() * a_.row_bytes()),
                  a_.group_heads() * a_.row_bytes(), out);
    }
    append_listed_tokens(a_, g, first, std::min(end, first + kTile), AccessKind::kRead, out);
    for (std::int64_t head = 0; first + kTile >= end && head < a_.group_heads(); ++head) {
      const std::int64_t at = (g * a_.group_heads() + head) * chunks_ + chunk;
      const std::int64_t bytes = a_.shape.head_dim * kFloat;
      append_write(a_.at.values + static_cast<std::uint64_t>(at * bytes), bytes, out);
      append_write(a_.at.states + static_cast<std::uint64_t>(at * 2 * kFloat), 2 * kFloat, out);
    }
    return true;
  }

 private:
  DenseCase a_;
  std::int64_t tokens_, chunks_, chunk_;
};

}  // namespace

void append_resa_launches(const DenseCase& a, LaunchSequence& out) {
  const std::int64_t row = a.all_blocks() * kRankBytes;
  const std::int64_t list = active_blocks(a) * kRankBytes;
  const std::int64_t tokens = listed_tokens(a);
  const std::int64_t chunks = static_cast<std::int64_t>(flash_chunks(static_cast<double>(tokens)));
  const std::int64_t values = chunks * a.shape.head_dim * kFloat;
  const std::int64_t states = chunks * 2 * kFloat;
  out.push_back(std::make_unique<ScoreTrace>(a));
  out.push_back(trace_rows({.path = "resa_select",
                            .rows = a.shape.num_kv_heads,
                            .threads = kSelectThreads,
                            .reads = {{a.at.scores, a.scored_blocks() * kRankBytes, row}},
                            .writes = {{a.at.indices, list, row}}}));
  out.push_back(std::make_unique<AttendTrace>(a, tokens, chunks));
  out.push_back(trace_rows({.path = "resa_combine",
                            .rows = a.shape.num_heads,
                            .threads = 8 * a.shape.head_dim,
                            .reads = {{a.at.values, values, values}, {a.at.states, states, states}},
                            .writes = {{a.at.out, a.row_bytes(), a.row_bytes()}}}));
}

}  // namespace versieve::engine
