// Words of memory that say themselves whether they have been written: blank until then. A blank
// word is a NaN that no arithmetic gives (0x7FFFFFFF is the only one that it does), so a reader
// needs no counter beside it, and nobody a fence. Eight bytes are written, and come, in one access.
#pragma once

#include <cstdint>
#include <utility>

namespace versieve::kernels {

inline constexpr std::uint32_t kBlankWord = 0xFFFFFFFFU;

__device__ __forceinline__ void write_words(float2* to, float2 x) {
  asm volatile("st.relaxed.gpu.global.v2.f32 [%0], {%1, %2};\n" ::"l"(to), "f"(x.x), "f"(x.y)
               : "memory");
}

// What lies at byte kAt of `base` as other SMs see it, past the SM's own cache. Addresses are base
// and constant, so that a loop of many keeps one in registers.
template <int kAt>
__device__ __forceinline__ void read_words(const float2* base, float2& to) {
  asm volatile("ld.relaxed.gpu.global.v2.f32 {%0, %1}, [%2 + %3];\n"
               : "=f"(to.x), "=f"(to.y)
               : "l"(base), "n"(kAt)
               : "memory");
}
template <int kAt>
__device__ __forceinline__ void read_words(const float4* base, float4& to) {
  asm volatile("ld.relaxed.gpu.global.v4.f32 {%0, %1, %2, %3}, [%4 + %5];\n"
               : "=f"(to.x), "=f"(to.y), "=f"(to.z), "=f"(to.w)
               : "l"(base), "n"(kAt)
               : "memory");
}
// The same if `count` > kIndex, else `to` stays.
template <int kAt, int kIndex>
__device__ __forceinline__ void read_words_if(int count, const float4* base, float4& to) {
  asm volatile(
      "{\n"
      ".reg .pred p;\n"
      "setp.gt.s32 p, %5, %6;\n"
      "@p ld.relaxed.gpu.global.v4.f32 {%0, %1, %2, %3}, [%4 + %7];\n"
      "}\n"
      : "+f"(to.x), "+f"(to.y), "+f"(to.z), "+f"(to.w)
      : "l"(base), "r"(count), "n"(kIndex), "n"(kAt)
      : "memory");
}

// What blank memory is filled with. Shuffled, or the compiler would make four words anew for each
// store. All lanes of the warp make one.
struct Blank {
  std::uint32_t words[4];

  __device__ __forceinline__ Blank() {
#pragma unroll
    for (std::uint32_t& word : words) {
      word = __shfl_sync(0xFFFFFFFFU, kBlankWord, 0);
    }
  }
  // Over the words at byte kAt of `base`.
  template <int kAt>
  __device__ __forceinline__ void write(float2* base) const {
    asm volatile("st.relaxed.gpu.global.v2.b32 [%0 + %1], {%2, %3};\n" ::"l"(base), "n"(kAt),
                 "r"(words[0]), "r"(words[1])
                 : "memory");
  }
  template <int kAt>
  __device__ __forceinline__ void write(float4* base) const {
    asm volatile("st.relaxed.gpu.global.v4.b32 [%0 + %1], {%2, %3, %4, %5};\n" ::"l"(base),
                 "n"(kAt), "r"(words[0]), "r"(words[1]), "r"(words[2]), "r"(words[3])
                 : "memory");
  }
  // The same if `count` > kIndex.
  template <int kAt, int kIndex>
  __device__ __forceinline__ void write_if(int count, float4* base) const {
    asm volatile(
        "{\n"
        ".reg .pred p;\n"
        "setp.gt.s32 p, %1, %2;\n"
        "@p st.relaxed.gpu.global.v4.b32 [%0 + %3], {%4, %5, %6, %7};\n"
        "}\n" ::"l"(base),
        "r"(count), "n"(kIndex), "n"(kAt), "r"(words[0]), "r"(words[1]), "r"(words[2]),
        "r"(words[3])
        : "memory");
  }
};

// The greatest of one word of each eight bytes; kBlankWord if any is blank.
__device__ __forceinline__ std::uint32_t most_word(float2 x) {
  return __float_as_uint(x.x);
}
__device__ __forceinline__ std::uint32_t most_word(float4 x) {
  return max(__float_as_uint(x.x), __float_as_uint(x.z));
}

// visit(std::integral_constant<int, i>) for i < kCount.
template <int kCount, class Visit>
__device__ __forceinline__ void each_index(const Visit& visit) {
  [&]<int... kI>(std::integer_sequence<int, kI...>) {
    (visit(std::integral_constant<int, kI>{}), ...);
  }
  (std::make_integer_sequence<int, kCount>{});
}

}  // namespace versieve::kernels
