// A table's cell that paints a replay's gains on the column's scale: first tuple as a disc, with
// the guard to the next ranked as a ring, by promise as a diamond; the fixed baseline as a line.
#pragma once

#include <QStyledItemDelegate>

namespace versieve::gui {

class GainMarks : public QStyledItemDelegate {
  Q_OBJECT
 public:
  using QStyledItemDelegate::QStyledItemDelegate;

  void paint(QPainter* painter, const QStyleOptionViewItem& option,
             const QModelIndex& index) const override;
  QSize sizeHint(const QStyleOptionViewItem& option, const QModelIndex& index) const override;
};

// The three marks in words, as rich text.
QString gain_legend();

}  // namespace versieve::gui
