// The normal law's numbers.
#pragma once

namespace versieve {

// So many standard errors to either side hold 90 %: the quantile of 0.95.
inline constexpr double kNinety = 1.6448536269514722;

}  // namespace versieve
