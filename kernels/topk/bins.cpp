#include "kernels/topk/bins.h"

#include <algorithm>
#include <cmath>

namespace versieve::kernels {

// The count of sampled scores among the k largest is near Poisson with that mean; 3 deviations and
// some more keep the threshold below the k-th. A warp's largest of 32 exceeds the upper share x of
// scores with probability 1 - (1 - x)^32; the median of the warps' (i + 1)-th largest lies near the
// share (i + 0.69) / 32. A threshold that k scores reach is reached by 1 - exp(-mean / warps) of
// the warps: with two a warp expected, fewer than half of the warps are out of the question, with
// one for two warps, none at all.
SampleRanks sample_ranks(std::int64_t length, std::int64_t k, int warps) {
  const double count = 32.0 * warps;
  const double mean = static_cast<double>(k) * count / static_cast<double>(length);
  const double safe = std::min(1.3 * mean + 3.0 * std::sqrt(mean) + 4.0, count);
  SampleRanks ranks;
  ranks.safe = static_cast<int>(safe);
  if (safe <= 1.25 * warps) {
    const double reached = (warps + 0.5) * (1.0 - std::pow(1.0 - safe / count, 32));
    ranks.of_warps = std::max(0, static_cast<int>(std::lround(reached)) - 1);
  } else {
    ranks.in_warp = std::min(31, static_cast<int>(std::ceil(safe / warps - 0.69)));
    ranks.of_warps = warps / 2;
  }
  ranks.warps_reached = mean >= 2.0 * warps ? warps / 2 : (mean >= 0.5 * warps ? 1 : 0);
  return ranks;
}

}  // namespace versieve::kernels
