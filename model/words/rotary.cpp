#include "model/words/rotary.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "model/words/assert.h"

namespace versieve {
namespace {

constexpr double kTurn = 2.0 * std::numbers::pi;

// Pairs whose wave fits the original positions more than high_freq_factor times stay, those whose
// wave fits less than low_freq_factor times are slowed down, and between them both are mixed.
double llama3(double frequency, const RopeScaling& s) {
  const double turns = s.original_positions * frequency / kTurn;
  if (turns > s.high_freq_factor) {
    return frequency;
  }
  if (turns < s.low_freq_factor) {
    return frequency / s.factor;
  }
  const double smooth = (turns - s.low_freq_factor) / (s.high_freq_factor - s.low_freq_factor);
  return (1.0 - smooth) * frequency / s.factor + smooth * frequency;
}

// YaRN's ramp over the pairs, section 3.2: 0 where they stay, 1 where they are slowed down.
class YarnRamp {
 public:
  YarnRamp(double theta, std::int64_t head_dim, const RopeScaling& s) {
    const double d = static_cast<double>(head_dim);
    const auto pair_of = [&](double turns) {
      return d * std::log(s.original_positions / (turns * kTurn)) / (2.0 * std::log(theta));
    };
    const double low = pair_of(s.beta_fast);
    const double high = pair_of(s.beta_slow);
    low_ = std::max(s.truncates ? std::floor(low) : low, 0.0);
    high_ = std::min(s.truncates ? std::ceil(high) : high, d - 1.0);
    if (low_ == high_) {
      high_ += 0.001;
    }
  }
  double operator()(std::int64_t pair) const {
    return std::clamp((static_cast<double>(pair) - low_) / (high_ - low_), 0.0, 1.0);
  }

 private:
  double low_, high_;
};

}  // namespace

const char* name_of(RopeKind kind) {
  switch (kind) {
    case RopeKind::kDefault:
      return "default";
    case RopeKind::kLinear:
      return "linear";
    case RopeKind::kLlama3:
      return "llama3";
    case RopeKind::kYarn:
      return "yarn";
  }
  VERSIEVE_ASSERT(false, "a kind has a name");
}

std::vector<double> rotary_frequencies(double theta, std::int64_t head_dim,
                                       const RopeScaling& scaling) {
  VERSIEVE_ASSERT(head_dim >= 2 && head_dim % 2 == 0, "rotary pairs need an even head size");
  std::vector<double> frequencies(static_cast<std::size_t>(head_dim / 2));
  const YarnRamp ramp(theta, head_dim, scaling);
  for (std::int64_t i = 0; i < head_dim / 2; ++i) {
    double& f = frequencies[static_cast<std::size_t>(i)];
    f = std::pow(theta, -2.0 * static_cast<double>(i) / static_cast<double>(head_dim));
    switch (scaling.kind) {
      case RopeKind::kDefault:
        break;
      case RopeKind::kLinear:
        f /= scaling.factor;
        break;
      case RopeKind::kLlama3:
        f = llama3(f, scaling);
        break;
      case RopeKind::kYarn:
        f = f / scaling.factor * ramp(i) + f * (1.0 - ramp(i));
        break;
    }
  }
  return frequencies;
}

double yarn_attention_factor(double factor, double scale) {
  return factor <= 1.0 ? 1.0 : 0.1 * scale * std::log(factor) + 1.0;
}

}  // namespace versieve
