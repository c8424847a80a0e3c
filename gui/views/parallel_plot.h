// Parallel coordinates: a line for each point over axes side by side, the shown ones over all in
// grey. A drag along an axis keeps what lies between its ends (it stands in the filter), a click on
// it keeps all again; a drag of a title moves its axis; a click on a line selects. Keys: left and
// right go from axis to axis, up and down move its brush (Shift: the upper end, Ctrl: the lower
// one), Delete keeps all, Ctrl with left and right moves the axis.
#pragma once

#include <QImage>
#include <QWidget>
#include <memory>
#include <optional>
#include <vector>

#include "gui/models/document.h"
#include "gui/views/parallel_axes.h"
#include "gui/views/saved_view.h"

namespace versieve::gui {

class ParallelPlot : public QWidget, public SavedView {
  Q_OBJECT
 public:
  explicit ParallelPlot(Document& document, QWidget* parent = nullptr);

  // Columns of point_columns(), from left to right; of another database those that tell its points
  // apart, until they are chosen.
  void setColumns(const std::vector<int>& columns);
  const std::vector<int>& columns() const { return columns_; }
  // Drawn of the document's points over these columns, two at least.
  bool isReady() const;
  int axisWithKeys() const { return current_; }

  // Where an axis is drawn, and a point on it; for tests.
  QRectF axisRect(int axis) const;
  QRectF titleRect(int axis) const;
  QPointF placeOf(int point, int axis) const;
  QSize minimumSizeHint() const override { return {420, 200}; }

 Q_SIGNALS:
  void columnsChanged();

 protected:
  void paintEvent(QPaintEvent* event) override;
  void resizeEvent(QResizeEvent* event) override;
  void showEvent(QShowEvent* event) override;
  void mousePressEvent(QMouseEvent* event) override;
  void mouseMoveEvent(QMouseEvent* event) override;
  void mouseReleaseEvent(QMouseEvent* event) override;
  void keyPressEvent(QKeyEvent* event) override;
  void leaveEvent(QEvent* event) override;
  void changeEvent(QEvent* event) override;

 private:
  enum class Grip { kNone, kLine, kBrush, kMove, kLow, kHigh, kTitle };

  void take_snapshot();
  void take_shown();
  void make_scene();
  void take_scene(const std::shared_ptr<ParallelScene>& scene);
  void move_axis(int from, int to);
  void brush(int axis, const ParallelAxis::Brush& brush);
  ParallelAxis::Brush brush_of(int axis) const;  // from its lowest to its highest end
  Grip grip_at(const QPointF& place, int& axis) const;
  int nearest_axis(double x) const;
  int nearest_line(const QPointF& place) const;  // a shown point, or -1
  void tell_axis();

  QRectF plot_area() const;
  int axis_count() const { return static_cast<int>(columns_.size()); }
  QImage all_image() const;
  QImage shown_image();
  LineDensity new_bands() const;
  void draw_axis(QPainter& painter, int axis, const PointFilter& filter) const;
  void draw_line(QPainter& painter, int point, const QPen& pen) const;

  Document& document_;
  std::vector<int> columns_;
  bool columns_are_chosen_ = false;
  std::shared_ptr<ParallelScene> scene_;  // may be null
  Job scene_job_;
  bool is_stale_ = false;  // while it is not seen
  PairCounts shown_counts_;
  std::optional<LineDensity> bands_;  // of shown_image_, where it is of bands
  PairCounts banded_counts_;          // that they are of
  QImage all_image_, shown_image_;
  bool all_is_valid_ = false, shown_is_valid_ = false;
  int current_ = 0;  // axis of the keys
  Grip grip_ = Grip::kNone;
  int gripped_ = -1;
  QPointF pressed_at_, dragged_to_;
  ParallelAxis::Brush grip_brush_;
  bool dragged_ = false;
};

}  // namespace versieve::gui
