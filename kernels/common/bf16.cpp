#include "kernels/common/bf16.h"

#include <bit>
#include <cmath>

namespace versieve {

Bf16 to_bf16(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  if (std::isnan(value)) {
    return {static_cast<std::uint16_t>((bits >> 16) | 0x0040U)};
  }
  const std::uint32_t round = 0x7FFFU + ((bits >> 16) & 1U);
  return {static_cast<std::uint16_t>((bits + round) >> 16)};
}

Bf16 to_bf16(double value) {
  // Round to odd at float precision keeps the second rounding from being a double one.
  float narrow = static_cast<float>(value);
  if (std::isfinite(value) && std::isfinite(narrow) && static_cast<double>(narrow) != value) {
    std::uint32_t bits = std::bit_cast<std::uint32_t>(narrow);
    const bool away = std::fabs(static_cast<double>(narrow)) > std::fabs(value);
    bits = away ? bits - 1U : bits;
    narrow = std::bit_cast<float>(bits | 1U);
  }
  return to_bf16(narrow);
}

float to_float(Bf16 value) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value.bits) << 16);
}

}  // namespace versieve
