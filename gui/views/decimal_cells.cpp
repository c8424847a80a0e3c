#include "gui/views/decimal_cells.h"

#include <QAbstractItemView>
#include <QApplication>
#include <QPainter>
#include <QWidget>
#include <algorithm>
#include <utility>

namespace versieve::gui {
namespace {

constexpr int kRowsLookedAt = 200;

bool is_number(const QStyleOptionViewItem& option) {
  return option.displayAlignment.testFlag(Qt::AlignRight);
}

const QStyle& style_of(const QStyleOptionViewItem& option) {
  return option.widget == nullptr ? *QApplication::style() : *option.widget->style();
}

// As QStyle keeps from a text to its cell's edge.
int margin_of(const QStyleOptionViewItem& option) {
  return style_of(option).pixelMetric(QStyle::PM_FocusFrameHMargin, nullptr, option.widget) + 1;
}

QColor ink_of(const QStyleOptionViewItem& option) {
  const QPalette::ColorGroup group =
      !option.state.testFlag(QStyle::State_Enabled) ? QPalette::Disabled
      : option.state.testFlag(QStyle::State_Active) ? QPalette::Active
                                                    : QPalette::Inactive;
  return option.palette.color(group, option.state.testFlag(QStyle::State_Selected)
                                         ? QPalette::HighlightedText
                                         : QPalette::Text);
}

}  // namespace

DecimalText at_its_mark(const QString& text) {
  qsizetype end = 0;
  const auto is_of_whole = [&](QChar c) {
    return c.isDigit() || c == QLatin1Char('-') || c == QChar(0x2212) || c == QLatin1Char('+') ||
           c == QLatin1Char('<') || c == QLatin1Char('>') || c == QChar(0xb1) ||
           c == QChar(0x2248) || c == QChar(0xd7);
  };
  // A space belongs to the number where digits follow it: "1 234.5", "> 0.99".
  while (end < text.size() &&
         (is_of_whole(text[end]) ||
          (text[end].isSpace() && end + 1 < text.size() && text[end + 1].isDigit()))) {
    ++end;
  }
  return end == 0 ? DecimalText{text, {}} : DecimalText{text.left(end), text.mid(end)};
}

void DecimalCells::follow(const QAbstractItemModel& model) const {
  if (model_ == &model) {
    return;
  }
  model_ = &model;
  rooms_.clear();
  const auto forget = [this] { rooms_.clear(); };
  connect(&model, &QAbstractItemModel::modelReset, this, forget);
  connect(&model, &QAbstractItemModel::layoutChanged, this, forget);
  connect(&model, &QAbstractItemModel::dataChanged, this, forget);
}

int DecimalCells::room_after_mark(const QStyleOptionViewItem& option,
                                  const QModelIndex& index) const {
  follow(*index.model());
  const auto known = rooms_.constFind(index.column());
  if (known != rooms_.constEnd()) {
    return *known;
  }
  int room = 0;
  const int rows = std::min(kRowsLookedAt, index.model()->rowCount(index.parent()));
  for (int row = 0; row < rows; ++row) {
    const QString text = index.sibling(row, index.column()).data().toString();
    room = std::max(room, option.fontMetrics.horizontalAdvance(at_its_mark(text).rest));
  }
  rooms_.insert(index.column(), room);
  return room;
}

void DecimalCells::paint(QPainter* painter, const QStyleOptionViewItem& option,
                         const QModelIndex& index) const {
  QStyleOptionViewItem cell = option;
  initStyleOption(&cell, index);
  if (!is_number(cell) || cell.text.isEmpty()) {
    QStyledItemDelegate::paint(painter, option, index);
    return;
  }
  const QString text = std::exchange(cell.text, QString());
  style_of(cell).drawControl(QStyle::CE_ItemViewItem, &cell, painter, cell.widget);
  const DecimalText parts = at_its_mark(text);
  const QRect room = cell.rect.adjusted(margin_of(cell), 0, -margin_of(cell), 0);
  const QFontMetrics metrics(cell.font);  // a row may be bold
  const int rest = metrics.horizontalAdvance(parts.rest);
  int after = room_after_mark(cell, index);
  if (rest > after) {  // of a row further down
    rooms_[index.column()] = after = rest;
    if (const auto* view = qobject_cast<const QAbstractItemView*>(cell.widget)) {
      view->viewport()->update();
    }
  }
  painter->save();
  painter->setFont(cell.font);
  painter->setPen(ink_of(cell));
  const int mark = room.right() + 1 - after;
  if (mark - metrics.horizontalAdvance(parts.whole) < room.left()) {  // the column is narrow
    painter->drawText(room, Qt::AlignRight | Qt::AlignVCenter,
                      metrics.elidedText(text, Qt::ElideRight, room.width()));
  } else {
    painter->drawText(QRect(room.left(), room.top(), mark - room.left(), room.height()),
                      Qt::AlignRight | Qt::AlignVCenter, parts.whole);
    painter->drawText(QRect(mark, room.top(), after, room.height()),
                      Qt::AlignLeft | Qt::AlignVCenter, parts.rest);
  }
  painter->restore();
}

QSize DecimalCells::sizeHint(const QStyleOptionViewItem& option, const QModelIndex& index) const {
  const QSize usual = QStyledItemDelegate::sizeHint(option, index);
  QStyleOptionViewItem cell = option;
  initStyleOption(&cell, index);
  if (!is_number(cell) || cell.text.isEmpty()) {
    return usual;
  }
  const int rest = cell.fontMetrics.horizontalAdvance(at_its_mark(cell.text).rest);
  return {usual.width() + std::max(0, room_after_mark(cell, index) - rest), usual.height()};
}

}  // namespace versieve::gui
