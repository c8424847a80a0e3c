// Counter-based random numbers: a function of what they are asked for (seed, position, token), on
// CPU and GPU the same bits, so that a run can be had again and draft and target can share them.
#pragma once

#include <cmath>
#include <cstdint>

#if defined(__CUDACC__)
#define VERSIEVE_RANDOM_INLINE __host__ __device__ __forceinline__
#else
#define VERSIEVE_RANDOM_INLINE inline
#endif

namespace versieve::kernels {

// Finaliser of splitmix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators,
// 2014).
VERSIEVE_RANDOM_INLINE std::uint64_t mix_bits(std::uint64_t z) {
  z += 0x9e3779b97f4a7c15U;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
  return z ^ (z >> 31);
}

// The standard Gumbel number of 32 bits, -log(-log u): v = (bits + 1/2) / 2^32 is 1 - u, so that
// the largest numbers, which decide, keep their precision in f32, and u itself is made of the bits
// where it is the smaller. Within -3.14 and 22.9.
template <class Real>
VERSIEVE_RANDOM_INLINE Real gumbel_of(std::uint32_t bits) {
  const bool near_one = bits < 0x80000000U;  // u
  const Real least =
      (static_cast<Real>(near_one ? bits : ~bits) + Real(0.5)) * Real(0x1p-32);  // of v and u
  return -std::log(-(near_one ? std::log1p(-least) : std::log(least)));
}

// What all tokens of one place share; `use` keeps these numbers apart from others of the seed.
VERSIEVE_RANDOM_INLINE std::uint64_t place_key(std::uint64_t seed, std::int64_t position,
                                               std::uint64_t use) {
  return mix_bits(mix_bits(mix_bits(seed) ^ static_cast<std::uint64_t>(position)) ^ use << 32);
}

VERSIEVE_RANDOM_INLINE std::uint32_t token_bits(std::uint64_t place, std::int64_t token) {
  return static_cast<std::uint32_t>(mix_bits(place ^ static_cast<std::uint64_t>(token)) >> 32);
}

}  // namespace versieve::kernels
