// One plot of a fit's report: points on linear or logarithmic axes, those held out in front. The
// pointer over a point shows which it is.
#pragma once

#include <QWidget>

#include "engine/analyse/fit/svg_plot.h"
#include "gui/views/axis.h"
#include "gui/views/saved_view.h"

namespace versieve::gui {

class ReportPlot : public QWidget, public SavedView {
  Q_OBJECT
 public:
  explicit ReportPlot(engine::Plot plot, QWidget* parent = nullptr);

  int drawnCount() const;  // points that the axes can show
  QList<QStringList> savedRows() const override;
  QSize minimumSizeHint() const override { return {230, 230}; }

 protected:
  void paintEvent(QPaintEvent* event) override;
  bool event(QEvent* event) override;  // tool tips

 private:
  QRect area() const;
  bool is_shown(const engine::PlotPoint& point) const;
  QPointF place_of(const engine::PlotPoint& point) const;
  void draw_axes(QPainter& painter) const;
  void draw_points(QPainter& painter, bool strong) const;

  engine::Plot plot_;
  Axis x_axis_;
  Axis y_axis_;
};

}  // namespace versieve::gui
