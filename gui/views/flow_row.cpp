#include "gui/views/flow_row.h"

#include <QHBoxLayout>
#include <QWidget>
#include <algorithm>

namespace versieve::gui {
namespace {

constexpr int kBetween = 12;  // items of a line
constexpr int kBetweenLines = 4;
constexpr int kLabelGap = 6;

}  // namespace

FlowRow::FlowRow(QWidget* parent) : QLayout(parent) {
  setContentsMargins(0, 0, 0, 4);
}

FlowRow::~FlowRow() {
  qDeleteAll(items_);
}

void FlowRow::addNamed(QWidget* label, QWidget* control) {
  QWidget* both = new QWidget;
  QHBoxLayout* layout = new QHBoxLayout(both);
  layout->setContentsMargins(0, 0, 0, 0);
  layout->setSpacing(kLabelGap);
  layout->addWidget(label);
  layout->addWidget(control);
  addWidget(both);
}

void FlowRow::addItem(QLayoutItem* item) {
  items_.append(item);
}

int FlowRow::count() const {
  return static_cast<int>(items_.size());
}

QLayoutItem* FlowRow::itemAt(int index) const {
  return items_.value(index);
}

QLayoutItem* FlowRow::takeAt(int index) {
  return index >= 0 && index < items_.size() ? items_.takeAt(index) : nullptr;
}

Qt::Orientations FlowRow::expandingDirections() const {
  return {};
}

bool FlowRow::hasHeightForWidth() const {
  return true;
}

int FlowRow::heightForWidth(int width) const {
  return lay_out(QRect(0, 0, width, 0), false);
}

QSize FlowRow::minimumSize() const {
  QSize size;
  for (const QLayoutItem* item : items_) {
    size = size.expandedTo(item->minimumSize());
  }
  const QMargins margins = contentsMargins();
  return size + QSize(margins.left() + margins.right(), margins.top() + margins.bottom());
}

// One line.
QSize FlowRow::sizeHint() const {
  QSize size;
  for (const QLayoutItem* item : items_) {
    if (!item->isEmpty()) {
      size = QSize(size.width() + item->sizeHint().width() + kBetween,
                   std::max(size.height(), item->sizeHint().height()));
    }
  }
  const QMargins margins = contentsMargins();
  return size + QSize(margins.left() + margins.right(), margins.top() + margins.bottom());
}

void FlowRow::setGeometry(const QRect& rect) {
  QLayout::setGeometry(rect);
  lay_out(rect, true);
}

int FlowRow::lay_out(const QRect& rect, bool moves) const {
  const QMargins margins = contentsMargins();
  const QRect area = rect.marginsRemoved(margins);
  QList<QLayoutItem*> line;
  int y = area.y();
  int used = 0;
  int height = 0;
  const auto place_line = [&] {
    int x = area.x();
    for (QLayoutItem* item : line) {
      const QSize size(std::min(item->sizeHint().width(), area.width()), item->sizeHint().height());
      if (moves) {
        item->setGeometry(QRect(QPoint(x, y + (height - size.height()) / 2), size));
      }
      x += size.width() + kBetween;
    }
    line.clear();
  };
  for (QLayoutItem* item : items_) {
    if (item->isEmpty()) {
      continue;
    }
    const int width = std::min(item->sizeHint().width(), area.width());
    if (!line.isEmpty() && used + kBetween + width > area.width()) {
      place_line();
      y += height + kBetweenLines;
      used = 0;
      height = 0;
    }
    used += (line.isEmpty() ? 0 : kBetween) + width;
    height = std::max(height, item->sizeHint().height());
    line.append(item);
  }
  place_line();
  return y + height - rect.y() + margins.bottom();
}

}  // namespace versieve::gui
