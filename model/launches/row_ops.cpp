#include "model/launches/row_ops.h"

#include "model/launches/launch_parts.h"
#include "model/launches/rope_append.h"

namespace versieve {

namespace traffic {

Traffic rms_norm(std::int64_t n, std::int64_t k, std::int64_t element_bytes) {
  Traffic t = moved(TrafficTerm::kActivations, n * k * element_bytes, n * k * element_bytes,
                    4.0 * static_cast<double>(n * k));
  t.read(TrafficTerm::kWeights, static_cast<double>(k * element_bytes));
  return t;
}

Traffic kept_rows(std::int64_t n, std::int64_t k, std::int64_t element_bytes) {
  return moved(TrafficTerm::kActivations, 0, n * k * element_bytes, 0.0);
}

Traffic elementwise(std::int64_t count, std::int64_t inputs, std::int64_t element_bytes,
                    double flops_per_element) {
  return moved(TrafficTerm::kActivations, inputs * count * element_bytes, count * element_bytes,
               flops_per_element * static_cast<double>(count));
}

Traffic copy_rows(std::int64_t rows, std::int64_t width, std::int64_t element_bytes,
                  TrafficTerm term) {
  return moved(term, rows * width * element_bytes, rows * width * element_bytes, 0.0);
}

}  // namespace traffic

void add_embed(const Pass& p, std::int64_t halves, std::int64_t width, bool keeps,
               std::int64_t head_dim, StepWork& out) {
  Traffic t = traffic::rope_table(p.whole_rows(), head_dim, sizeof(float));
  for (std::int64_t i = 0; i < halves; ++i) {
    t += traffic::rms_norm(p.whole_rows(), width, p.element_bytes);
  }
  if (keeps) {
    t += traffic::kept_rows(p.whole_rows(), width, p.element_bytes);
  }
  out.add(streaming(LaunchKind::kRmsNorm, p.other, p.times, t, p.rows * number(halves),
                    number(width) / kRowElementsPerStep));
}

void add_copy(const Pass& p, double times, std::int64_t width, TrafficTerm term, StepWork& out) {
  out.add(streaming(LaunchKind::kCopyRows, p.other, times * p.times,
                    traffic::copy_rows(p.whole_rows(), width, p.element_bytes, term), p.rows,
                    number(width) / kRowElementsPerStep));
}

}  // namespace versieve
