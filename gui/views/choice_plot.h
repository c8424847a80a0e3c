// Which node of a step's tree chose which block: a row a node in traversal order, a column a block
// that anybody chose, the nodes of a group framed together; full where a neighbour of the group
// chose the block too, so that the group loads it once. The arrow keys go from cell to cell.
#pragma once

#include <QWidget>

#include "gui/models/step_view.h"
#include "gui/views/saved_view.h"

namespace versieve::gui {

class ChoicePlot : public QWidget, public SavedView {
  Q_OBJECT
 public:
  explicit ChoicePlot(QWidget* parent = nullptr);

  void show_view(const StepViewPtr& view);
  int nodes() const;
  int columns() const { return static_cast<int>(columns_.size()); }
  QRectF cellRect(int node, int column) const;
  bool chose(int node, int column) const;
  QString told() const { return told_; }
  QSize minimumSizeHint() const override { return {260, 220}; }
  QList<QStringList> savedRows() const override;

 protected:
  void paintEvent(QPaintEvent* event) override;
  void mouseMoveEvent(QMouseEvent* event) override;
  void mousePressEvent(QMouseEvent* event) override;
  void keyPressEvent(QKeyEvent* event) override;

 private:
  QRectF area() const;
  // Nodes of the node's group that chose the column's block.
  int sharers(int node, int column) const;
  std::pair<int, int> group_of(int node) const;  // first node and the one behind the last
  QString group_text() const;
  void tell(int node, int column);
  void draw_cells(QPainter& painter) const;

  StepViewPtr view_;
  int group_size_ = 1;
  std::vector<std::int32_t> columns_;      // blocks, ascending
  std::vector<std::vector<bool>> chosen_;  // [node][column]
  int node_ = -1, column_ = -1;
  QString told_;
};

}  // namespace versieve::gui
