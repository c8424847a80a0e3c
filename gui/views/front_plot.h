// Tokens a second against what may be lost: a mark a tuple, coloured by class where it is on the
// front and within the limit, grey where another beats it, faint where the limit leaves it out.
// Losses are logarithmic between two lanes: nothing lost, and nobody measured it. The limit is a
// line that is dragged, or moved by left and right from one tuple's loss to the next; Home: nothing
// may be lost, End: no limit. Up and down select the next faster and slower tuple; Enter opens it.
#pragma once

#include <QWidget>

#include "gui/models/quality_front.h"
#include "gui/views/axis.h"
#include "gui/views/saved_view.h"

namespace versieve::gui {

class FrontPlot : public QWidget, public SavedView {
  Q_OBJECT
 public:
  explicit FrontPlot(QWidget* parent = nullptr);

  void show_front(const QualityFront& front);
  const QualityFront& front() const { return front_; }
  // Where a point, and the line of the limit, are drawn.
  // What the tool tip says of the legend there; empty elsewhere.
  QString legendHelpAt(const QPointF& place) const;
  QRectF legendRect(int item) const;  // of the shown ones, from 0; null beyond
  QPointF placeOf(int point) const;
  double limitX() const;
  QRectF plotArea() const;
  int selected() const { return selected_; }  // index into the front's points, or -1
  QList<QStringList> savedRows() const override;
  QSize minimumSizeHint() const override { return {360, 260}; }

 Q_SIGNALS:
  // In nats, in steps that the planner's knob has; none: no limit.
  void limitMoved(std::optional<double> nats);
  void pointSelected(int point);
  void pointOpened(int point);

 protected:
  void paintEvent(QPaintEvent* event) override;
  void mousePressEvent(QMouseEvent* event) override;
  void mouseMoveEvent(QMouseEvent* event) override;
  void mouseReleaseEvent(QMouseEvent* event) override;
  void mouseDoubleClickEvent(QMouseEvent* event) override;
  void keyPressEvent(QKeyEvent* event) override;

 private:
  QRectF measured_area() const;  // between the two lanes
  double x_of(const std::optional<double>& most_kl) const;
  std::optional<double> limit_at(double x) const;
  void step_limit(int step);
  void select(int point);
  int nearest(const QPointF& at) const;
  // A class, or the baselines beyond them, where it stands below the plot.
  struct LegendItem {
    int precision = 0;
    QString name;
    QRectF place;
  };
  std::vector<LegendItem> legend_items() const;
  void draw_axes(QPainter& painter) const;
  void draw_front_line(QPainter& painter) const;
  void draw_point(QPainter& painter, int index) const;
  void draw_limit(QPainter& painter) const;
  void draw_legend(QPainter& painter) const;

  QualityFront front_;
  Axis loss_axis_;
  Axis rate_axis_;
  int selected_ = -1;
  bool dragging_ = false;
};

}  // namespace versieve::gui
