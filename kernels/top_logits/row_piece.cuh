// A piece of a row in a warp's registers: kWords words of 16 bytes a lane, word w of lane l at
// word 32 w + l of the piece, so that a lane's logits ascend and each load reads 512 bytes in a
// row. What lies past the row's end is NaN, which every logit precedes. Two bf16 logits lie in a
// register, the lower index in the lower half, and are compared together.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

#include "kernels/common/block_reduce.cuh"
#include "kernels/common/device_element.cuh"
#include "kernels/ptx/arithmetic.cuh"
#include "kernels/top_logits/local_rank.cuh"

namespace versieve::kernels {

// One register of logits of type T. Masks have all bits of an element set or none.
template <class T>
struct LogitRegister;
template <>
struct LogitRegister<float> {
  static constexpr int kCount = 1;
  static constexpr unsigned kNaN = 0x7FFFFFFFU;
  // NaN only if both are.
  __device__ static unsigned larger(unsigned a, unsigned b) {
    return __float_as_uint(fmaxf(__uint_as_float(a), __uint_as_float(b)));
  }
  __device__ static unsigned largest_element(unsigned a) { return a; }
  __device__ static unsigned everywhere(unsigned bits) { return bits; }
  __device__ static unsigned equal(unsigned a, unsigned b) {
    return __uint_as_float(a) == __uint_as_float(b) ? 0xFFFFFFFFU : 0;
  }
  __device__ static unsigned at_least(unsigned a, unsigned b) {
    return __uint_as_float(a) >= __uint_as_float(b) ? 0xFFFFFFFFU : 0;
  }
  __device__ static float value(unsigned a, int) { return __uint_as_float(a); }
  __device__ static std::uint32_t key(unsigned a, int) { return order_key<float>(a); }
};
template <>
struct LogitRegister<Bf16> {
  static constexpr int kCount = 2;
  static constexpr unsigned kNaN = 0x7FFF7FFFU;
  __device__ static __nv_bfloat162 pair(unsigned a) {
    return *reinterpret_cast<const __nv_bfloat162*>(&a);
  }
  __device__ static unsigned larger(unsigned a, unsigned b) {
    const __nv_bfloat162 c = __hmax2(pair(a), pair(b));
    return *reinterpret_cast<const unsigned*>(&c);
  }
  // The larger half, in both halves.
  __device__ static unsigned largest_element(unsigned a) {
    return larger(a, __funnelshift_l(a, a, 16));
  }
  __device__ static unsigned everywhere(unsigned bits) { return bits | bits << 16; }
  __device__ static unsigned equal(unsigned a, unsigned b) { return __heq2_mask(pair(a), pair(b)); }
  __device__ static unsigned at_least(unsigned a, unsigned b) {
    return __hge2_mask(pair(a), pair(b));
  }
  __device__ static float value(unsigned a, int half) {
    return __uint_as_float(half == 0 ? a << 16 : a & 0xFFFF0000U);
  }
  __device__ static std::uint32_t key(unsigned a, int half) {
    return order_key<Bf16>(static_cast<std::uint16_t>(half == 0 ? a : a >> 16));
  }
};

template <class T, int kWords>
struct RowPiece {
  using Register = LogitRegister<T>;
  static constexpr int kWordStride = 32 * kWordElements<T>;
  static constexpr int kLogits = kWords * kWordStride;
  static constexpr int kRegisters = 4 * kWords;
  // Masks of so many registers go into one: bit i of its lower half is the lower element of the
  // i-th, bit i of the upper half the upper.
  static constexpr int kMasked = 16;
  static constexpr unsigned kElementBits = Register::kCount == 2 ? 0x00010001U : 1U;
  static_assert(kRegisters % kMasked == 0);

  unsigned bits[kRegisters];
  int first;  // index in the row of this lane's first logit

  __device__ int word_index(int word) const { return first + word * kWordStride; }
  __device__ int index(int r, int half) const {
    return word_index(r / 4) + r % 4 * Register::kCount + half;
  }
  // This lane's largest logit, everywhere in a register; NaN if all are.
  __device__ unsigned best() const {
    unsigned chain[4] = {bits[0], bits[1], bits[2], bits[3]};
#pragma unroll
    for (int r = 4; r < kRegisters; ++r) {
      chain[r % 4] = Register::larger(chain[r % 4], bits[r]);
    }
    return Register::largest_element(Register::larger(Register::larger(chain[0], chain[1]),
                                                      Register::larger(chain[2], chain[3])));
  }
  // Where this lane's largest logit, given as best() does, comes first.
  __device__ int first_index_of(unsigned best) const {
    int at = index(0, 0);  // NaN equals nothing: then all are, the first, too
#pragma unroll
    for (int start = kRegisters - kMasked; start >= 0; start -= kMasked) {
      unsigned found = 0;
#pragma unroll
      for (int i = 0; i < kMasked; ++i) {
        found |= Register::equal(bits[start + i], best) & kElementBits << i;
      }
      if (found != 0) {
        const unsigned low = static_cast<unsigned>(__ffs(static_cast<int>(found & 0xFFFFU))) - 1;
        const unsigned high = static_cast<unsigned>(__ffs(static_cast<int>(found >> 16))) - 1;
        const int r = start + static_cast<int>(min(low, high));
        at = index(0, 0) + r / 4 * kWordStride + r % 4 * Register::kCount + (high < low ? 1 : 0);
      }
    }
    return at;
  }
  // visit(register, its number, half) for the logits that are at least `least`, given everywhere in
  // a register; for all if `least` is NaN, which every logit precedes.
  template <class Visit>
  __device__ void for_at_least(unsigned least, const Visit& visit) const {
    const unsigned all = Register::equal(least, least) != 0 ? 0 : 0xFFFFFFFFU;
#pragma unroll
    for (int start = 0; start < kRegisters; start += kMasked) {
      unsigned found = 0;
#pragma unroll
      for (int i = 0; i < kMasked; ++i) {
        found |= (Register::at_least(bits[start + i], least) | all) & kElementBits << i;
      }
#pragma unroll 1
      for (; found != 0; found &= found - 1) {
        const int bit = __ffs(static_cast<int>(found)) - 1;
        unsigned left[kMasked / 2];  // a tree: an index of run time would ask for memory
#pragma unroll
        for (int i = 0; i < kMasked / 2; ++i) {
          left[i] = (bit & 1) != 0 ? bits[start + 2 * i + 1] : bits[start + 2 * i];
        }
#pragma unroll
        for (int count = kMasked / 4, step = 2; count > 0; count /= 2, step *= 2) {
#pragma unroll
          for (int i = 0; i < count; ++i) {
            left[i] = (bit & step) != 0 ? left[2 * i + 1] : left[2 * i];
          }
        }
        visit(left[0], start + bit % kMasked, bit / kMasked);
      }
    }
  }
};

// kVector: the row's words are whole and on 16 bytes; what is loaded is the same without.
template <class T, int kWords, bool kVector>
__device__ inline RowPiece<T, kWords> load_piece(const T* row, int vocab, int piece) {
  using Piece = RowPiece<T, kWords>;
  Piece own;
  own.first = piece * Piece::kLogits + static_cast<int>(threadIdx.x % 32) * kWordElements<T>;
#pragma unroll
  for (int w = 0; w < kWords; ++w) {
    uint4 word = make_uint4(Piece::Register::kNaN, Piece::Register::kNaN, Piece::Register::kNaN,
                            Piece::Register::kNaN);
    const int at = own.word_index(w);
    if constexpr (kVector) {
      if (at < vocab) {
        word = *reinterpret_cast<const uint4*>(row + at);
      }
    } else {
      T* const element = reinterpret_cast<T*>(&word);
#pragma unroll
      for (int i = 0; i < kWordElements<T>; ++i) {
        if (at + i < vocab) {
          element[i] = row[at + i];
        }
      }
    }
    own.bits[4 * w] = word.x;
    own.bits[4 * w + 1] = word.y;
    own.bits[4 * w + 2] = word.z;
    own.bits[4 * w + 3] = word.w;
  }
  return own;
}

// Sum of exp(logit - largest) over a piece, by all lanes of its warp: a word's logits ascending,
// then a lane's words, then lanes pairwise. `largest` is finite, or a logit is NaN or +infinity.
template <class T, int kWords, bool kVector>
__device__ inline float exp_sum(const RowPiece<T, kWords>& own, int vocab, float largest) {
  using Register = LogitRegister<T>;
  constexpr float kLog2E = 1.44269504F;
  float sum = 0.0F;
#pragma unroll
  for (int w = 0; w < kWords; ++w) {
    float word_sum = 0.0F;
#pragma unroll
    for (int i = 0; i < kWordElements<T>; ++i) {
      const int r = 4 * w + i / Register::kCount;
      const int half = i % Register::kCount;
      const float power = exp2_flushed((Register::value(own.bits[r], half) - largest) * kLog2E);
      word_sum += kVector || own.index(r, half) < vocab ? power : 0.0F;
    }
    sum += !kVector || own.word_index(w) < vocab ? word_sum : 0.0F;
  }
  return warp_sum(sum);
}

}  // namespace versieve::kernels
