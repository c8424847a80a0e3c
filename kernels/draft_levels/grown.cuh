// What growth tells the others of a node of the next frontier, in one packet.
#pragma once

#include <cstdint>

namespace versieve::kernels {

struct GrownNode {
  unsigned word;

  __device__ static GrownNode of(int token, int parent) {
    return {1U << 31 | static_cast<unsigned>(parent) << 20 | static_cast<unsigned>(token)};
  }
  __device__ static GrownNode none() { return {0U}; }
  __device__ bool exists() const { return word >> 31 != 0; }
  __device__ int parent() const { return static_cast<int>(word >> 20 & 0x7FU); }  // its place
  __device__ int token() const { return static_cast<int>(word & 0xFFFFFU); }
};
static_assert(sizeof(GrownNode) == sizeof(std::uint32_t));

}  // namespace versieve::kernels
