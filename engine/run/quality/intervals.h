// 95 % intervals of shares, of changes of shares, and of means over a text.
#pragma once

#include <cstdint>
#include <span>

namespace versieve::engine {

struct Interval {
  double low = 0.0, high = 0.0;
};

// Of a share `right` of `count`: Wilson, "Probable inference, the law of succession, and
// statistical inference", 1927. REQUIRES: count >= 1.
Interval share_interval(std::int64_t right, std::int64_t count);

// Of (gained - lost) / count where the same questions were asked twice: Agresti and Min, "Simple
// improved confidence intervals for comparing matched proportions", 2005 (half a question is added
// to each of the four kinds). Not of width 0 where no answer changed. REQUIRES: count >= 1.
Interval change_interval(std::int64_t gained, std::int64_t lost, std::int64_t count);

// Sums over a stretch of neighbouring tokens: tokens of one text resemble each other, so stretches
// are drawn, not tokens.
struct Stretch {
  double sum = 0.0;
  double tokens = 0.0;
};
// Of sum / tokens, by bootstrap over the stretches: the middle 95 % of 1,000 draws, the same draws
// each time. Both ends are the mean where there is one stretch.
Interval mean_interval(std::span<const Stretch> stretches);

}  // namespace versieve::engine
