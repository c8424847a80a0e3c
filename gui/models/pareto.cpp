#include "gui/models/pareto.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>

namespace versieve::gui {
namespace {

struct Place {
  float y = 0.0F;
  std::int32_t point = 0;
};

}  // namespace

// The front so far, by x: y falls along it. Nearly every point is beaten by the first one of it
// that is as good in x, and few fronts are long: a million points take some milliseconds.
std::vector<std::int32_t> pareto_front(std::span<const float> x, std::span<const float> y,
                                       std::span<const std::uint8_t> mask, float x_sign,
                                       float y_sign) {
  std::map<float, Place> front;  // by x times its sign
  for (std::size_t at = 0; at < x.size(); ++at) {
    if (mask[at] == 0 || std::isnan(x[at]) || std::isnan(y[at])) {
      continue;
    }
    const float good_x = x_sign * x[at], good_y = y_sign * y[at];
    const auto as_good = front.lower_bound(good_x);
    if (as_good != front.end() && as_good->second.y >= good_y) {
      continue;
    }
    auto beaten = as_good != front.end() && as_good->first == good_x ? std::next(as_good) : as_good;
    while (beaten != front.begin() && std::prev(beaten)->second.y <= good_y) {
      beaten = front.erase(std::prev(beaten));
    }
    front[good_x] = {good_y, static_cast<std::int32_t>(at)};
  }
  std::vector<std::int32_t> points;
  for (const auto& [good_x, place] : front) {
    points.push_back(place.point);
  }
  if (x_sign < 0.0F) {
    std::reverse(points.begin(), points.end());
  }
  return points;
}

}  // namespace versieve::gui
