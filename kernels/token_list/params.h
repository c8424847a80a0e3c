// token_list: from masks of tokens to ascending lists of the tokens that are read, whole chunks of
// neighbours at a time. Rules: README.md of this folder.
#pragma once

#include <cstdint>

#include "kernels/common/step_counts.h"

namespace versieve::kernels {

struct TokenListParams {
  std::int64_t lists = 0;         // draft layers of SpecAttn
  std::int64_t length = 0;        // L
  std::int64_t chunk = 16;        // tokens that are read together, aligned
  std::int64_t token_stride = 0;  // room of a list; 0 means L
  std::int64_t mask_stride = 0;   // elements between masks; 0 means L
  // Device memory or null. Not null: L is counts->context_len, and `length` an upper bound of it.
  const StepCounts* counts = nullptr;
  const std::int32_t* mask = nullptr;  // [lists, L]: not 0 for a token that is wanted
  std::int32_t* token = nullptr;       // [lists, token_stride]: the first count[i] are written
  std::int32_t* count = nullptr;       // [lists]
  std::int64_t* total = nullptr;       // [lists] or null: grows by the count

  std::int64_t stride() const { return token_stride == 0 ? length : token_stride; }
  std::int64_t between_masks() const { return mask_stride == 0 ? length : mask_stride; }
  std::int64_t chunks() const { return (length + chunk - 1) / chunk; }
};

}  // namespace versieve::kernels
