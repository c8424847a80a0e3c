#include "kernels/topk/bins.h"

#include <algorithm>
#include <cmath>

namespace versieve::kernels {

// The count of sampled scores among the k largest is near Poisson with that mean; 3 deviations and
// some more keep the threshold below the k-th. A warp's largest of 32 exceeds the upper share x of
// scores with probability 1 - (1 - x)^32; the median of 16 warps' (i + 1)-th largest lies near the
// share (i + 0.69) / 32. A threshold that k scores reach is reached by 1 - exp(-mean / 16) of the
// warps: with 32 expected in all fewer than 8 warps are out of the question, with 8 none at all.
SampleRanks sample_ranks(std::int64_t length, std::int64_t k) {
  const double mean = static_cast<double>(k) * kSampleCount / static_cast<double>(length);
  const double safe = std::min(1.3 * mean + 3.0 * std::sqrt(mean) + 4.0, 512.0);
  SampleRanks ranks;
  ranks.safe = static_cast<int>(safe);
  if (safe <= 20.0) {
    const double reached = 16.5 * (1.0 - std::pow(1.0 - safe / kSampleCount, 32));
    ranks.of_warps = std::max(0, static_cast<int>(std::lround(reached)) - 1);
  } else {
    ranks.in_warp = std::min(31, static_cast<int>(std::ceil(safe / 16.0 - 0.69)));
    ranks.of_warps = 8;
  }
  ranks.warps_reached = mean >= 32.0 ? 8 : (mean >= 8.0 ? 1 : 0);
  return ranks;
}

}  // namespace versieve::kernels
