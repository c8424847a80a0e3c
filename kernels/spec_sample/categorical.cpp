#include "kernels/spec_sample/categorical.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

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

template <class T>
double least_of(const T* logits, std::int64_t vocab, double temperature,
                const Truncation& truncation) {
  return truncation.cuts() ? least_kept(logits, vocab, temperature, truncation)
                           : -std::numeric_limits<double>::infinity();
}

}  // namespace

template <class T>
double least_kept(const T* logits, std::int64_t vocab, double temperature,
                  const Truncation& truncation) {
  VERSIEVE_ASSERT(temperature > 0.0 && truncation.top_k >= 0 && truncation.top_p > 0.0 &&
                      truncation.min_p <= 1.0,
                  "a truncation keeps the likeliest token");
  std::vector<double> kept(static_cast<std::size_t>(vocab));
  std::transform(logits, logits + vocab, kept.begin(), [](T z) { return as_double(z); });
  std::sort(kept.begin(), kept.end(), std::greater<>());
  const double largest = kept[0];
  const auto weight = [&](double z) { return std::exp((z - largest) / temperature); };
  const auto keep_down_to = [&kept](std::size_t last) {
    while (last + 1 < kept.size() && kept[last + 1] == kept[last]) {
      ++last;
    }
    kept.resize(last + 1);
  };
  if (truncation.top_k > 0 && truncation.top_k < vocab) {
    keep_down_to(static_cast<std::size_t>(truncation.top_k) - 1);
  }
  if (truncation.top_p < 1.0) {
    double goal = 0.0;
    for (const double z : kept) {
      goal += weight(z);
    }
    goal *= truncation.top_p;
    std::size_t last = 0;
    for (double mass = weight(largest); mass < goal && last + 1 < kept.size();) {
      mass += weight(kept[++last]);
    }
    keep_down_to(last);
  }
  while (weight(kept.back()) < truncation.min_p) {
    kept.pop_back();
  }
  return kept.back();
}

template <class T>
std::vector<double> softmax_row(const T* logits, std::int64_t vocab, double temperature,
                                const Truncation& truncation) {
  VERSIEVE_ASSERT(vocab >= 1 && temperature >= 0.0, "a distribution needs a vocabulary");
  std::vector<double> p(static_cast<std::size_t>(vocab), 0.0);
  const std::int64_t best = lowest_argmax(logits, vocab);
  if (temperature == 0.0) {
    p[static_cast<std::size_t>(best)] = 1.0;
    return p;
  }
  const double largest = as_double(logits[best]);
  const double least = least_of(logits, vocab, temperature, truncation);
  for (std::size_t x = 0; x < p.size(); ++x) {
    const double z = as_double(logits[x]);
    p[x] = z >= least ? std::exp((z - largest) / temperature) : 0.0;
  }
  const double sum = sum_of(p);
  for (double& weight : p) {
    weight /= sum;
  }
  return p;
}

template <class T>
std::vector<double> sigmoid_row(const T* logits, std::int64_t vocab, SigmoidScale scale,
                                const Truncation& truncation) {
  std::vector<double> weights(static_cast<std::size_t>(vocab));
  const double least = least_of(logits, vocab, scale.temperature, truncation);
  for (std::size_t x = 0; x < weights.size(); ++x) {
    const double z = as_double(logits[x]);
    const double a = (z / scale.temperature - scale.alpha) / (scale.beta - scale.alpha);
    weights[x] = z >= least ? 1.0 / (1.0 + std::exp(-a)) : 0.0;
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

template double least_kept(const double*, std::int64_t, double, const Truncation&);
template double least_kept(const float*, std::int64_t, double, const Truncation&);
template double least_kept(const Bf16*, std::int64_t, double, const Truncation&);
template double least_kept(const F16*, std::int64_t, double, const Truncation&);
template std::vector<double> softmax_row(const double*, std::int64_t, double, const Truncation&);
template std::vector<double> softmax_row(const float*, std::int64_t, double, const Truncation&);
template std::vector<double> softmax_row(const Bf16*, std::int64_t, double, const Truncation&);
template std::vector<double> softmax_row(const F16*, std::int64_t, double, const Truncation&);
template std::vector<double> sigmoid_row(const double*, std::int64_t, SigmoidScale,
                                         const Truncation&);
template std::vector<double> sigmoid_row(const float*, std::int64_t, SigmoidScale,
                                         const Truncation&);
template std::vector<double> sigmoid_row(const Bf16*, std::int64_t, SigmoidScale,
                                         const Truncation&);
template std::vector<double> sigmoid_row(const F16*, std::int64_t, SigmoidScale, const Truncation&);

}  // namespace versieve::kernels
