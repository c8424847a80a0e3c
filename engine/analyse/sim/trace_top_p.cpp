// top_p: a cluster a row of weights reads it once into shared memory, where it fits, and halves the
// interval of its threshold there; then every CTA of 256 tokens looks at all rows.
#include <algorithm>

#include "engine/analyse/sim/attention_access.h"
#include "engine/analyse/sim/dense_traces.h"

namespace versieve::engine {
namespace {

constexpr std::int64_t kFloat = 4;
constexpr std::int64_t kRowThreads = 512;
constexpr std::int64_t kUnionTokens = 256;          // of a CTA
constexpr std::int64_t kMostCtas = 16;              // of a row's cluster
constexpr std::int64_t kCtaWeights = 4096;          // at least, if there are more CTAs than one
constexpr std::int64_t kSharedWeights = 48 * 1024;  // that a CTA can keep
constexpr std::int64_t kHalvings = 40;              // where they stay in memory
constexpr std::int64_t kStepBytes = 8192;

std::int64_t ctas_of_row(std::int64_t length) {
  std::int64_t ctas = 1;
  while (ctas < kMostCtas && ctas * kCtaWeights < length) {
    ctas *= 2;
  }
  return ctas;
}

class ThresholdTrace final : public LaunchTrace {
 public:
  ThresholdTrace(const DenseCase& a, std::int64_t rows, std::int64_t ctas, std::int64_t part)
      : LaunchTrace({.path = "top_p",
                     .ctas = rows * ctas,
                     .cluster = ctas,
                     .threads = kRowThreads,
                     .registers = 40,
                     .shared_bytes = part <= kSharedWeights ? part * kFloat : 0}),
        a_(a),
        ctas_(ctas),
        part_(part) {}

  bool append_step(std::int64_t cta, std::int64_t step, std::vector<Access>& out) const override {
    const std::int64_t row = cta / ctas_;
    const std::int64_t first = cta % ctas_ * part_ * kFloat;
    const std::int64_t end = std::min(a_.context_len * kFloat, first + part_ * kFloat);
    const std::int64_t passes = part_ <= kSharedWeights ? 1 : kHalvings + 1;
    const std::int64_t steps = (part_ * kFloat + kStepBytes - 1) / kStepBytes;
    if (step < steps * passes) {
      const std::int64_t from = first + step % steps * kStepBytes;
      append_read(a_.at.weights + static_cast<std::uint64_t>(row * a_.capacity() * kFloat + from),
                  std::min(end, from + kStepBytes) - from, out);
      return true;
    }
    if (step == steps * passes && cta % ctas_ == 0) {
      append_write(a_.at.mass + static_cast<std::uint64_t>(row * kFloat), kFloat, out);
      return true;
    }
    return false;
  }

 private:
  DenseCase a_;
  std::int64_t ctas_, part_;
};

class UnionTrace final : public LaunchTrace {
 public:
  UnionTrace(const DenseCase& a, std::int64_t rows)
      : LaunchTrace({.path = "top_p",
                     .ctas = (a.context_len + kUnionTokens - 1) / kUnionTokens,
                     .threads = kUnionTokens,
                     .registers = 32}),
        a_(a),
        rows_(rows) {}

  bool append_step(std::int64_t cta, std::int64_t step, std::vector<Access>& out) const override {
    const std::int64_t first = cta * kUnionTokens;
    const std::int64_t bytes = (std::min(a_.context_len, first + kUnionTokens) - first) * kFloat;
    if (step == 0) {
      append_read(a_.at.mass, rows_ * kFloat, out);
      for (std::int64_t row = 0; row < rows_; ++row) {
        append_read(
            a_.at.weights + static_cast<std::uint64_t>((row * a_.capacity() + first) * kFloat),
            bytes, out);
      }
    } else if (step == 1) {
      append_write(a_.at.mask + static_cast<std::uint64_t>(first * kFloat), bytes, out);
    }
    return step <= 1;
  }

 private:
  DenseCase a_;
  std::int64_t rows_;
};

}  // namespace

void append_top_p(const DenseCase& a, std::int64_t rows, LaunchSequence& out) {
  const std::int64_t ctas = ctas_of_row(a.context_len);
  out.push_back(std::make_unique<ThresholdTrace>(a, rows, ctas, (a.context_len + ctas - 1) / ctas));
  out.push_back(std::make_unique<UnionTrace>(a, rows));
}

}  // namespace versieve::engine
