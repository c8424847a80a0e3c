#include "engine/run/quality/token_law.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <iterator>
#include <limits>
#include <numeric>

#include "kernels/ops.h"
#include "kernels/spec_sample/categorical.h"
#include "model/words/assert.h"

namespace versieve::engine {
namespace {

constexpr std::size_t kLanes = 16;  // of a running sum or maximum

// e^x of x <= 0, within 2 units in the last place; 0 below -87, where floats end. Branches would
// keep the compiler from making vectors of it. Coefficients: Taylor's, of |r| <= ln(2) / 2.
inline float exp_of_nonpositive(float x) {
  constexpr float kRounder = 12582912.0F;  // 1.5 * 2^23: what is added to it becomes whole
  const float clamped = x < -87.0F ? -87.0F : x;
  const float shifted = clamped * 1.44269504F + kRounder;
  const float whole = shifted - kRounder;
  const float r = (clamped - whole * 0.693359375F) - whole * -2.12194440e-4F;
  const float high =
      ((r * (1.0F / 5040.0F) + 1.0F / 720.0F) * r + 1.0F / 120.0F) * r + 1.0F / 24.0F;
  const float sum = (((high * r + 1.0F / 6.0F) * r + 0.5F) * r + 1.0F) * r + 1.0F;
  const std::uint32_t exponent = std::bit_cast<std::uint32_t>(shifted) << 23;
  const float scaled = std::bit_cast<float>(std::bit_cast<std::uint32_t>(sum) + exponent);
  return x < -87.0F ? 0.0F : scaled;
}

// Of element(0) ... element(count - 1), each a float: piece by piece, so that what makes them and
// what adds them up are loops of vectors.
template <class Element>
double sum_of(std::size_t count, const Element& element) {
  constexpr std::size_t kPiece = 512;
  float piece[kPiece];
  double lanes[kLanes] = {};
  for (std::size_t at = 0; at < count; at += kPiece) {
    const std::size_t own = std::min(kPiece, count - at);
    for (std::size_t i = 0; i < own; ++i) {
      piece[i] = element(at + i);
    }
    std::fill(piece + own, std::end(piece), 0.0F);
    for (std::size_t i = 0; i < kPiece; i += kLanes) {
      for (std::size_t lane = 0; lane < kLanes; ++lane) {
        lanes[lane] += static_cast<double>(piece[i + lane]);
      }
    }
  }
  return std::accumulate(std::begin(lanes), std::end(lanes), 0.0);
}

inline double wide(double x) {
  return x;
}
inline float wide(float x) {
  return x;
}
inline float wide(Bf16 x) {  // to_float, where a loop is made vectors of
  return std::bit_cast<float>(static_cast<std::uint32_t>(x.bits) << 16);
}

// Of the logits; the others' logarithms are `logit - whole`.
template <class T>
struct Softmax {
  explicit Softmax(std::span<const T> logits) {
    using Wide = decltype(wide(T{}));
    Wide lanes[kLanes];
    std::fill(std::begin(lanes), std::end(lanes), -std::numeric_limits<Wide>::infinity());
    std::size_t at = 0;
    for (; at + kLanes <= logits.size(); at += kLanes) {
      for (std::size_t lane = 0; lane < kLanes; ++lane) {
        const Wide own = wide(logits[at + lane]);
        lanes[lane] = lanes[lane] < own ? own : lanes[lane];
      }
    }
    Wide greatest = *std::max_element(std::begin(lanes), std::end(lanes));
    for (; at < logits.size(); ++at) {
      greatest = std::max(greatest, wide(logits[at]));
    }
    most = static_cast<double>(greatest);
    whole = most + std::log(sum_of(logits.size(), [&](std::size_t x) {
              return exp_of_nonpositive(static_cast<float>(wide(logits[x]) - greatest));
            }));
  }
  float log_of(T logit) const {
    return static_cast<float>(static_cast<double>(wide(logit)) - whole);
  }

  double most = 0.0, whole = 0.0;
};

// KL(exact || own); tokens that cannot come have no part in it.
template <class Own>
double divergence_of(const Law& exact, const Own& own) {
  return sum_of(exact.size(), [&](std::size_t x) {
    const float p = exp_of_nonpositive(exact[x]);
    return p > 0.0F ? p * (exact[x] - own(x)) : 0.0F;
  });
}

// What `draft` proposes and `target` tests, both as sigmoids; `softmax` is the target's.
std::vector<double> yielded(const std::vector<double>& proposed, const std::vector<double>& target,
                            const std::vector<double>& draft, const std::vector<double>& softmax,
                            double* stays) {
  std::vector<double> law(target.size());
  double kept = 0.0, residual = 0.0;
  for (std::size_t x = 0; x < law.size(); ++x) {
    law[x] = proposed[x] * std::min(1.0, target[x] / draft[x]);
    kept += law[x];
    residual += std::max(0.0, target[x] - draft[x]);
  }
  const double redrawn = std::max(0.0, 1.0 - kept);
  if (stays != nullptr) {
    *stays = 1.0 - redrawn;
  }
  for (std::size_t x = 0; x < law.size(); ++x) {
    law[x] +=
        redrawn * (residual > 0.0 ? std::max(0.0, target[x] - draft[x]) / residual : softmax[x]);
  }
  return law;
}

}  // namespace

template <class T>
Law law_of(std::span<const T> logits) {
  const Softmax<T> softmax(logits);
  Law law(logits.size());
  for (std::size_t x = 0; x < law.size(); ++x) {
    law[x] = softmax.log_of(logits[x]);
  }
  return law;
}

template <class T>
Law sigmoid_law(std::span<const T> target, std::span<const T> draft, double* stays) {
  VERSIEVE_ASSERT(target.size() == draft.size(), "target and draft speak of the same tokens");
  const std::int64_t vocab = static_cast<std::int64_t>(target.size());
  const kernels::SpecSampleParams<T> usual;
  const kernels::SigmoidScale scale{.temperature = 1.0, .alpha = usual.alpha, .beta = usual.beta};
  const std::vector<double> mixed = yielded(kernels::softmax_row(draft.data(), vocab, 1.0),
                                            kernels::sigmoid_row(target.data(), vocab, scale),
                                            kernels::sigmoid_row(draft.data(), vocab, scale),
                                            kernels::softmax_row(target.data(), vocab, 1.0), stays);
  Law law(mixed.size());
  for (std::size_t x = 0; x < law.size(); ++x) {
    law[x] = std::max(kLeastLog, static_cast<float>(std::log(mixed[x])));
  }
  return law;
}

TokenScore score_token(const Law& law, std::int32_t token, const Law* exact) {
  TokenScore score{.loss = -static_cast<double>(law[static_cast<std::size_t>(token)])};
  score.likeliest =
      static_cast<std::int32_t>(std::max_element(law.begin(), law.end()) - law.begin());
  if (exact != nullptr) {
    score.divergence = divergence_of(*exact, [&](std::size_t x) { return law[x]; });
  }
  return score;
}

template <class T>
TokenScore score_logits(std::span<const T> logits, std::int32_t token, const Law* exact) {
  const Softmax<T> softmax(logits);
  TokenScore score{
      .loss = -static_cast<double>(softmax.log_of(logits[static_cast<std::size_t>(token)]))};
  const auto likeliest = std::find_if(logits.begin(), logits.end(), [&](T logit) {
    return static_cast<double>(wide(logit)) >= softmax.most;
  });
  score.likeliest = static_cast<std::int32_t>(likeliest - logits.begin());
  if (exact != nullptr) {
    score.divergence =
        divergence_of(*exact, [&](std::size_t x) { return softmax.log_of(logits[x]); });
  }
  return score;
}

template <class T>
double loss_of(std::span<const T> logits, std::int32_t token) {
  return -static_cast<double>(Softmax<T>(logits).log_of(logits[static_cast<std::size_t>(token)]));
}

template Law law_of(std::span<const double>);
template Law law_of(std::span<const float>);
template Law law_of(std::span<const Bf16>);
template TokenScore score_logits(std::span<const double>, std::int32_t, const Law*);
template TokenScore score_logits(std::span<const float>, std::int32_t, const Law*);
template TokenScore score_logits(std::span<const Bf16>, std::int32_t, const Law*);
template double loss_of(std::span<const double>, std::int32_t);
template double loss_of(std::span<const float>, std::int32_t);
template double loss_of(std::span<const Bf16>, std::int32_t);
template Law sigmoid_law(std::span<const double>, std::span<const double>, double*);
template Law sigmoid_law(std::span<const float>, std::span<const float>, double*);
template Law sigmoid_law(std::span<const Bf16>, std::span<const Bf16>, double*);

}  // namespace versieve::engine
