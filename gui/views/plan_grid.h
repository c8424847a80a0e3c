// The planner's table at a glance: a column a context bucket, a row a precision class, in each cell
// the best strategy, what it yields and why; or why there is none.
#pragma once

#include <QWidget>

#include "gui/models/planner.h"

namespace versieve::gui {

class PlanGrid : public QWidget {
  Q_OBJECT
 public:
  explicit PlanGrid(QWidget* parent = nullptr);

  void show_plan(const PlanPtr& plan);  // may be null
  void select(int bucket, int row);
  int bucket() const { return bucket_; }
  int classRow() const { return row_; }
  QRect cellRect(int bucket, int row) const;
  QSize minimumSizeHint() const override { return {700, 360}; }

 Q_SIGNALS:
  void cellSelected(int bucket, int row);

 protected:
  void paintEvent(QPaintEvent* event) override;
  void mousePressEvent(QMouseEvent* event) override;
  void keyPressEvent(QKeyEvent* event) override;

 private:
  int bucket_count() const;
  int row_count() const;
  void draw_headers(QPainter& painter) const;
  void draw_cell(QPainter& painter, int bucket, int row) const;
  void draw_entry(QPainter& painter, const QRect& cell, const PlanEntry& entry,
                  const PlanEntry* own) const;

  PlanPtr plan_;
  int bucket_ = 0;
  int row_ = 0;
};

}  // namespace versieve::gui
