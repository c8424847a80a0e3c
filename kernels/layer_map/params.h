// layer_map: the monotone alignment of verifier layers with draft layers whose attention is most
// alike. Source: SpecAttn, appendix B, with the cost looked up at the cell being filled; rules:
// README.md of this folder (the door).
#pragma once

#include <cstdint>

namespace versieve::kernels {

// Sums are in double on every device: the table is small and ties decide.
struct LayerMapParams {
  std::int64_t draft_layers = 0;       // m
  std::int64_t verifier_layers = 0;    // n
  const double* similarity = nullptr;  // [m, n]: higher is more alike, -inf forbids
  std::int32_t* map = nullptr;         // [n], non-decreasing; all -1 if every map is forbidden
  double* score = nullptr;             // [1]: sum of the similarities taken, or -inf
};

}  // namespace versieve::kernels
