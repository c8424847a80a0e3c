// Ratios of a comparison against the value of the first: a mark a row, triangles where something is
// worse or better, small dots where it is the same within noise, whose band is shaded; hollow where
// it was not judged. A click selects the nearest; Up and Down go along the list, Home to its top.
#pragma once

#include <QWidget>

#include "gui/models/comparison_rows.h"
#include "gui/views/axis.h"
#include "gui/views/saved_view.h"

namespace versieve::gui {

class RatioPlot : public QWidget, public SavedView {
  Q_OBJECT
 public:
  explicit RatioPlot(const ComparisonRows& rows, QWidget* parent = nullptr);

  void select(int row);
  int selected() const { return selected_; }
  QPointF placeOf(int row) const;  // null if it cannot be drawn
  QRect plotArea() const;
  QSize minimumSizeHint() const override { return {360, 200}; }

 Q_SIGNALS:
  void rowSelected(int row);

 protected:
  void paintEvent(QPaintEvent* event) override;
  void mousePressEvent(QMouseEvent* event) override;
  void mouseMoveEvent(QMouseEvent* event) override;
  void keyPressEvent(QKeyEvent* event) override;

 private:
  void take_rows();
  int nearest(const QPointF& at) const;
  void choose(int row);
  void draw_axes(QPainter& painter) const;
  void draw_band(QPainter& painter) const;
  void draw_mark(QPainter& painter, int row) const;
  void draw_legend(QPainter& painter) const;
  QString unit() const;
  double shown_value(double base) const;  // in the axis's unit

  const ComparisonRows& rows_;
  Axis base_axis_;
  Axis ratio_axis_;
  int selected_ = -1;
};

}  // namespace versieve::gui
