// How well the fit predicts each system's points that it had not seen: a row a system, from the
// median error (dot) to the one that 90 % stay under (bar's end), of time and of DRAM bytes.
#pragma once

#include <QWidget>
#include <memory>
#include <vector>

#include "engine/analyse/fit/cost_fit.h"
#include "gui/views/saved_view.h"

namespace versieve::gui {

class SystemErrors : public QWidget, public SavedView {
  Q_OBJECT
 public:
  explicit SystemErrors(QWidget* parent = nullptr);

  void show_fit(const std::shared_ptr<const engine::FitReport>& fit);
  int rowCount() const { return static_cast<int>(rows_.size()); }
  QList<QStringList> savedRows() const override;
  QSize sizeHint() const override;
  QSize minimumSizeHint() const override { return {420, sizeHint().height()}; }

 protected:
  void paintEvent(QPaintEvent* event) override;

 private:
  struct Row {
    QString name;
    engine::ErrorSummary time, bytes;
  };

  void draw_legend(QPainter& painter) const;
  void draw_scale(QPainter& painter) const;
  void draw_row(QPainter& painter, const Row& row, int top) const;
  double x_of(double error) const;

  std::vector<Row> rows_;
  double limit_ = 0.1;  // error at the right end
};

}  // namespace versieve::gui
