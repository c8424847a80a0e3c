// An element of a row as one integer that orders as the house orders scores: by order_key, the
// lower index first among equals. Ranks of a row are distinct and above 0.
#pragma once

#include <cstdint>

#include "kernels/common/device_element.cuh"
#include "kernels/topk/order_key.h"

namespace versieve::kernels {

__device__ inline std::uint32_t bits_of(float value) {
  return __float_as_uint(value);
}
__device__ inline std::uint16_t bits_of(Bf16 value) {
  return value.bits;
}

// Of a value whose order_key is `key`.
__device__ inline std::uint64_t rank_of(std::uint32_t key, std::uint32_t index) {
  return static_cast<std::uint64_t>(key) << 32 | ~index;
}

__device__ inline int index_of(std::uint64_t rank) {
  return static_cast<int>(~static_cast<std::uint32_t>(rank));
}

}  // namespace versieve::kernels
