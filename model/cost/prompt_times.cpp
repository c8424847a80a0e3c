#include "model/cost/prompt_times.h"

#include <algorithm>
#include <cmath>

#include "model/words/assert.h"

namespace versieve {
namespace {

double log_of(std::int64_t tokens) {
  return std::log(static_cast<double>(tokens));
}

double log_error_of(const PromptTimes::Point& p) {
  constexpr double kNinetyFive = 1.96;
  const bool known = p.interval.low > 0.0 && p.interval.high >= p.interval.low;
  return known ? std::log(p.interval.high / p.interval.low) / (2.0 * kNinetyFive) : 0.0;
}

}  // namespace

PromptTime prompt_time(const PromptTimes& times, std::int64_t tokens) {
  const std::vector<PromptTimes::Point>& points = times.points;
  VERSIEVE_ASSERT(!points.empty() && tokens >= 1, "a prompt and measured ones have tokens");
  const auto above =
      std::find_if(points.begin(), points.end(),
                   [tokens](const PromptTimes::Point& p) { return p.tokens >= tokens; });
  // The two that stand on either side of it, or are nearest to it on one.
  const std::size_t last = points.size() - 1;
  const std::size_t at = static_cast<std::size_t>(above - points.begin());
  const std::size_t second = std::min(std::max<std::size_t>(at, 1), last);
  const PromptTimes::Point& b = points[second];
  const PromptTimes::Point& a = second > 0 ? points[second - 1] : b;
  const double slope =
      a.tokens < b.tokens ? std::log(b.ms / a.ms) / (log_of(b.tokens) - log_of(a.tokens)) : 1.0;
  const PromptTimes::Point& from =
      std::fabs(log_of(tokens) - log_of(a.tokens)) < std::fabs(log_of(tokens) - log_of(b.tokens))
          ? a
          : b;
  const double distance = log_of(tokens) - log_of(from.tokens);
  PromptTime out{.ms = from.ms * std::exp(slope * distance)};
  const bool inside = tokens >= points.front().tokens && tokens <= points.back().tokens;
  const double beyond = inside ? (distance == 0.0 ? 0.0 : kPromptBetweenError)
                               : kPromptDoublingError * std::fabs(distance) / std::log(2.0);
  out.log_error = std::hypot(log_error_of(from), kPromptCardError, beyond);
  return out;
}

}  // namespace versieve
