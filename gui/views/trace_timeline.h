// One traced step along time, or two stacked: NVTX ranges as phases, under them the launches by
// stream from where each has the GPU (a pale line below: it had begun and waited), the gaps, and
// what the phases' bytes alone need. The wheel zooms around the pointer, a drag moves; Left and
// Right tell one launch after another, Page Up and Page Down those of its phase, Up and Down go
// from step to step, + and - zoom, 0 shows all.
#pragma once

#include <QWidget>

#include "gui/models/step_view.h"
#include "gui/views/saved_view.h"

namespace versieve::gui {

class TraceTimeline : public QWidget, public SavedView {
  Q_OBJECT
 public:
  explicit TraceTimeline(QWidget* parent = nullptr);

  // REQUIRES: the first step has a trace, or nothing is drawn.
  void show_view(const StepViewPtr& view);
  // The second step is moved so that the phase begins in both at one place; empty: the steps do.
  void align(const QString& phase);
  void tell(int step, int launch);
  void tell_phase(const QString& name);  // its first launch, in the first step that has it
  void fit();                            // shows all

  int told_step() const { return told_step_; }
  int told() const { return told_; }  // launch of that step, or -1
  QString told_text() const;
  // In pixels; of what is out of sight beyond the edges.
  QRectF barOf(int step, int launch) const;
  double from_us() const { return from_us_; }  // what is shown, on the first step's clock
  double to_us() const { return to_us_; }
  QSize minimumSizeHint() const override;
  QSize sizeHint() const override { return minimumSizeHint(); }
  QList<QStringList> savedRows() const override;

 Q_SIGNALS:
  void launchTold(int step, int launch);

 protected:
  void paintEvent(QPaintEvent* event) override;
  bool event(QEvent* event) override;  // tool tips
  void wheelEvent(QWheelEvent* event) override;
  void mousePressEvent(QMouseEvent* event) override;
  void mouseMoveEvent(QMouseEvent* event) override;
  void mouseReleaseEvent(QMouseEvent* event) override;
  void mouseDoubleClickEvent(QMouseEvent* event) override;
  void keyPressEvent(QKeyEvent* event) override;

 private:
  const TracedLaunches* step(int step) const;
  int steps() const;
  double shift_us(int step) const;  // of its start, on the first step's clock
  double x_of(double us) const;
  double us_at(double x) const;
  double top_of(int step) const;     // of its block
  double lanes_top(int step) const;  // of its first stream
  double height_of(int step) const;
  QRectF wait_of(int step, int launch) const;
  QRectF bar(int step, double start_ns, double end_ns, double top, double height) const;
  QColor color_of(const QString& phase) const;
  std::pair<int, int> launch_at(const QPointF& place) const;  // step and launch, or -1
  int launch_near(int step, double us) const;
  double own_start_us(int step, int launch) const;  // on the first step's clock
  double longest_us() const;
  void set_range(double from_us, double to_us);
  void zoom(double factor, double around_us);
  void bring_into_sight();
  double told_us() const;
  bool tell_by_key(int key);
  bool move_by_key(int key, bool shifted);
  void step_through_phase(int by);

  void draw_step(QPainter& painter, int step) const;
  void draw_names(QPainter& painter, int step) const;
  void draw_phases(QPainter& painter, int step) const;
  void draw_launches(QPainter& painter, int step) const;
  void draw_priced(QPainter& painter, int step) const;
  void draw_axis(QPainter& painter) const;

  StepViewPtr view_;
  QString aligned_;
  double from_us_ = 0.0, to_us_ = 1.0;
  int told_step_ = 0;
  int told_ = -1;
  QPointF pressed_;
  bool drags_ = false;
  double drag_from_us_ = 0.0;
};

}  // namespace versieve::gui
