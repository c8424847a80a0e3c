#include "gui/views/report_plot.h"

#include <QHelpEvent>
#include <QPainter>
#include <QToolTip>
#include <cmath>

#include "gui/models/numbers.h"
#include "gui/views/plot_frame.h"
#include "gui/views/text.h"
#include "gui/views/theme.h"

namespace versieve::gui {
namespace {

constexpr int kLeft = 64, kRight = 14, kTop = 42, kBottom = 44;
constexpr double kRadius = 2.5;
constexpr double kReach = 6.0;  // pixels, of the pointer

// Residuals show zero in the middle, and both axes of a comparison the same values.
Axis axis_of(const engine::Plot& plot, bool is_x) {
  const engine::PlotAxis& form = is_x ? plot.x : plot.y;
  std::vector<double> values;
  for (const engine::PlotPoint& point : plot.points) {
    const double value = is_x ? point.x : point.y;
    values.push_back(value);
    if (form.symmetric) {
      values.push_back(-value);
    }
    if (plot.diagonal) {
      values.push_back(is_x ? point.y : point.x);
    }
  }
  return Axis::around(values, form.logarithmic, false);
}

}  // namespace

ReportPlot::ReportPlot(engine::Plot plot, QWidget* parent)
    : QWidget(parent),
      plot_(std::move(plot)),
      x_axis_(axis_of(plot_, true)),
      y_axis_(axis_of(plot_, false)) {
  setAccessibleName(QString::fromStdString(plot_.title));
}

QList<QStringList> ReportPlot::savedRows() const {
  QList<QStringList> rows = {{QString::fromStdString(plot_.x.title),
                              QString::fromStdString(plot_.y.title), tr("Held out"), tr("Point")}};
  for (const engine::PlotPoint& point : plot_.points) {
    rows << QStringList{QString::number(point.x), QString::number(point.y),
                        point.strong ? tr("yes") : tr("no"), QString::fromStdString(point.label)};
  }
  return rows;
}

QRect ReportPlot::area() const {
  return {kLeft, kTop, std::max(1, width() - kLeft - kRight),
          std::max(1, height() - kTop - kBottom)};
}

bool ReportPlot::is_shown(const engine::PlotPoint& point) const {
  return x_axis_.holds(point.x) && y_axis_.holds(point.y);
}

int ReportPlot::drawnCount() const {
  int count = 0;
  for (const engine::PlotPoint& point : plot_.points) {
    count += is_shown(point) ? 1 : 0;
  }
  return count;
}

QPointF ReportPlot::place_of(const engine::PlotPoint& point) const {
  const QRect in = area();
  return {in.left() + x_axis_.place(point.x) * in.width(),
          in.bottom() - y_axis_.place(point.y) * in.height()};
}

void ReportPlot::draw_axes(QPainter& painter) const {
  painter.setFont(font());
  draw_frame(painter, {.x = x_axis_,
                       .y = y_axis_,
                       .area = area(),
                       .x_title = with_micro(QString::fromStdString(plot_.x.title)),
                       .y_title = {},
                       .x_gap = 70,
                       .y_gap = 36,
                       .marks_zero = plot_.y.symmetric});
  QFont small = font();
  small.setPixelSize(theme::kSmallPixels);
  painter.setFont(small);
  painter.setPen(theme::colors().ink);
  painter.drawText(QRect(8, 3, width() - 16, kTop - 6),
                   Qt::AlignLeft | Qt::AlignVCenter | Qt::TextWordWrap,
                   with_micro(QString::fromStdString(plot_.title + ": " + plot_.y.title)));
}

void ReportPlot::draw_points(QPainter& painter, bool strong) const {
  QColor color = strong ? theme::colors().warning : theme::colors().accent;
  color.setAlphaF(strong ? 0.8F : 0.35F);
  painter.setPen(Qt::NoPen);
  painter.setBrush(color);
  for (const engine::PlotPoint& point : plot_.points) {
    if (point.strong == strong && is_shown(point)) {
      painter.drawEllipse(place_of(point), kRadius, kRadius);
    }
  }
}

void ReportPlot::paintEvent(QPaintEvent*) {
  QPainter painter(this);
  painter.fillRect(rect(), theme::colors().panel);
  if (drawnCount() == 0) {
    painter.setPen(theme::colors().quiet_ink);
    painter.drawText(rect(), Qt::AlignCenter,
                     tr("%1: nothing to show").arg(QString::fromStdString(plot_.title)));
    return;
  }
  draw_axes(painter);
  painter.setRenderHint(QPainter::Antialiasing);
  painter.setClipRect(area().adjusted(-3, -3, 3, 3));
  if (plot_.diagonal) {
    painter.setPen(theme::colors().quiet_ink);
    painter.drawLine(area().bottomLeft(), area().topRight());
  }
  draw_points(painter, false);
  draw_points(painter, true);
}

bool ReportPlot::event(QEvent* event) {
  if (event->type() != QEvent::ToolTip) {
    return QWidget::event(event);
  }
  const QHelpEvent& help = *static_cast<QHelpEvent*>(event);
  double nearest = kReach;
  QString text;
  for (const engine::PlotPoint& point : plot_.points) {
    const QPointF apart = is_shown(point) ? place_of(point) - QPointF(help.pos()) : QPointF(1e9, 0);
    if (const double distance = std::hypot(apart.x(), apart.y()); distance < nearest) {
      nearest = distance;
      text = with_micro(QString::fromStdString(point.label));
    }
  }
  QToolTip::showText(help.globalPos(), text, this);
  return true;
}

}  // namespace versieve::gui
