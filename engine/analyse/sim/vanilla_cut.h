// How the vanilla launches of nsa_verify are cut, as kernels/nsa_verify/vanilla.cuh cuts them.
#pragma once

#include "engine/analyse/sim/attention_case.h"

namespace versieve::engine {

inline constexpr std::int64_t kVanillaSpan = 512;  // compressed tokens of a CTA
inline constexpr std::int64_t kVanillaChunk = 64;  // keys of a step
inline constexpr std::int64_t kVanillaHeadTile = 4;
inline constexpr std::int64_t kScoreTile = 2048;       // compressed tokens of a step of nsa_select
inline constexpr std::int64_t kCombineElements = 512;  // of a CTA

inline std::int64_t padded_heads(const AttentionCase& a) {
  return (a.group_heads() + kVanillaHeadTile - 1) / kVanillaHeadTile * kVanillaHeadTile;
}
inline std::int64_t vanilla_spans(const AttentionCase& a) {
  return (a.max_compressed() + kVanillaSpan - 1) / kVanillaSpan;
}
inline std::int64_t attention_threads(const AttentionCase& a) {
  return padded_heads(a) / kVanillaHeadTile * 128;
}

void place_vanilla_scratch(AddressSpace& space, AttentionCase& attention);

}  // namespace versieve::engine
