// Counter-based random numbers: a uniform is a function of (seed, position, use, index) alone, so
// a run can be had again and does not depend on what was drawn before.
#pragma once

#include <cstdint>

namespace versieve::engine {

enum class UniformUse : std::uint64_t {
  kDraft = 1,  // tokens that a chain draft samples
  kTest = 2,   // acceptance tests and the final draw of a step
};

// Finaliser of splitmix64 (Steele, Lea, Flood 2014).
inline std::uint64_t mix_bits(std::uint64_t z) {
  z += 0x9e3779b97f4a7c15U;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
  return z ^ (z >> 31);
}

// In [0, 1), 24 bits: the same number in float and double.
inline double uniform_at(std::uint64_t seed, std::int64_t position, UniformUse use,
                         std::int64_t index) {
  std::uint64_t bits = mix_bits(seed);
  bits = mix_bits(bits ^ static_cast<std::uint64_t>(position));
  bits =
      mix_bits(bits ^ (static_cast<std::uint64_t>(use) << 32 ^ static_cast<std::uint64_t>(index)));
  return static_cast<double>(bits >> 40) * 0x1p-24;
}

}  // namespace versieve::engine
