// What lies behind the marks of a plot: grid, ticks and titles of its two axes, the frame.
#pragma once

#include <QRect>
#include <QString>

#include "gui/views/axis.h"

class QPainter;

namespace versieve::gui {

struct PlotFrame {
  const Axis& x;
  const Axis& y;
  QRect area;       // of the marks; what its left side leaves of the widget holds the texts of y
  QString x_title;  // below the area
  QString y_title;  // at the widget's upper left
  int x_gap = 90;   // pixels between two ticks, about
  int y_gap = 32;
  bool marks_zero = false;  // the line where y is 0 stands out
};
// In the painter's font, ticks smaller.
void draw_frame(QPainter& painter, const PlotFrame& frame);
// Where a value lies in the area; of what the axis holds.
double x_in(const PlotFrame& frame, double value);
double y_in(const PlotFrame& frame, double value);

}  // namespace versieve::gui
