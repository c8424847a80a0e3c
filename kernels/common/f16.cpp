#include "kernels/common/f16.h"

#include <cmath>

namespace versieve {

F16 to_f16(double value) {
  constexpr std::uint16_t kInfinity = 0x7C00;
  const std::uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const double size = std::fabs(value);
  if (std::isnan(value)) {
    return {static_cast<std::uint16_t>(sign | 0x7E00)};
  }
  if (size >= 65520.0) {  // halfway from the largest finite number to the next
    return {static_cast<std::uint16_t>(sign | kInfinity)};
  }
  int exponent = -14;  // of denormals, too
  if (size >= 0x1p-14) {
    exponent = std::ilogb(size);
  }
  // Steps of 2^(exponent - 10); a step past the last carries into the exponent's bits.
  const double steps = std::nearbyint(std::ldexp(size, 10 - exponent));
  const int bits = (exponent + 14) * 1024 + static_cast<int>(steps);
  return {static_cast<std::uint16_t>(sign | bits)};
}

F16 to_f16(float value) {
  return to_f16(static_cast<double>(value));
}

float to_float(F16 value) {
  const int exponent = value.bits >> 10 & 0x1F;
  const int mantissa = value.bits & 0x3FF;
  float size = 0.0F;
  if (exponent == 31) {
    size = mantissa == 0 ? INFINITY : NAN;
  } else if (exponent == 0) {
    size = std::ldexp(static_cast<float>(mantissa), -24);
  } else {
    size = std::ldexp(static_cast<float>(1024 + mantissa), exponent - 25);
  }
  return (value.bits & 0x8000) != 0 ? -size : size;
}

}  // namespace versieve
