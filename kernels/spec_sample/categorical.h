// Softmax and the draw from weights on the CPU, in double: what the samplers of a chain
// (spec_sample) and of a tree (tree_sample) share. Sums run in index order.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/common/bf16.h"
#include "kernels/common/f16.h"
#include "kernels/ops.h"

namespace versieve::kernels {

inline double as_double(double value) {
  return value;
}
inline double as_double(float value) {
  return static_cast<double>(value);
}
inline double as_double(Bf16 value) {
  return static_cast<double>(to_float(value));
}

inline double as_double(F16 value) {
  return static_cast<double>(to_float(value));
}

// The least logit of a row that a truncation keeps. REQUIRES: as softmax_row, temperature > 0,
// top_k >= 0, top_p in (0, 1], min_p in [0, 1].
template <class T>
double least_kept(const T* logits, std::int64_t vocab, double temperature,
                  const Truncation& truncation);

// softmax(logits / temperature) of what a truncation keeps; temperature 0 is one-hot at the lowest
// argmax. REQUIRES: at least one logit above -infinity, no NaN, no +infinity.
template <class T>
std::vector<double> softmax_row(const T* logits, std::int64_t vocab, double temperature,
                                const Truncation& truncation = {});

// sigmoid((logits / temperature - alpha) / (beta - alpha)), which are not normalised (Optimized
// Speculative Sampling, section 3.2.2); 0 where a truncation keeps nothing. REQUIRES: temperature >
// 0, alpha < beta.
struct SigmoidScale {
  double temperature = 1.0, alpha = 0.0, beta = 1.0;
};
template <class T>
std::vector<double> sigmoid_row(const T* logits, std::int64_t vocab, SigmoidScale scale,
                                const Truncation& truncation = {});

double sum_of(const std::vector<double>& weights);

// The lowest x whose running sum exceeds u times the whole sum; where rounding leaves none, the
// last positive one; -1 if every weight is 0. u in [0, 1).
std::int32_t draw(const std::vector<double>& weights, double u);

}  // namespace versieve::kernels
