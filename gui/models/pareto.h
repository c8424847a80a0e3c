// The points that no other one beats in two values at once.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace versieve::gui {

// Of the points with a 1 in the mask those that none is at least as good as in both values and
// better in one, along x; of equal points the first. x_sign, y_sign: 1 where more is better, -1
// where less is. NaN stands outside.
std::vector<std::int32_t> pareto_front(std::span<const float> x, std::span<const float> y,
                                       std::span<const std::uint8_t> mask, float x_sign,
                                       float y_sign);

}  // namespace versieve::gui
