// How CTAs hand on numbers within a launch: packets of 8 bytes in global memory (L2), four of
// payload beside the four of an epoch that grows from layer to layer. The 8 bytes of a packet move
// in one access of 8 or 16 bytes (LDG, STG .64 and .128 of compute capability 9.0; PTX itself would
// promise it of 64-bit elements), so whoever finds the epoch has the payload: no fence, no counter,
// no barrier of the grid. (The low-latency protocol of NCCL.) Two packets are moved at a time.
#pragma once

#include <cstdint>

namespace versieve::kernels {

__device__ __forceinline__ uint4 load_packets(const uint2* at) {
  uint4 x;
  asm volatile("ld.relaxed.gpu.global.v4.u32 {%0, %1, %2, %3}, [%4];\n"
               : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w)
               : "l"(at)
               : "memory");
  return x;
}
__device__ __forceinline__ void send_packets(uint2* at, std::uint32_t first, std::uint32_t second,
                                             unsigned epoch) {
  asm volatile("st.relaxed.gpu.global.v4.u32 [%0], {%1, %2, %3, %2};\n" ::"l"(at), "r"(first),
               "r"(epoch), "r"(second)
               : "memory");
}
__device__ __forceinline__ void send_packet(uint2* at, std::uint32_t payload, unsigned epoch) {
  asm volatile("st.relaxed.gpu.global.v2.u32 [%0], {%1, %2};\n" ::"l"(at), "r"(payload), "r"(epoch)
               : "memory");
}
__device__ __forceinline__ void send_packets(uint2* at, float first, float second, unsigned epoch) {
  send_packets(at, __float_as_uint(first), __float_as_uint(second), epoch);
}
__device__ __forceinline__ bool arrived(const uint4& x, unsigned epoch) {
  return x.y == epoch && x.w == epoch;
}

// kCount pairs of packets, `apart` packets between two pairs, all in flight together; the first
// `count` of them are waited for.
template <int kCount>
__device__ __forceinline__ void receive(const uint2* at, int apart, int count, unsigned epoch,
                                        uint4 (&x)[kCount]) {
  bool waits;
  do {
    waits = false;
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      if (i < count) {
        x[i] = load_packets(at + i * apart);
      }
    }
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      waits |= i < count && !arrived(x[i], epoch);
    }
  } while (waits);
}
__device__ __forceinline__ uint4 receive(const uint2* at, unsigned epoch) {
  uint4 x = load_packets(at);
  while (!arrived(x, epoch)) {
    x = load_packets(at);
  }
  return x;
}

}  // namespace versieve::kernels
