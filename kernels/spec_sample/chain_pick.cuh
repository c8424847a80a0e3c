// Where a sample ends, where positions do not vote: by a launch after them.
#pragma once

#include "kernels/spec_sample/chain_position.cuh"

namespace versieve::kernels {

// By one warp: the sample's first position without an acceptance is the last.
template <class T>
__device__ void pick_end(const SpecSampleParams<T>& s, std::int64_t sample,
                         const std::int32_t* drawn) {
  const std::int64_t lane = threadIdx.x % 32;
  std::int32_t* const tokens = s.tokens + sample * (s.gamma + 1);
  bool over = false;
  for (std::int64_t base = 0; base <= s.gamma; base += 32) {
    const std::int64_t c = base + lane;
    const std::int32_t own = c <= s.gamma ? drawn[sample * (s.gamma + 1) + c] : 0;
    const std::int32_t drafted = c < s.gamma ? s.draft_tokens[sample * s.gamma + c] : 0;
    const unsigned ends = __ballot_sync(0xFFFFFFFFU, own != kAccepted);
    const std::int64_t end = ends != 0 ? base + __ffs(static_cast<int>(ends)) - 1 : s.gamma + 1;
    if (c <= s.gamma) {
      tokens[c] = over || c > end ? -1 : (c == end ? own : drafted);
    }
    if (!over && ends != 0 && lane == 0) {
      s.accepted[sample] = static_cast<std::int32_t>(end);
    }
    over = over || ends != 0;
  }
}

}  // namespace versieve::kernels
