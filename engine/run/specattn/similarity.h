// How alike the attention of two models' layers is on given texts (SpecAttn, equation 4): the mean
// over positions of -KL(target layer || draft layer), attention averaged over heads.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/run/model/target.h"

namespace versieve::engine {

// sum over k of a log(a / max(b, 1e-12)), natural log; terms with a = 0 are 0.
template <class S>
double kl_divergence(std::span<const S> a, std::span<const S> b);

template <class T>
class AttentionSimilarity {
 public:
  // Both dense and of one vocabulary; they outlive this.
  AttentionSimilarity(kernels::Ops<T>& ops, Target<T>& draft, Target<T>& target);

  // Adds positions stride - 1, 2 stride - 1, ... of the text from `first` on.
  void add(std::span<const std::int32_t> text, std::int64_t stride, std::int64_t first);
  std::int64_t positions() const { return positions_; }
  // [draft layers, target layers]: the means. REQUIRES: positions() >= 1.
  std::vector<double> similarity() const;

 private:
  std::vector<kernels::SumOf<T>> weights_after(Target<T>& model,
                                               std::span<const std::int32_t> tokens,
                                               std::int64_t length);

  kernels::Ops<T>* ops_;
  Target<T>* draft_;
  Target<T>* target_;
  std::int64_t positions_ = 0;
  std::vector<double> sums_;  // [draft layers, target layers]
};

}  // namespace versieve::engine
