#include "gui/views/axis.h"

#include <algorithm>
#include <cmath>

#include "gui/models/numbers.h"

namespace versieve::gui {
namespace {

constexpr double kMargin = 0.05;                    // of the range, at each end
constexpr double kLog10Of2 = 0.301029995663981195;  // log2 takes a third of log10's time

// The smallest of 1, 2, 5 times a power of ten that is not below `step`.
double nice_step(double step) {
  const double decade = std::pow(10.0, std::floor(std::log10(step)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (decade * factor >= step * (1.0 - 1e-9)) {
      return decade * factor;
    }
  }
  return decade * 10.0;
}

}  // namespace

Axis Axis::around(const std::vector<double>& values, bool is_log, bool counts_tokens) {
  Axis axis;
  axis.is_log_ = is_log;
  double low = std::nan(""), high = low;
  for (const double value : values) {
    const double at = axis.scaled(value);
    low = std::fmin(low, at);
    high = std::fmax(high, at);
  }
  return between(low, high, is_log, counts_tokens);
}

Axis Axis::between(double low, double high, bool is_log, bool counts_tokens) {
  Axis axis;
  axis.is_log_ = is_log;
  axis.counts_tokens_ = counts_tokens;
  if (std::isfinite(low) && std::isfinite(high)) {
    axis.low_ = low;
    axis.high_ = high;
  }
  const double smallest = is_log ? 0.1 : std::max(std::fabs(axis.high_) * 0.1, 1e-9);
  const double margin = std::max(kMargin * (axis.high_ - axis.low_), smallest / 2.0);
  axis.low_ -= margin;
  axis.high_ += margin;
  return axis;
}

bool Axis::holds(double value) const {
  return std::isfinite(value) && (!is_log_ || value > 0.0);
}

double Axis::scaled(double value) const {
  return !holds(value) ? std::nan("") : is_log_ ? kLog10Of2 * std::log2(value) : value;
}

double Axis::place(double value) const {
  return (scaled(value) - low_) / (high_ - low_);
}

double Axis::value_at(double place) const {
  const double at = low_ + place * (high_ - low_);
  return is_log_ ? std::pow(10.0, at) : at;
}

void Axis::zoom(double factor, double around_place) {
  const double fixed_point = low_ + around_place * (high_ - low_);
  low_ = fixed_point + (low_ - fixed_point) * factor;
  high_ = fixed_point + (high_ - fixed_point) * factor;
}

void Axis::shift(double places) {
  const double by = places * (high_ - low_);
  low_ += by;
  high_ += by;
}

std::vector<Tick> Axis::ticks(int wanted) const {
  if (!is_log_) {
    return linear_ticks(wanted);
  }
  return counts_tokens_ ? token_ticks(wanted) : log_ticks(wanted);
}

std::vector<Tick> Axis::linear_ticks(int wanted) const {
  std::vector<Tick> ticks;
  const double step = nice_step((high_ - low_) / std::max(wanted, 1));
  for (double at = std::ceil(low_ / step) * step; at <= high_ + step * 1e-9; at += step) {
    const double value = std::fabs(at) < step * 1e-6 ? 0.0 : at;
    ticks.push_back({value, tick_text(value, step, counts_tokens_)});
  }
  return ticks;
}

// Powers of ten, with 2 and 5 between them where there is room; linear steps on a short range.
std::vector<Tick> Axis::log_ticks(int wanted) const {
  std::vector<Tick> ticks;
  if (high_ - low_ < 0.7) {
    Axis linear;
    linear.low_ = value_at(0.0);
    linear.high_ = value_at(1.0);
    return linear.linear_ticks(wanted);
  }
  const bool between = (high_ - low_) * 3.0 <= wanted;
  int every = std::max(1, static_cast<int>(std::ceil((high_ - low_) / wanted)));
  ticks = decade_ticks(every, between);
  while (ticks.size() < 2 && every > 1) {  // one tick gives no scale
    ticks = decade_ticks(--every, between);
  }
  return ticks.size() < 2 ? decade_ticks(1, true) : ticks;
}

std::vector<Tick> Axis::decade_ticks(int every, bool between) const {
  std::vector<Tick> ticks;
  for (int decade = static_cast<int>(std::floor(low_ / every)) * every; decade <= high_;
       decade += every) {
    for (const double factor : {1.0, 2.0, 5.0}) {
      const double value = factor * std::pow(10.0, decade);
      const double at = std::log10(value);
      if ((factor == 1.0 || between) && at >= low_ && at <= high_) {
        ticks.push_back({value, tick_text(value, value, false)});
      }
    }
  }
  return ticks;
}

// Powers of two.
std::vector<Tick> Axis::token_ticks(int wanted) const {
  std::vector<Tick> ticks;
  const double per_octave = std::log10(2.0);
  const int every = std::max(1, static_cast<int>(std::ceil((high_ - low_) / per_octave / wanted)));
  for (int octave = static_cast<int>(std::ceil(low_ / per_octave)); octave * per_octave <= high_;
       octave += every) {
    const double value = std::exp2(octave);
    ticks.push_back({value, tick_text(value, value, true)});
  }
  return ticks;
}

}  // namespace versieve::gui
