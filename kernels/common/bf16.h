// bfloat16 on the host: storage and the round-to-nearest-even conversions of the kernel door.
// The layout is that of CUDA's __nv_bfloat16, so device buffers share it.
#pragma once

#include <cstdint>

namespace versieve {

struct Bf16 {
  std::uint16_t bits = 0;
};

// Round to nearest even; NaN stays NaN (quiet), infinities and signed zeros are kept.
Bf16 to_bf16(float value);
Bf16 to_bf16(double value);  // one rounding, not through float
float to_float(Bf16 value);

}  // namespace versieve
