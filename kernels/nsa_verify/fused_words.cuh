// Words of memory that say themselves whether they have been written: blank until then. A blank
// word is a NaN that no arithmetic gives (0x7FFFFFFF is the only one that it does), so a reader
// needs no counter beside it, and nobody a fence. Eight bytes are written, and come, whole
// (kernels/ptx/packets.cuh).
#pragma once

#include <cstdint>
#include <utility>

#include "kernels/ptx/packets.cuh"

namespace versieve::kernels {

inline constexpr std::uint32_t kBlankWord = 0xFFFFFFFFU;

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
    store_whole<kAt>(base, words[0], words[1]);
  }
  template <int kAt>
  __device__ __forceinline__ void write(float4* base) const {
    store_whole<kAt>(base, words[0], words[1], words[2], words[3]);
  }
  // The same if `count` > kIndex.
  template <int kAt, int kIndex>
  __device__ __forceinline__ void write_if(int count, float4* base) const {
    store_whole_if<kAt, kIndex>(count, base, words[0], words[1], words[2], words[3]);
  }
};

// The greatest of one word of each eight bytes; kBlankWord if any is blank.
__device__ __forceinline__ std::uint32_t most_word(float2 x) {
  return __float_as_uint(x.x);
}
__device__ __forceinline__ std::uint32_t most_word(float4 x) {
  return max(__float_as_uint(x.x), __float_as_uint(x.z));
}

__device__ __forceinline__ std::uint32_t most_word(ulonglong2 x) {
  return max(static_cast<std::uint32_t>(x.x), static_cast<std::uint32_t>(x.y));
}
// Sixteen bytes as they lie are four floats.
__device__ __forceinline__ float4 floats_of(ulonglong2 x) {
  return make_float4(__uint_as_float(static_cast<std::uint32_t>(x.x)),
                     __uint_as_float(static_cast<std::uint32_t>(x.x >> 32)),
                     __uint_as_float(static_cast<std::uint32_t>(x.y)),
                     __uint_as_float(static_cast<std::uint32_t>(x.y >> 32)));
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
