// The phases of a traced step by time: launches, measured, priced; with a second step beside it the
// difference of each, the greatest first, gaps last. Up and Down tell one after another.
#pragma once

#include <QWidget>

#include "gui/models/step_view.h"
#include "gui/views/saved_view.h"

namespace versieve::gui {

class PhaseBars : public QWidget, public SavedView {
  Q_OBJECT
 public:
  explicit PhaseBars(QWidget* parent = nullptr);

  void show_view(const StepViewPtr& view);
  void tell(const QString& phase);
  QString told() const;
  int rows() const { return static_cast<int>(rows_.size()); }
  QRectF rowRect(int row) const;
  QSize minimumSizeHint() const override { return {300, 220}; }
  QList<QStringList> savedRows() const override;

 Q_SIGNALS:
  void phaseTold(const QString& phase);

 protected:
  void paintEvent(QPaintEvent* event) override;
  void mousePressEvent(QMouseEvent* event) override;
  void keyPressEvent(QKeyEvent* event) override;

 private:
  struct Row {
    QString name;
    std::int64_t launches = 0, second_launches = 0;
    double us = 0.0, second_us = 0.0;
    std::optional<double> priced_us;
  };
  bool is_pair() const { return view_ && view_->first_trace && view_->second_trace; }
  QString row_text(const Row& row) const;
  void choose(int row);
  void draw_row(QPainter& painter, int row, double most_us) const;

  StepViewPtr view_;
  std::vector<Row> rows_;
  int told_ = -1;
};

}  // namespace versieve::gui
