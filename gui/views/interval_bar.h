// A table's cell that paints an interval as a bar on the column's scale, its middle as a dot and
// the baseline as a line, with the figures under the pointer.
#pragma once

#include <QStyledItemDelegate>

namespace versieve::gui {

class IntervalBar : public QStyledItemDelegate {
  Q_OBJECT
 public:
  using QStyledItemDelegate::QStyledItemDelegate;

  void paint(QPainter* painter, const QStyleOptionViewItem& option,
             const QModelIndex& index) const override;
  QSize sizeHint(const QStyleOptionViewItem& option, const QModelIndex& index) const override;
};

}  // namespace versieve::gui
