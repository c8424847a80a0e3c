// top_p: which tokens carry a share p of the attention mass of each of several rows, found by
// bisection without sorting, and the union over the rows. Source: SpecAttn, section 3.4 and
// algorithm 2; rules: README.md of this folder (the door).
#pragma once

#include <cstdint>

#include "kernels/common/step_counts.h"

namespace versieve::kernels {

// Halvings that resolve the least threshold of an attention row: 2^-24 of its largest weight, below
// which f32 weights of a row with one loud token hold less than a hundredth (measured:
// engine/run/specattn/TRIED.md).
inline constexpr std::int64_t kTopPHalvings = 24;

// S = double or float; masses are summed in double on every device.
template <class S>
struct TopPParams {
  std::int64_t rows = 0;         // gamma
  std::int64_t length = 0;       // L
  std::int64_t row_stride = 0;   // elements between rows; 0 means L
  std::int64_t lists = 1;        // choices of their own: draft layers of SpecAttn
  std::int64_t list_stride = 0;  // elements between the rows of two; 0 means gamma rows
  std::int64_t mask_stride = 0;  // between two masks; 0 means L
  // Device memory or null. Not null: L is counts->context_len, and `length` an upper bound of it.
  const StepCounts* counts = nullptr;
  double p = 1.0;  // of the mass, in (0, 1]
  std::int64_t iterations = kTopPHalvings;
  const S* weights = nullptr;    // [lists, gamma, L], not negative
  std::int32_t* mask = nullptr;  // [lists, L]: 1 for a token that any row of the list keeps
  S* mass = nullptr;             // [lists, gamma]: of the row's own kept tokens, absolute

  std::int64_t stride() const { return row_stride == 0 ? length : row_stride; }
  std::int64_t between_lists() const { return list_stride == 0 ? rows * stride() : list_stride; }
  std::int64_t between_masks() const { return mask_stride == 0 ? length : mask_stride; }
};

}  // namespace versieve::kernels
