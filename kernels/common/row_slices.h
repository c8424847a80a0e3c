// Rows that a launch counts along the second or third side of its grid, which is 16 bits.
#pragma once

#include <algorithm>
#include <cstdint>

namespace versieve::kernels {

inline constexpr std::int64_t kMostGridRows = 65535;

// launch(first, rows) for slices that a grid holds, in order; nothing for no rows.
template <class Launch>
void launch_row_slices(std::int64_t rows, const Launch& launch) {
  for (std::int64_t first = 0; first < rows; first += kMostGridRows) {
    launch(first, std::min(kMostGridRows, rows - first));
  }
}

}  // namespace versieve::kernels
