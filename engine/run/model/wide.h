// An element as the double that it is.
#pragma once

#include "kernels/common/bf16.h"

namespace versieve::engine {

inline double wide(double x) {
  return x;
}
inline double wide(float x) {
  return x;
}
inline double wide(Bf16 x) {
  return to_float(x);
}

}  // namespace versieve::engine
