// Cells of numbers whose decimal marks stand under each other, whatever the numbers of decimals:
// what is aligned right is a number, all else is painted as usual.
#pragma once

#include <QHash>
#include <QPointer>
#include <QStyledItemDelegate>

namespace versieve::gui {

// A cell's text up to its mark, and from there: "12" and ".5 µs", "7" and "", "–" and "".
struct DecimalText {
  QString whole, rest;
};
DecimalText at_its_mark(const QString& text);

class DecimalCells : public QStyledItemDelegate {
  Q_OBJECT
 public:
  using QStyledItemDelegate::QStyledItemDelegate;

  void paint(QPainter* painter, const QStyleOptionViewItem& option,
             const QModelIndex& index) const override;
  QSize sizeHint(const QStyleOptionViewItem& option, const QModelIndex& index) const override;

 private:
  // Pixels right of the mark that the column's texts take: of its first rows, and of what was
  // painted since.
  int room_after_mark(const QStyleOptionViewItem& option, const QModelIndex& index) const;
  void follow(const QAbstractItemModel& model) const;

  mutable QHash<int, int> rooms_;  // by column
  mutable QPointer<const QAbstractItemModel> model_;
};

}  // namespace versieve::gui
