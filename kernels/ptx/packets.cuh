// How thread blocks hand on numbers within a launch, past the SMs' own caches and without a fence:
// eight bytes that say themselves whether they are there. All eight come or none: each element is
// .b64, of which PTX promises that a relaxed load finds what one store wrote (of a vector of .b32
// or .f32 it promises that of each four bytes only).
//
// Packets carry four bytes of payload beside the four of an epoch that grows from layer to layer,
// so whoever finds the epoch has the payload: no counter, no barrier of the grid. (The low-latency
// protocol of NCCL.) Two packets are moved at a time. The other kind, blank words, is of
// nsa_verify/fused_words.cuh.
#pragma once

#include <cstdint>

#include "kernels/ptx/device_assert.cuh"

namespace versieve::kernels {

// What every access requires: its elements lie on multiples of their size.
template <int kAt, int kBytes>
__device__ __forceinline__ void check_whole(const void* base) {
  static_assert(kAt % kBytes == 0, "the place is whole accesses from the base");
  VERSIEVE_DEVICE_ASSERT(reinterpret_cast<std::uintptr_t>(base) % kBytes == 0,
                         "an access lies on a multiple of its size");
}

// Eight bytes at byte kAt of `base` as other SMs see them, two floats. Addresses are base and
// constant, so that a loop of many keeps one in registers.
template <int kAt>
__device__ __forceinline__ void load_whole(const float2* base, float2& x) {
  check_whole<kAt, 8>(base);
  asm volatile(
      "{\n.reg .b64 both;\n"
      "ld.relaxed.gpu.global.b64 both, [%2 + %3];\n"
      "mov.b64 {%0, %1}, both;\n}\n"
      : "=f"(x.x), "=f"(x.y)
      : "l"(base), "n"(kAt)
      : "memory");
}
// Twice eight bytes, each whole.
template <int kAt>
__device__ __forceinline__ void load_whole(const float4* base, float4& x) {
  check_whole<kAt, 16>(base);
  asm volatile(
      "{\n.reg .b64 first, second;\n"
      "ld.relaxed.gpu.global.v2.b64 {first, second}, [%4 + %5];\n"
      "mov.b64 {%0, %1}, first;\nmov.b64 {%2, %3}, second;\n}\n"
      : "=f"(x.x), "=f"(x.y), "=f"(x.z), "=f"(x.w)
      : "l"(base), "n"(kAt)
      : "memory");
}
// The same as they lie, if `count` > kIndex; else x stays.
template <int kAt, int kIndex>
__device__ __forceinline__ void load_whole_if(int count, const void* base, ulonglong2& x) {
  check_whole<kAt, 16>(base);
  asm volatile(
      "{\n.reg .pred p;\n"
      "setp.gt.s32 p, %3, %4;\n"
      "@p ld.relaxed.gpu.global.v2.b64 {%0, %1}, [%2 + %5];\n}\n"
      : "+l"(x.x), "+l"(x.y)
      : "l"(base), "r"(count), "n"(kIndex), "n"(kAt)
      : "memory");
}
// Stores two floats as eight bytes that come in one.
__device__ __forceinline__ void store_whole(float2* to, float2 x) {
  check_whole<0, 8>(to);
  asm volatile(
      "{\n.reg .b64 both;\n"
      "mov.b64 both, {%1, %2};\n"
      "st.relaxed.gpu.global.b64 [%0], both;\n}\n" ::"l"(to),
      "f"(x.x), "f"(x.y)
      : "memory");
}
// The same of two words, at byte kAt of `base`.
template <int kAt = 0>
__device__ __forceinline__ void store_whole(void* base, std::uint32_t a, std::uint32_t b) {
  check_whole<kAt, 8>(base);
  asm volatile(
      "{\n.reg .b64 both;\n"
      "mov.b64 both, {%2, %3};\n"
      "st.relaxed.gpu.global.b64 [%0 + %1], both;\n}\n" ::"l"(base),
      "n"(kAt), "r"(a), "r"(b)
      : "memory");
}
// Twice eight bytes, each whole.
template <int kAt = 0>
__device__ __forceinline__ void store_whole(void* base, std::uint32_t a, std::uint32_t b,
                                            std::uint32_t c, std::uint32_t d) {
  check_whole<kAt, 16>(base);
  asm volatile(
      "{\n.reg .b64 first, second;\n"
      "mov.b64 first, {%2, %3};\nmov.b64 second, {%4, %5};\n"
      "st.relaxed.gpu.global.v2.b64 [%0 + %1], {first, second};\n}\n" ::"l"(base),
      "n"(kAt), "r"(a), "r"(b), "r"(c), "r"(d)
      : "memory");
}
// The same if `count` > kIndex.
template <int kAt, int kIndex>
__device__ __forceinline__ void store_whole_if(int count, void* base, std::uint32_t a,
                                               std::uint32_t b, std::uint32_t c, std::uint32_t d) {
  check_whole<kAt, 16>(base);
  asm volatile(
      "{\n.reg .pred p;\n.reg .b64 first, second;\n"
      "setp.gt.s32 p, %1, %2;\n"
      "mov.b64 first, {%4, %5};\nmov.b64 second, {%6, %7};\n"
      "@p st.relaxed.gpu.global.v2.b64 [%0 + %3], {first, second};\n}\n" ::"l"(base),
      "r"(count), "n"(kIndex), "n"(kAt), "r"(a), "r"(b), "r"(c), "r"(d)
      : "memory");
}

// Two packets: payload, epoch, payload, epoch.
__device__ __forceinline__ uint4 load_packets(const uint2* at) {
  check_whole<0, 16>(at);
  uint4 x;
  asm volatile(
      "{\n.reg .b64 first, second;\n"
      "ld.relaxed.gpu.global.v2.b64 {first, second}, [%4];\n"
      "mov.b64 {%0, %1}, first;\nmov.b64 {%2, %3}, second;\n}\n"
      : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w)
      : "l"(at)
      : "memory");
  return x;
}
// The epochs of two packets alone, for those who only look whether they are there.
__device__ __forceinline__ uint2 load_epochs(const uint2* at) {
  check_whole<0, 16>(at);
  uint2 x;
  asm volatile(
      "ld.relaxed.gpu.global.b32 %0, [%2 + 4];\n"
      "ld.relaxed.gpu.global.b32 %1, [%2 + 12];\n"
      : "=r"(x.x), "=r"(x.y)
      : "l"(at)
      : "memory");
  return x;
}
__device__ __forceinline__ void send_packets(uint2* at, std::uint32_t first, std::uint32_t second,
                                             unsigned epoch) {
  store_whole(at, first, epoch, second, epoch);
}
__device__ __forceinline__ void send_packet(uint2* at, std::uint32_t payload, unsigned epoch) {
  store_whole(at, payload, epoch);
}
__device__ __forceinline__ void send_packets(uint2* at, float first, float second, unsigned epoch) {
  send_packets(at, __float_as_uint(first), __float_as_uint(second), epoch);
}
__device__ __forceinline__ bool arrived(const uint4& x, unsigned epoch) {
  return x.y == epoch && x.w == epoch;
}
__device__ __forceinline__ bool arrived(const uint2& epochs, unsigned epoch) {
  return epochs.x == epoch && epochs.y == epoch;
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
