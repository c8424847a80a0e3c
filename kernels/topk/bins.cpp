#include "kernels/topk/bins.h"

#include <algorithm>
#include <cmath>

namespace versieve::kernels {

// The count of sampled scores among the k largest is near Poisson: 4 deviations are room enough
// on either side of its mean.
SampleRanks sample_ranks(std::int64_t length, std::int64_t k) {
  const double mean = static_cast<double>(k) * kSampleCount / static_cast<double>(length);
  const double safe = 1.3 * mean + 3.0 * std::sqrt(mean) + 4.0;
  const double high = mean / 2.0;
  return {static_cast<int>(std::min(safe, static_cast<double>(kSampleCount))),
          high < 16.0 ? 0 : static_cast<int>(high)};
}

}  // namespace versieve::kernels
