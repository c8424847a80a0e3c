// Arithmetic that CUDA C++ has no word for, or for which nvcc would emit more than one instruction.
#pragma once

#include <cstdint>

namespace versieve::kernels {

// Two floats as a pair of bf16, `low` in the lower half, each rounded to nearest even.
__device__ inline std::uint32_t pack_bf16(float low, float high) {
  std::uint32_t pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;\n" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}
// 2^x, denormal results as 0. For x = n + f with n integer the bits of the fraction depend on f
// alone.
__device__ inline float exp2_flushed(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;\n" : "=f"(y) : "f"(x));
  return y;
}
// a b, rounded to nearest, denormals as 0.
__device__ inline float multiply_flushed(float a, float b) {
  float y;
  asm("mul.rn.ftz.f32 %0, %1, %2;\n" : "=f"(y) : "f"(a), "f"(b));
  return y;
}
// About 1 / x, denormals as 0: what division begins with.
__device__ inline float reciprocal_flushed(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;\n" : "=f"(y) : "f"(x));
  return y;
}
// to = from where a == b; as it stands, so that no array becomes one in memory.
__device__ __forceinline__ void take_if_equal(int a, int b, float from, float& to) {
  asm("{\n.reg .pred same;\nsetp.eq.s32 same, %1, %2;\nselp.f32 %0, %3, %0, same;\n}\n"
      : "+f"(to)
      : "r"(a), "r"(b), "f"(from));
}

}  // namespace versieve::kernels
