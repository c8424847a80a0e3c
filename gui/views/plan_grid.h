// The planner's table at a glance: a column a context range, or a number of requests at once of one
// range; the first row is the best of all shown classes, then a row a class. In each cell the best
// strategy, what it yields and why; or why there is none. Where columns are many it is wider than
// what is seen of it, and the rows' titles stay.
#pragma once

#include <QWidget>
#include <optional>
#include <vector>

#include "gui/models/plan_slice.h"
#include "gui/models/planner.h"
#include "gui/views/saved_view.h"
#include "model/plan/class_choice.h"

namespace versieve::gui {

class PlanGrid : public QWidget, public SavedView {
  Q_OBJECT
 public:
  explicit PlanGrid(QWidget* parent = nullptr);

  // Every entry of the shown classes.
  QList<QStringList> savedRows() const override;
  // The cell that was selected stays so where it is shown.
  void show_plan(const PlanPtr& plan, const std::vector<PrecisionClass>& classes,
                 const PlanSlice& slice = {});
  void select(int column, int row);
  const PlanSlice& slice() const { return slice_; }
  int column() const { return column_; }
  int row() const { return row_; }
  // Of the selected cell.
  PlanPlace place() const { return place_of(slice_, column_); }
  int bucket() const { return place().bucket; }
  // The classes of the selected row; in the first all shown ones, but Approx-sampling only where no
  // other is shown: its text is the draft's, so that its tokens a second compare with nobody's.
  std::vector<PrecisionClass> selectedClasses() const;
  QRect cellRect(int column, int row) const;
  // What the tool tip says there.
  QString helpAt(const QPoint& place) const;
  QSize minimumSizeHint() const override;
  QVariant inputMethodQuery(Qt::InputMethodQuery query) const override;  // what is scrolled to

 Q_SIGNALS:
  void cellSelected(int column, int row);

 protected:
  void paintEvent(QPaintEvent* event) override;
  void mousePressEvent(QMouseEvent* event) override;
  void keyPressEvent(QKeyEvent* event) override;
  void moveEvent(QMoveEvent* event) override;
  bool event(QEvent* event) override;  // tool tips

 private:
  int row_title() const;  // its width
  int left() const;       // of what is seen
  int tie_count(int column, int row, const PlanEntry& entry) const;
  int columns() const { return plan_ ? column_count(plan_->chosen, slice_) : 0; }
  const PlanTable& table_at(const PlanTable& table, int column) const {
    return table_of(table, place_of(slice_, column).level);
  }
  int row_count() const { return plan_ ? static_cast<int>(classes_.size()) + 1 : 0; }
  std::optional<PrecisionClass> class_of(int row) const;  // none: the first row
  std::vector<PrecisionClass> compared_classes() const;   // of the first row
  ClassChoice found(const PlanTable& plan, int column, int row) const;
  std::pair<int, int> cell_at(const QPoint& place) const;  // -1, -1: none
  QString help_text(int column, int row) const;
  void draw_columns(QPainter& painter) const;
  void draw_rows(QPainter& painter) const;
  void draw_cell(QPainter& painter, int column, int row) const;
  void draw_entry(QPainter& painter, const QRect& cell, int column, int row,
                  const ClassChoice& best) const;

  PlanPtr plan_;
  std::vector<PrecisionClass> classes_;
  PlanSlice slice_;
  int column_ = 0;
  int row_ = 0;
};

}  // namespace versieve::gui
