#include "model/launches/top_logits.h"

#include <algorithm>

#include "model/launches/launch_parts.h"

namespace versieve {

namespace traffic {

// A logit of a list is compared, bounded and exponentiated; one of which the largest alone is
// wanted is compared, two an instruction (kernels/top_logits).
constexpr double kListed = 8.0, kCompared = 1.0;

Traffic top_logits(std::int64_t rows, std::int64_t vocab, std::int64_t k,
                   std::int64_t element_bytes) {
  return moved(TrafficTerm::kLogits, rows * vocab * element_bytes, rows * k * 2 * kF32Bytes,
               (k > 1 ? kListed : kCompared) * static_cast<double>(rows * vocab));
}

// A hash of two multiplications and two logarithms.
constexpr double kPerturbed = 40.0;

Traffic gumbel_noise(std::int64_t rows, std::int64_t vocab, std::int64_t element_bytes) {
  const std::int64_t logits = rows * vocab;
  return moved(TrafficTerm::kLogits, logits * element_bytes, logits * kF32Bytes,
               kPerturbed * static_cast<double>(logits));
}

Traffic gumbel_draw(std::int64_t rows, std::int64_t vocab, std::int64_t element_bytes) {
  const std::int64_t logits = rows * vocab;
  return moved(TrafficTerm::kLogits, logits * element_bytes, rows * kF32Bytes,
               (kPerturbed + kCompared) * static_cast<double>(logits));
}

}  // namespace traffic

// All logits are under way at once; a list then meets four times: floor, candidates, pushes, merge.
void add_top_logits(const Pass& p, std::int64_t vocab, std::int64_t k, Phase phase, StepWork& out) {
  constexpr double kMeetings = 4.0;
  const double steps = std::min(number(vocab) / kRowElementsPerStep, 1.0);
  out.add(streaming(LaunchKind::kTopLogits, phase, p.times,
                    traffic::top_logits(p.whole_rows(), vocab, k, p.element_bytes), p.rows,
                    k > 1 ? steps + kMeetings : steps));
}

// A block perturbs 1,024 logits of a row.
void add_gumbel_top(const Pass& p, std::int64_t vocab, std::int64_t k, Phase phase, StepWork& out) {
  const double blocks = std::ceil(number(vocab) / kRowElementsPerStep);
  out.add(streaming(LaunchKind::kGumbelNoise, phase, p.times,
                    traffic::gumbel_noise(p.whole_rows(), vocab, p.element_bytes), p.rows * blocks,
                    1.0));
  Pass perturbed = p;
  perturbed.element_bytes = kF32Bytes;
  add_top_logits(perturbed, vocab, k, phase, out);
}

// A block perturbs 1,024 logits of a row at least.
void add_gumbel_draw(const Pass& p, std::int64_t vocab, Phase phase, StepWork& out) {
  const double blocks = std::ceil(number(vocab) / kRowElementsPerStep);
  out.add(streaming(LaunchKind::kGumbelNoise, phase, p.times,
                    traffic::gumbel_draw(p.whole_rows(), vocab, p.element_bytes), p.rows * blocks,
                    1.0));
}

}  // namespace versieve
