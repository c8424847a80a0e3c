#include "gui/views/plot_frame.h"

#include <QPainter>
#include <algorithm>

#include "gui/views/theme.h"

namespace versieve::gui {

double x_in(const PlotFrame& frame, double value) {
  return frame.area.left() + frame.x.place(value) * frame.area.width();
}

double y_in(const PlotFrame& frame, double value) {
  return frame.area.bottom() - frame.y.place(value) * frame.area.height();
}

void draw_frame(QPainter& painter, const PlotFrame& frame) {
  const theme::Colors& colors = theme::colors();
  const QRect& area = frame.area;
  const QFont usual = painter.font();
  QFont small = usual;
  small.setPixelSize(theme::kSmallPixels);
  painter.setFont(small);
  for (const Tick& tick : frame.x.ticks(std::max(2, area.width() / frame.x_gap))) {
    const double x = x_in(frame, tick.value);
    painter.setPen(colors.grid);
    painter.drawLine(QPointF(x, area.top()), QPointF(x, area.bottom()));
    painter.setPen(colors.quiet_ink);
    painter.drawText(QRectF(x - 40, area.bottom() + 4, 80, 16), Qt::AlignHCenter, tick.text);
  }
  for (const Tick& tick : frame.y.ticks(std::max(2, area.height() / frame.y_gap))) {
    const double y = y_in(frame, tick.value);
    painter.setPen(frame.marks_zero && tick.value == 0.0 ? colors.quiet_ink : colors.grid);
    painter.drawLine(QPointF(area.left(), y), QPointF(area.right(), y));
    painter.setPen(colors.quiet_ink);
    painter.drawText(QRectF(0, y - 8, area.left() - 8, 16), Qt::AlignRight | Qt::AlignVCenter,
                     tick.text);
  }
  painter.setPen(colors.line);
  painter.drawRect(area);
  painter.setPen(colors.ink);
  painter.setFont(usual);
  painter.drawText(QRect(area.left(), area.bottom() + 20, area.width(), 22), Qt::AlignCenter,
                   frame.x_title);
  painter.drawText(QRect(8, 6, area.left() + 200, 20), Qt::AlignLeft | Qt::AlignVCenter,
                   frame.y_title);
}

}  // namespace versieve::gui
