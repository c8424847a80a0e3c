#include "engine/run/quality/intervals.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "model/words/assert.h"

namespace versieve::engine {
namespace {

constexpr double kNormal = 1.959963984540054;  // 97.5 % of the normal law lie below
constexpr std::size_t kDraws = 1000;
constexpr std::uint64_t kSeed = 1;

}  // namespace

Interval share_interval(std::int64_t right, std::int64_t count) {
  VERSIEVE_ASSERT(count >= 1 && right >= 0 && right <= count, "a share is of something");
  const double n = static_cast<double>(count), share = static_cast<double>(right) / n;
  const double z2 = kNormal * kNormal;
  const double middle = (share + z2 / (2.0 * n)) / (1.0 + z2 / n);
  const double half =
      kNormal / (1.0 + z2 / n) * std::sqrt(share * (1.0 - share) / n + z2 / (4.0 * n * n));
  return {std::max(0.0, middle - half), std::min(1.0, middle + half)};
}

Interval change_interval(std::int64_t gained, std::int64_t lost, std::int64_t count) {
  VERSIEVE_ASSERT(count >= 1 && gained >= 0 && lost >= 0 && gained + lost <= count,
                  "a question is gained or lost once");
  const double n = static_cast<double>(count) + 2.0;
  const double up = (static_cast<double>(gained) + 0.5) / n;
  const double down = (static_cast<double>(lost) + 0.5) / n;
  const double change = up - down;
  const double half = kNormal * std::sqrt((up + down - change * change) / n);
  return {std::max(-1.0, change - half), std::min(1.0, change + half)};
}

Interval mean_interval(std::span<const Stretch> stretches) {
  VERSIEVE_ASSERT(!stretches.empty(), "a mean is of something");
  std::mt19937_64 random(kSeed);
  std::vector<double> means;
  for (std::size_t draw = 0; draw < kDraws; ++draw) {
    double sum = 0.0, tokens = 0.0;
    for (std::size_t i = 0; i < stretches.size(); ++i) {
      const Stretch& drawn = stretches[random() % stretches.size()];
      sum += drawn.sum;
      tokens += drawn.tokens;
    }
    means.push_back(sum / tokens);
  }
  std::sort(means.begin(), means.end());
  return {means[kDraws / 40], means[kDraws - 1 - kDraws / 40]};
}

}  // namespace versieve::engine
