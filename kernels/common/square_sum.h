// How rows carry the sum of their squares from the layer that makes them to the one that divides by
// its root.
#pragma once

namespace versieve::kernels {

// A sum of squares in units of 2^-30: integers, so that whoever adds in whichever order makes the
// same bits. Rows up to a sum of 2^33 (a root mean square of 2,048 at 2,048 elements).
using SquareSum = unsigned long long;
inline constexpr double kSquareSumUnit = 1.0 / (1LL << 30);

}  // namespace versieve::kernels
