// The order of scores as unsigned integers: a larger key ranks higher, equal scores have equal
// keys. NaN of either sign ranks below -infinity, -0 equals +0, denormals keep their place. Used by
// the host reference and by device code.
#pragma once

#include <cstdint>

#include "kernels/common/bf16.h"
#include "kernels/common/host_device.h"

namespace versieve::kernels {

// `bits`: the pattern of an IEEE number with `kMantissa` mantissa bits stored in U.
template <class U, int kMantissa>
VERSIEVE_HOST_DEVICE inline U order_key_of_bits(U bits) {
  constexpr int kWidth = static_cast<int>(sizeof(U)) * 8;
  constexpr U kSign = static_cast<U>(U{1} << (kWidth - 1));
  constexpr U kMagnitude = static_cast<U>(kSign - 1);
  constexpr U kInfinity = static_cast<U>(kMagnitude & ~((U{1} << kMantissa) - 1));
  const U magnitude = static_cast<U>(bits & kMagnitude);
  if (magnitude > kInfinity) {
    return 0;  // NaN
  }
  if (magnitude == 0) {
    return kSign;
  }
  return (bits & kSign) != 0 ? static_cast<U>(~bits) : static_cast<U>(bits | kSign);
}

// What a score of T is stored as, and its key from those bits.
template <class T>
struct OrderBits;
template <>
struct OrderBits<double> {
  using Bits = std::uint64_t;
  static constexpr int kMantissa = 52;
};
template <>
struct OrderBits<float> {
  using Bits = std::uint32_t;
  static constexpr int kMantissa = 23;
};
template <>
struct OrderBits<Bf16> {
  using Bits = std::uint16_t;
  static constexpr int kMantissa = 7;
};

template <class T>
VERSIEVE_HOST_DEVICE inline typename OrderBits<T>::Bits order_key(
    typename OrderBits<T>::Bits bits) {
  return order_key_of_bits<typename OrderBits<T>::Bits, OrderBits<T>::kMantissa>(bits);
}

}  // namespace versieve::kernels
