#include "engine/measure/sweep/synthetic_draft.h"

#include <algorithm>
#include <cmath>

#include "engine/measure/sweep/synthetic_random.h"

namespace versieve::engine {
namespace {

constexpr double kLogWeightSigma = 2.0;
constexpr double kStepShare = 0.1;

}  // namespace

std::vector<float> synthetic_draft_weights(std::uint64_t seed, std::int64_t steps,
                                           std::int64_t context_len) {
  SyntheticRandom random(seed + 2);
  std::vector<float> weights(static_cast<std::size_t>(steps * context_len));
  for (std::int64_t first = 0; first < context_len; first += kTokensTogether) {
    const double common = std::sqrt(1.0 - kStepShare) * random.normal();
    const std::int64_t end = std::min(context_len, first + kTokensTogether);
    for (std::int64_t step = 0; step < steps; ++step) {
      const double own = std::sqrt(kStepShare) * random.normal();
      const double weight = std::exp(kLogWeightSigma * (common + own));
      const auto row = weights.begin() + step * context_len;
      std::fill(row + first, row + end,
                static_cast<float>(weight / static_cast<double>(context_len)));
    }
  }
  return weights;
}

}  // namespace versieve::engine
