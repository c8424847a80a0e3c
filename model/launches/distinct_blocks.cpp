#include "model/launches/distinct_blocks.h"

#include <algorithm>
#include <cmath>

namespace versieve {
namespace {

// Both constants fit 468 routings of synthetic queries of one layer (L 1K-256K, N 4-256, rho
// 0.2-0.95) with a median error of 1.3 %, 90 % within 4.5 %; the trained pair's 176 on text are
// within 6 % in the median.
constexpr double kReturnPower = 2.5;  // of rho: how soon queries meet blocks of earlier ones again
// Far apart queries share nothing but chance: a step then brings at least (1 - rho) / (1 - rho + h)
// of what its neighbour lacks.
constexpr double kFarReturn = 0.23;

// Steps of a chain that never returns which see as many blocks as `queries` that do: sum over k of
// max(k^-(1 - exponent), least).
double lasting_steps(double queries, double exponent, double overlap) {
  const auto power_steps = [exponent](double n) {
    return (std::pow(n, exponent) - 1.0) / exponent;
  };
  const double apart = std::max(0.0, 1.0 - overlap);
  const double least = apart / (apart + kFarReturn);
  if (least <= 0.0 || exponent >= 1.0) {
    return power_steps(queries);
  }
  const double turn = std::pow(least, -1.0 / (1.0 - exponent));
  return queries <= turn ? power_steps(queries) : power_steps(turn) + least * (queries - turn);
}

}  // namespace

double distinct_blocks(double queries, double chosen, double blocks, double overlap,
                       double growth) {
  const double picked = std::min(chosen, blocks);
  if (growth == 1.0) {
    return std::clamp(picked * (1.0 + (queries - 1.0) * (1.0 - overlap)), picked,
                      std::min(queries * picked, blocks));
  }
  const double exponent =
      std::max(0.01, 1.0 - (1.0 - growth) * std::pow(std::max(0.0, overlap), kReturnPower));
  const double steps = lasting_steps(queries, exponent, overlap);
  return std::clamp(chain_blocks(steps, picked, blocks, overlap), picked,
                    std::min(queries * picked, blocks));
}

double chain_blocks(double steps, double chosen, double blocks, double overlap) {
  const double left = blocks - chosen;
  if (left <= 0.0) {
    return blocks;
  }
  const double drawn = std::min(1.0, chosen * (1.0 - overlap) / left);
  return blocks - left * std::pow(1.0 - drawn, steps);
}

double remembering_chain_blocks(double steps, double chosen, double blocks, double overlap) {
  const double fresh = chosen * (1.0 - overlap);
  if (steps <= kChainMemory || fresh <= 0.0) {
    return std::min(blocks, chosen + steps * fresh);
  }
  const double unknown = blocks - chosen - (kChainMemory - 1.0) * fresh;  // to the sets in memory
  if (unknown <= fresh) {
    return blocks;
  }
  return blocks - (unknown - fresh) * std::pow(1.0 - fresh / unknown, steps - kChainMemory);
}

}  // namespace versieve
