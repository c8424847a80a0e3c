// One axis of a plot: from values to pixels and back, linear or logarithmic, and where its ticks
// are.
#pragma once

#include <QString>
#include <vector>

namespace versieve::gui {

struct Tick {
  double value = 0.0;
  QString text;
};

class Axis {
 public:
  // A range around these values with a margin; NaN and, on a logarithmic axis, values that are not
  // positive do not count.
  static Axis around(const std::vector<double>& values, bool is_log, bool counts_tokens);

  // The same of the least and the greatest value in scaled units; NaN: there are none.
  static Axis between(double low, double high, bool is_log, bool counts_tokens);

  // What the axis is even in: the value, or its logarithm. NaN: it cannot be drawn.
  double scaled(double value) const;
  double low() const { return low_; }  // the ends, scaled
  double high() const { return high_; }
  bool holds(double value) const;    // can be drawn at all
  double place(double value) const;  // 0 at the low end, 1 at the high end
  double value_at(double place) const;
  void zoom(double factor, double around_place);
  void shift(double places);
  // At most about `wanted`.
  std::vector<Tick> ticks(int wanted) const;

  bool is_log() const { return is_log_; }

 private:
  std::vector<Tick> linear_ticks(int wanted) const;
  std::vector<Tick> log_ticks(int wanted) const;
  std::vector<Tick> decade_ticks(int every, bool between) const;
  std::vector<Tick> token_ticks(int wanted) const;

  double low_ = 0.0;  // in scaled units: log10 on a logarithmic axis
  double high_ = 1.0;
  bool is_log_ = false;
  bool counts_tokens_ = false;
};

}  // namespace versieve::gui
