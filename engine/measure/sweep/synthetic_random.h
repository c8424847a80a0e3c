// Numbers in a fixed order from a seed: splitmix64, and normals by Box and Muller, so that the same
// seed gives the same tensors with every compiler.
#pragma once

#include <cstdint>

namespace versieve::engine {

class SyntheticRandom {
 public:
  explicit SyntheticRandom(std::uint64_t seed) : state_(seed) {}
  double uniform();  // in (0, 1)
  double normal();
  std::int64_t below(std::int64_t count);  // in [0, count); REQUIRES: count > 0

 private:
  std::uint64_t state_;
  double spare_ = 0.0;
  bool has_spare_ = false;
};

}  // namespace versieve::engine
