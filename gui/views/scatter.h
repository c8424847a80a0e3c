// The shown points in a plane of two columns, coloured by a third: solid where measured, hollow
// where simulated or imported, grey where the filter leaves them out; of very many the cells that
// they fall into. A line joins those that nothing shown beats in both. Wheel zooms, dragging pans,
// dragging with shift brushes, a double click fits; a click selects. Keys: left and right select
// the next point, + and - zoom, Home fits.
#pragma once

#include <QPixmap>
#include <QWidget>
#include <vector>

#include "gui/models/document.h"
#include "gui/views/axis.h"
#include "gui/views/scatter_points.h"

namespace versieve::gui {

class Scatter : public QWidget {
  Q_OBJECT
 public:
  explicit Scatter(Document& document, QWidget* parent = nullptr);

  // Indices of point_columns(). Axes need numbers, colours a text.
  void setX(int column);
  int xColumn() const { return columns_.x; }
  void setY(int column);
  int yColumn() const { return columns_.y; }
  void setLog(bool x_is_log, bool y_is_log);
  void setColor(int column);
  // Whether the line of what nothing beats is drawn, where both columns have a better end.
  void setFront(bool is_drawn);
  bool hasFront() const;
  // The points on it, along x. [point]
  const std::vector<std::int32_t>& front();

  bool isReady() const { return !points_job_.isRunning() && !is_stale_; }

  // Where a point is drawn, for tests; null if it cannot be.
  QPointF placeOf(int point) const;
  QRect plotArea() const;
  int drawnCount() const { return drawn_count_; }
  QString emptyText() const;  // why there is nothing to draw, if there is nothing
  QSize minimumSizeHint() const override { return {320, 220}; }

 Q_SIGNALS:
  // In the columns' units: from left to right and from top() to bottom() the values between which
  // points were brushed.
  void brushed(const QRectF& values);

 protected:
  void paintEvent(QPaintEvent* event) override;
  void resizeEvent(QResizeEvent* event) override;
  void showEvent(QShowEvent* event) override;
  void mousePressEvent(QMouseEvent* event) override;
  void mouseMoveEvent(QMouseEvent* event) override;
  void mouseReleaseEvent(QMouseEvent* event) override;
  void mouseDoubleClickEvent(QMouseEvent* event) override;
  void wheelEvent(QWheelEvent* event) override;
  void keyPressEvent(QKeyEvent* event) override;
  void leaveEvent(QEvent* event) override;
  void changeEvent(QEvent* event) override;  // of the palette

 private:
  void fit();  // axes around the shown points
  void choose(const ScatterColumns& columns);
  void read_points(bool fits);
  void take_points(const std::shared_ptr<const ScatterPoints>& points, bool fits);
  void take_shown();
  bool is_current() const;  // the points are the document's
  void invalidate();
  void draw_base();
  void draw_axes(QPainter& painter) const;
  void draw_legend(QPainter& painter) const;
  void draw_points(QPainter& painter);
  void draw_each(QPainter& painter);
  void draw_cells(QPainter& painter);
  void draw_front(QPainter& painter);
  void draw_pins(QPainter& painter) const;
  void draw_mark(QPainter& painter, int point, double radius) const;
  void draw_baseline(QPainter& painter) const;
  void zoom(double factor, double x_fixed, double y_fixed);  // places that stay, of 0 to 1
  int neighbour(int step) const;
  int nearest(const QPointF& at) const;  // shown point within reach, or -1
  double radius() const;

  Document& document_;
  ScatterColumns columns_;
  std::shared_ptr<const ScatterPoints> points_;  // never null
  Job points_job_;
  bool is_stale_ = false;  // while it is not seen
  std::vector<std::int32_t> front_;
  bool front_is_valid_ = false;
  bool draws_front_ = true;
  std::vector<int> drawn_;  // [category]
  Axis x_axis_;
  Axis y_axis_;
  QPixmap base_;  // all but selection and hover
  bool base_is_valid_ = false;
  bool has_other_lengths_ = false;  // some shown L counts no tokens of context
  int drawn_count_ = 0;
  int hollow_count_ = 0;  // of them
  QPointF pressed_at_;
  QPointF dragged_to_;
  bool dragging_ = false;
  bool brushing_ = false;  // dragging with shift
};

}  // namespace versieve::gui
