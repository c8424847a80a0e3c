// From how many requests at once on a tree yields to a chain and a chain to plain decoding: a row a
// context range of one class, along requests; at each switch its number and 90 % interval, and the
// end of what fits into memory.
#pragma once

#include <QWidget>

#include "gui/models/plan.h"
#include "gui/views/saved_view.h"

namespace versieve::gui {

class SwitchPlot : public QWidget, public SavedView {
  Q_OBJECT
 public:
  explicit SwitchPlot(QWidget* parent = nullptr);

  // REQUIRES: a plan of several requests at once, or none.
  void show_plan(const PlanPtr& plan, PrecisionClass precision, int bucket);
  QRectF rowRect(int bucket) const;
  double placeOf(double requests) const;  // along the picture
  // What the tool tip says there.
  QString helpAt(const QPoint& place) const;
  QList<QStringList> savedRows() const override;
  QSize minimumSizeHint() const override;

 protected:
  void paintEvent(QPaintEvent* event) override;
  bool event(QEvent* event) override;  // tool tips

 private:
  // Of one kind of draft, to the next switch, or the end.
  struct Part {
    DraftKind kind = DraftKind::kTree;
    double from = 1.0, to = 1.0;  // requests
  };

  double most() const;
  std::vector<const SwitchPoint*> switches(int bucket) const;
  std::vector<Part> parts(int bucket) const;
  double fitting(int bucket) const;  // requests into memory
  QString row_text(int bucket) const;
  void draw_axis(QPainter& painter) const;
  void draw_row(QPainter& painter, int bucket) const;

  PlanPtr plan_;
  PrecisionClass precision_ = PrecisionClass::kStrict;
  int bucket_ = 0;  // that is selected
};

}  // namespace versieve::gui
