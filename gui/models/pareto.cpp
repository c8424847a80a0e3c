#include "gui/models/pareto.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

namespace versieve::gui {
namespace {

// Nothing on it is beaten by another: x rises along it and y falls. Each times its sign.
struct Front {
  std::vector<float> x, y;
  std::vector<std::int32_t> points;

  // The first that is as good in x.
  std::size_t asGood(float good_x) const {
    return static_cast<std::size_t>(std::lower_bound(x.begin(), x.end(), good_x) - x.begin());
  }
  // In the place of those from begin to end.
  void put(std::size_t begin, std::size_t end, float good_x, float good_y, std::int32_t point) {
    const auto replace = [begin, end](auto& of, auto value) {
      const auto first = of.begin() + static_cast<std::ptrdiff_t>(begin);
      of.insert(of.erase(first, of.begin() + static_cast<std::ptrdiff_t>(end)), value);
    };
    replace(x, good_x);
    replace(y, good_y);
    replace(points, point);
  }
};

}  // namespace

// Nearly every point is beaten by the first one of the front so far that is as good in x, and few
// fronts are long: a million points take some milliseconds.
std::vector<std::int32_t> pareto_front(std::span<const float> x, std::span<const float> y,
                                       std::span<const std::uint8_t> mask, float x_sign,
                                       float y_sign) {
  Front front;
  for (std::size_t at = 0; at < x.size(); ++at) {
    if (mask[at] == 0 || std::isnan(x[at]) || std::isnan(y[at])) {
      continue;
    }
    const float good_x = x_sign * x[at], good_y = y_sign * y[at];
    const std::size_t as_good = front.asGood(good_x);
    if (as_good < front.x.size() && front.y[as_good] >= good_y) {
      continue;
    }
    const bool same_x = as_good < front.x.size() && front.x[as_good] == good_x;
    std::size_t first_beaten = as_good;
    while (first_beaten > 0 && front.y[first_beaten - 1] <= good_y) {
      --first_beaten;
    }
    front.put(first_beaten, as_good + (same_x ? 1 : 0), good_x, good_y,
              static_cast<std::int32_t>(at));
  }
  if (x_sign < 0.0F) {
    std::reverse(front.points.begin(), front.points.end());
  }
  return std::move(front.points);
}

}  // namespace versieve::gui
