// IEEE half precision on the host: storage and the conversions of logits. The layout is that of
// CUDA's __half, so device buffers share it.
#pragma once

#include <cstdint>

namespace versieve {

struct F16 {
  std::uint16_t bits = 0;
};

// Round to nearest even; NaN stays NaN (quiet), what is too large becomes infinite.
F16 to_f16(float value);
F16 to_f16(double value);  // one rounding, not through float
float to_float(F16 value);

}  // namespace versieve
