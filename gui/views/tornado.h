// How much of tokens a second hangs on each knob of the hardware alone: a bar from half of it to
// twice, around what the machine yields; the widest first. A bar's end says whether another
// strategy wins there.
#pragma once

#include <QWidget>

#include "gui/models/sensitivity.h"
#include "gui/views/saved_view.h"

namespace versieve::gui {

class Tornado : public QWidget, public SavedView {
 public:
  explicit Tornado(QWidget* parent = nullptr);

  void show_answer(const SensitivityPtr& answer);
  // Of the row, from half of the knob to twice; empty beyond the last.
  QRectF barRect(int row) const;
  QList<QStringList> savedRows() const override;
  QSize minimumSizeHint() const override;

 protected:
  void paintEvent(QPaintEvent* event) override;
  bool event(QEvent* event) override;  // tool tips

 private:
  double middle() const;
  double place_of(const Winner& winner) const;
  void draw_end(QPainter& painter, int row, const Winner& winner, double value, bool is_left) const;
  QRectF row_rect(int row) const;
  QString row_text(int row) const;

  SensitivityPtr answer_;
  double reach_ = 0.0;  // of log ratios
};

}  // namespace versieve::gui
