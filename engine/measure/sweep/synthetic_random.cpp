#include "engine/measure/sweep/synthetic_random.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "model/words/assert.h"

namespace versieve::engine {

double SyntheticRandom::uniform() {
  state_ += 0x9e3779b97f4a7c15U;  // splitmix64
  std::uint64_t z = state_;
  z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9U;
  z = (z ^ (z >> 27U)) * 0x94d049bb133111ebU;
  z ^= z >> 31U;
  return (static_cast<double>(z >> 11U) + 0.5) * 0x1.0p-53;
}

double SyntheticRandom::normal() {
  if (has_spare_) {
    has_spare_ = false;
    return spare_;
  }
  const double radius = std::sqrt(-2.0 * std::log(uniform()));
  const double angle = 2.0 * std::numbers::pi * uniform();
  spare_ = radius * std::sin(angle);
  has_spare_ = true;
  return radius * std::cos(angle);
}

std::int64_t SyntheticRandom::below(std::int64_t count) {
  VERSIEVE_ASSERT(count > 0, "there is nothing to draw from");
  return std::min(count - 1, static_cast<std::int64_t>(uniform() * static_cast<double>(count)));
}

}  // namespace versieve::engine
