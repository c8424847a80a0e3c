// The pictures of a measured step: its launches along time, two steps stacked and aligned; launches
// under the roofs of measured rates; bytes by term against what was counted; what the queries of a
// tree share by order and distance. Left and Right tell one launch after another.
#pragma once

#include <QWidget>

#include "gui/models/step_view.h"
#include "gui/views/axis.h"
#include "gui/views/saved_view.h"

namespace versieve::gui {

// One picture of the view; `told`: the launch of the first step that is spoken of, in all pictures
// the same.
class StepPicture : public QWidget, public SavedView {
  Q_OBJECT
 public:
  StepPicture(const QString& name, QWidget* parent = nullptr);

  void show_view(const StepViewPtr& view);
  void tell(int launch);
  int told() const { return told_; }
  // The launches of both steps with all that the pictures draw of them.
  QList<QStringList> savedRows() const override;

 Q_SIGNALS:
  void launchTold(int launch);

 protected:
  virtual int launch_at(const QPointF& place) const = 0;  // of the first step, or -1
  virtual void draw(QPainter& painter) = 0;
  // The first of the texts that fits, the longest first; of the axis below `top`.
  void draw_title(QPainter& painter, const QStringList& texts) const;
  void draw_axis_title(QPainter& painter, double top, const QStringList& texts) const;

  void paintEvent(QPaintEvent* event) override;
  void mouseMoveEvent(QMouseEvent* event) override;
  void mousePressEvent(QMouseEvent* event) override;
  void keyPressEvent(QKeyEvent* event) override;

  StepViewPtr view_;
  int told_ = -1;
};

class StepTimeline : public StepPicture {
 public:
  explicit StepTimeline(QWidget* parent = nullptr);
  // Where a launch of the first (row 0) or second step lies.
  QRectF barOf(int row, int launch) const;
  QSize minimumSizeHint() const override { return {300, 128}; }

 protected:
  int launch_at(const QPointF& place) const override;
  void draw(QPainter& painter) override;

 private:
  const MeasuredStep* step(int row) const;
  double longest_us() const;
  int color_of(const QString& name) const;
  void draw_row(QPainter& painter, int row) const;
};

class Roofline : public StepPicture {
 public:
  explicit Roofline(QWidget* parent = nullptr);
  QPointF placeOf(int launch) const;  // null: it has no arithmetic, time or bytes
  QSize minimumSizeHint() const override { return {260, 220}; }

 protected:
  int launch_at(const QPointF& place) const override;
  void draw(QPainter& painter) override;

 private:
  QRectF area() const;
  QPointF place(double intensity, double rate) const;
  void set_axes();
  void draw_roofs(QPainter& painter) const;
  double radius_of(int launch) const;
  void draw_marks(QPainter& painter) const;
  void draw_names(QPainter& painter) const;

  Axis intensity_;
  Axis rate_;
};

class TermBars : public StepPicture {
 public:
  explicit TermBars(QWidget* parent = nullptr);
  QSize minimumSizeHint() const override { return {260, 220}; }

 protected:
  int launch_at(const QPointF& place) const override;
  void draw(QPainter& painter) override;

 private:
  double row_height() const;
};

class SharingPlot : public StepPicture {
 public:
  explicit SharingPlot(QWidget* parent = nullptr);
  QSize minimumSizeHint() const override { return {240, 220}; }

 protected:
  int launch_at(const QPointF&) const override { return -1; }
  void draw(QPainter& painter) override;

 private:
  void draw_groups(QPainter& painter, const QRectF& area) const;
};

}  // namespace versieve::gui
