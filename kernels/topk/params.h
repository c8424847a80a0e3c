// topk: the k largest scores of each row, exactly. Source: Guess-Verify-Refine top-k; exact
// readings of every rule: README.md of this folder (the door). Shapes: R rows, Lp scores a row, k
// wanted.
#pragma once

#include <cstdint>

#include "kernels/common/element.h"

namespace versieve::kernels {

// How the k-th largest is found; the results are the same bits.
enum class TopkVariant { kSort, kRadix, kGvr };

template <class T>
struct TopkParams {
  TopkVariant variant = TopkVariant::kSort;
  std::int64_t rows = 0;    // R
  std::int64_t length = 0;  // Lp
  std::int64_t k = 0;
  const T* scores = nullptr;  // [R, Lp]
  const std::int32_t* hint =
      nullptr;                      // [R, k] or null: a guess of any quality; only `gvr` reads it
  std::int32_t* indices = nullptr;  // [R, k], ascending, then -1
  T* values = nullptr;              // [R, k], scores at the indices bit for bit, then -inf
};

}  // namespace versieve::kernels
