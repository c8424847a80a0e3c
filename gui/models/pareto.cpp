#include "gui/models/pareto.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

namespace versieve::gui {
namespace {

constexpr std::size_t kBuckets = 1024;

struct Range {
  float low = std::numeric_limits<float>::infinity();
  float high = -std::numeric_limits<float>::infinity();
};

Range range_of(std::span<const float> values, std::span<const std::uint8_t> mask) {
  Range range;
  for (std::size_t at = 0; at < values.size(); ++at) {
    if (mask[at] != 0 && !std::isnan(values[at])) {
      range.low = std::min(range.low, values[at]);
      range.high = std::max(range.high, values[at]);
    }
  }
  return range;
}

}  // namespace

// Points are put into buckets along x. One that is worse in y than the best of a better bucket is
// beaten: what is left is sorted and swept.
std::vector<std::int32_t> pareto_front(std::span<const float> x, std::span<const float> y,
                                       std::span<const std::uint8_t> mask, float x_sign,
                                       float y_sign) {
  const Range range = range_of(x, mask);
  const float scale =
      range.high > range.low ? static_cast<float>(kBuckets - 1) / (range.high - range.low) : 0.0F;
  const auto bucket_of = [&](std::size_t at) {
    const float place = x_sign > 0 ? x[at] - range.low : range.high - x[at];
    return std::min(kBuckets - 1, static_cast<std::size_t>(place * scale));
  };
  constexpr float kNone = -std::numeric_limits<float>::infinity();
  std::vector<float> best(kBuckets + 1, kNone);  // [bucket]: of y times its sign
  for (std::size_t at = 0; at < x.size(); ++at) {
    if (mask[at] != 0 && !std::isnan(x[at]) && !std::isnan(y[at])) {
      float& of_bucket = best[bucket_of(at)];
      of_bucket = std::max(of_bucket, y_sign * y[at]);
    }
  }
  for (std::size_t bucket = kBuckets; bucket-- > 0;) {
    best[bucket] = std::max(best[bucket], best[bucket + 1]);
  }
  std::vector<std::int32_t> left;
  for (std::size_t at = 0; at < x.size(); ++at) {
    if (mask[at] != 0 && !std::isnan(x[at]) && !std::isnan(y[at]) &&
        y_sign * y[at] > best[bucket_of(at) + 1]) {
      left.push_back(static_cast<std::int32_t>(at));
    }
  }
  std::sort(left.begin(), left.end(), [&](std::int32_t a, std::int32_t b) {
    const std::size_t i = static_cast<std::size_t>(a), j = static_cast<std::size_t>(b);
    return std::tuple(-x_sign * x[i], -y_sign * y[i], a) <
           std::tuple(-x_sign * x[j], -y_sign * y[j], b);
  });
  std::vector<std::int32_t> front;
  float highest = kNone;
  for (const std::int32_t point : left) {
    if (const float value = y_sign * y[static_cast<std::size_t>(point)]; value > highest) {
      highest = value;
      front.push_back(point);
    }
  }
  if (x_sign > 0) {
    std::reverse(front.begin(), front.end());
  }
  return front;
}

}  // namespace versieve::gui
