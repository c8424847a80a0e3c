#include "kernels/spec_sample/categorical.h"

#include <algorithm>
#include <cmath>

#include "model/words/assert.h"

namespace versieve::kernels {
namespace {

template <class T>
std::int64_t lowest_argmax(const T* logits, std::int64_t vocab) {
  std::int64_t best = 0;
  for (std::int64_t x = 1; x < vocab; ++x) {
    if (as_double(logits[x]) > as_double(logits[best])) {
      best = x;
    }
  }
  return best;
}

}  // namespace

template <class T>
std::vector<double> softmax_row(const T* logits, std::int64_t vocab, double temperature) {
  VERSIEVE_ASSERT(vocab >= 1 && temperature >= 0.0, "a distribution needs a vocabulary");
  std::vector<double> p(static_cast<std::size_t>(vocab), 0.0);
  const std::int64_t best = lowest_argmax(logits, vocab);
  if (temperature == 0.0) {
    p[static_cast<std::size_t>(best)] = 1.0;
    return p;
  }
  const double largest = as_double(logits[best]);
  for (std::size_t x = 0; x < p.size(); ++x) {
    p[x] = std::exp((as_double(logits[x]) - largest) / temperature);
  }
  const double sum = sum_of(p);
  for (double& weight : p) {
    weight /= sum;
  }
  return p;
}

template <class T>
std::vector<double> sigmoid_row(const T* logits, std::int64_t vocab, SigmoidScale scale) {
  std::vector<double> weights(static_cast<std::size_t>(vocab));
  for (std::size_t x = 0; x < weights.size(); ++x) {
    const double z = as_double(logits[x]) / scale.temperature;
    weights[x] = 1.0 / (1.0 + std::exp(-(z - scale.alpha) / (scale.beta - scale.alpha)));
  }
  return weights;
}

double sum_of(const std::vector<double>& weights) {
  double sum = 0.0;
  for (const double weight : weights) {
    sum += weight;
  }
  return sum;
}

std::int32_t draw(const std::vector<double>& weights, double u) {
  const double target = u * sum_of(weights);
  double running = 0.0;
  std::int32_t last_positive = -1;
  for (std::size_t x = 0; x < weights.size(); ++x) {
    running += weights[x];
    if (weights[x] > 0.0) {
      last_positive = static_cast<std::int32_t>(x);
      if (running > target) {
        return last_positive;
      }
    }
  }
  return last_positive;
}

template std::vector<double> softmax_row(const double*, std::int64_t, double);
template std::vector<double> softmax_row(const float*, std::int64_t, double);
template std::vector<double> softmax_row(const Bf16*, std::int64_t, double);
template std::vector<double> sigmoid_row(const double*, std::int64_t, SigmoidScale);
template std::vector<double> sigmoid_row(const float*, std::int64_t, SigmoidScale);
template std::vector<double> sigmoid_row(const Bf16*, std::int64_t, SigmoidScale);

}  // namespace versieve::kernels
