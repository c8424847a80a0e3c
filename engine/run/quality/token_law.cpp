#include "engine/run/quality/token_law.h"

#include <algorithm>
#include <cmath>

#include "kernels/ops.h"
#include "kernels/spec_sample/categorical.h"
#include "model/words/assert.h"

namespace versieve::engine {
namespace {

// What `draft` proposes and `target` tests, both as sigmoids; `softmax` is the target's.
std::vector<double> yielded(const std::vector<double>& proposed, const std::vector<double>& target,
                            const std::vector<double>& draft, const std::vector<double>& softmax) {
  std::vector<double> law(target.size());
  double kept = 0.0, residual = 0.0;
  for (std::size_t x = 0; x < law.size(); ++x) {
    law[x] = proposed[x] * std::min(1.0, target[x] / draft[x]);
    kept += law[x];
    residual += std::max(0.0, target[x] - draft[x]);
  }
  const double redrawn = std::max(0.0, 1.0 - kept);
  for (std::size_t x = 0; x < law.size(); ++x) {
    law[x] +=
        redrawn * (residual > 0.0 ? std::max(0.0, target[x] - draft[x]) / residual : softmax[x]);
  }
  return law;
}

}  // namespace

template <class T>
Law law_of(std::span<const T> logits) {
  double most = -INFINITY;
  for (const T logit : logits) {
    most = std::max(most, kernels::as_double(logit));
  }
  double sum = 0.0;
  for (const T logit : logits) {
    sum += std::exp(kernels::as_double(logit) - most);
  }
  const double whole = most + std::log(sum);
  Law law(logits.size());
  for (std::size_t x = 0; x < law.size(); ++x) {
    law[x] = static_cast<float>(kernels::as_double(logits[x]) - whole);
  }
  return law;
}

template <class T>
Law sigmoid_law(std::span<const T> target, std::span<const T> draft) {
  VERSIEVE_ASSERT(target.size() == draft.size(), "target and draft speak of the same tokens");
  const std::int64_t vocab = static_cast<std::int64_t>(target.size());
  const kernels::SpecSampleParams<T> usual;
  const kernels::SigmoidScale scale{.temperature = 1.0, .alpha = usual.alpha, .beta = usual.beta};
  const std::vector<double> mixed = yielded(kernels::softmax_row(draft.data(), vocab, 1.0),
                                            kernels::sigmoid_row(target.data(), vocab, scale),
                                            kernels::sigmoid_row(draft.data(), vocab, scale),
                                            kernels::softmax_row(target.data(), vocab, 1.0));
  Law law(mixed.size());
  for (std::size_t x = 0; x < law.size(); ++x) {
    law[x] = static_cast<float>(std::log(mixed[x]));
  }
  return law;
}

TokenScore score_token(const Law& law, std::int32_t token, const Law* exact) {
  TokenScore score{.loss = -static_cast<double>(law[static_cast<std::size_t>(token)])};
  score.likeliest =
      static_cast<std::int32_t>(std::max_element(law.begin(), law.end()) - law.begin());
  if (exact != nullptr) {
    for (std::size_t x = 0; x < law.size(); ++x) {
      const double own = static_cast<double>((*exact)[x]);
      const double p = std::exp(own);
      score.divergence += p > 0.0 ? p * (own - static_cast<double>(law[x])) : 0.0;
    }
  }
  return score;
}

template Law law_of(std::span<const double>);
template Law law_of(std::span<const float>);
template Law law_of(std::span<const Bf16>);
template Law sigmoid_law(std::span<const double>, std::span<const double>);
template Law sigmoid_law(std::span<const float>, std::span<const float>);
template Law sigmoid_law(std::span<const Bf16>, std::span<const Bf16>);

}  // namespace versieve::engine
