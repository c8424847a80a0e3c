// Counts of a running step that live in device memory, so that a captured graph of a step can be
// replayed while the context grows.
#pragma once

#include <cstdint>

namespace versieve::kernels {

struct StepCounts {
  std::int32_t context_len = 0;      // L: committed tokens
  std::int32_t tree_compressed = 0;  // E: path-local compressed tokens of this step's tree
};

}  // namespace versieve::kernels
