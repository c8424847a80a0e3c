// ReSA's second phase (Rectified Sparse Attention, section 2.2): after every f decoding steps the f
// newest tokens are encoded again by one dense pass over all of them, which rewrites their keys,
// values and block keys. The tokens stay as they were sampled; a shorter tail stays as sparse
// attention left it.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/run/model/target.h"

namespace versieve::engine {

// How a pass verifies the chain of the newest tokens.
VerifyOptions rectification_options();

template <class T>
class Rectifier {
 public:
  // The target's cache holds the dense prefix; `every` >= 1. The target outlives it.
  Rectifier(Target<T>& target, std::int64_t every);

  // Makes the buffers that a pass needs, so that steps recorded later find them in place.
  void reserve();
  // A decoding step has committed this token. Rectifies after the f-th since the last time; true if
  // it did.
  bool committed(std::int32_t token);
  // Steps until the next pass, 1 to f.
  std::int64_t steps_left() const { return every_ - static_cast<std::int64_t>(tokens_.size()); }
  std::int64_t passes() const { return passes_; }

 private:
  Target<T>* target_;
  std::int64_t every_;
  std::vector<std::int32_t> tokens_;  // committed since the last pass
  std::int64_t passes_ = 0;
};

}  // namespace versieve::engine
