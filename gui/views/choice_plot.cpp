#include "gui/views/choice_plot.h"

#include <QKeyEvent>
#include <QMouseEvent>
#include <QPainter>
#include <algorithm>

#include "gui/models/numbers.h"
#include "gui/views/theme.h"
#include "model/words/strategy.h"

namespace versieve::gui {
namespace {

constexpr double kLeft = 34, kTop = 24, kRight = 8, kBottom = 52;

}  // namespace

ChoicePlot::ChoicePlot(QWidget* parent) : QWidget(parent) {
  setAccessibleName(tr("Blocks that nodes chose"));
  setFocusPolicy(Qt::StrongFocus);
  setMouseTracking(true);
}

void ChoicePlot::show_view(const StepViewPtr& view) {
  view_ = view;
  columns_.clear();
  chosen_.clear();
  node_ = column_ = -1;
  told_.clear();
  if (view_ && view_->choice) {
    const std::vector<std::vector<std::int32_t>>& blocks = view_->choice->blocks;
    for (const std::vector<std::int32_t>& of_node : blocks) {
      columns_.insert(columns_.end(), of_node.begin(), of_node.end());
    }
    std::sort(columns_.begin(), columns_.end());
    columns_.erase(std::unique(columns_.begin(), columns_.end()), columns_.end());
    for (const std::vector<std::int32_t>& of_node : blocks) {
      std::vector<bool>& row = chosen_.emplace_back(columns_.size(), false);
      for (const std::int32_t block : of_node) {
        row[static_cast<std::size_t>(std::lower_bound(columns_.begin(), columns_.end(), block) -
                                     columns_.begin())] = true;
      }
    }
    group_size_ = static_cast<int>(
        std::max<std::int64_t>(1, Strategy::parse(view_->first->key.strategy).group_size));
    told_ = group_text();
  }
  setAccessibleDescription(told_);
  update();
}

int ChoicePlot::nodes() const {
  return static_cast<int>(chosen_.size());
}

QRectF ChoicePlot::area() const {
  return QRectF(rect()).adjusted(kLeft, kTop, -kRight, -kBottom);
}

QRectF ChoicePlot::cellRect(int node, int column) const {
  const QRectF in = area();
  const double w = in.width() / std::max(1, columns());
  const double h = in.height() / std::max(1, nodes());
  return {in.left() + w * column, in.top() + h * node, w, h};
}

bool ChoicePlot::chose(int node, int column) const {
  return chosen_[static_cast<std::size_t>(node)][static_cast<std::size_t>(column)];
}

std::pair<int, int> ChoicePlot::group_of(int node) const {
  const int first = node / group_size_ * group_size_;
  return {first, std::min(nodes(), first + group_size_)};
}

int ChoicePlot::sharers(int node, int column) const {
  const auto [first, end] = group_of(node);
  int count = 0;
  for (int other = first; other < end; ++other) {
    count += chose(other, column);
  }
  return count;
}

// What the groups load, each block once, of what their nodes chose.
QString ChoicePlot::group_text() const {
  int chosen = 0;
  int loaded = 0;
  for (int node = 0; node < nodes(); ++node) {
    for (int column = 0; column < columns(); ++column) {
      chosen += chose(node, column);
    }
  }
  for (int first = 0; first < nodes(); first += group_size_) {
    for (int column = 0; column < columns(); ++column) {
      loaded += sharers(first, column) > 0;
    }
  }
  const QString of = tr("layer %1, KV head %2: %3 nodes choose %4 blocks, %5 different ones")
                         .arg(view_->choice->layer)
                         .arg(view_->choice->kv_head)
                         .arg(nodes())
                         .arg(chosen)
                         .arg(columns());
  return group_size_ < 2 || chosen == 0
             ? of
             : of + tr("; groups of %1 load %2 (%3 % less)")
                        .arg(group_size_)
                        .arg(loaded)
                        .arg(fixed(100.0 * (chosen - loaded) / chosen, 0));
}

void ChoicePlot::tell(int node, int column) {
  node_ = std::clamp(node, 0, nodes() - 1);
  column_ = std::clamp(column, 0, columns() - 1);
  int all = 0;
  for (int other = 0; other < nodes(); ++other) {
    all += chose(other, column_);
  }
  const auto [first, end] = group_of(node_);
  const std::int32_t parent = view_->choice->parent[static_cast<std::size_t>(node_)];
  told_ = tr("node %1 (%2) %3 block %4, which %5 of %6 nodes chose, %7 of the %8 of its group")
              .arg(node_)
              .arg(parent < 0 ? tr("the root") : tr("behind node %1").arg(parent))
              .arg(chose(node_, column_) ? tr("chose") : tr("did not choose"))
              .arg(columns_[static_cast<std::size_t>(column_)])
              .arg(all)
              .arg(nodes())
              .arg(sharers(node_, column_))
              .arg(end - first);
  setAccessibleDescription(told_);
  update();
}

void ChoicePlot::draw_cells(QPainter& painter) const {
  for (int node = 0; node < nodes(); ++node) {
    const QColor color = theme::category(node / group_size_ % 2);
    QColor pale = color;
    pale.setAlpha(110);
    for (int column = 0; column < columns(); ++column) {
      if (chose(node, column)) {
        const QRectF cell = cellRect(node, column);
        painter.fillRect(
            cell.width() > 3 && cell.height() > 3 ? cell.adjusted(0.5, 0.5, -0.5, -0.5) : cell,
            sharers(node, column) > 1 ? color : pale);
      }
    }
  }
  painter.setPen(theme::colors().line);
  for (int first = 0; group_size_ > 1 && first < nodes(); first += group_size_) {
    const double y = cellRect(first, 0).top();
    painter.drawLine(QPointF(area().left() - 6, y), QPointF(area().right(), y));
  }
  painter.drawRect(area());
  if (node_ >= 0) {
    painter.setPen(QPen(theme::colors().ink, 2));
    painter.drawRect(cellRect(node_, column_).adjusted(-1, -1, 1, 1));
  }
}

void ChoicePlot::paintEvent(QPaintEvent*) {
  QPainter painter(this);
  painter.fillRect(rect(), theme::colors().panel);
  painter.setPen(theme::colors().ink);
  painter.drawText(
      QRectF(8, 2, width() - 12, kTop - 4), Qt::AlignVCenter,
      painter.fontMetrics().elidedText(nodes() == 0 ? tr("Which node chose which block")
                                                    : tr("Which node (down) chose which block; "
                                                         "full: others of its group did, too"),
                                       Qt::ElideRight, width() - 14));
  QFont small = painter.font();
  small.setPixelSize(theme::kSmallPixels);
  painter.setFont(small);
  if (nodes() == 0) {
    painter.setPen(theme::colors().quiet_ink);
    painter.drawText(rect().adjusted(12, 24, -12, -8), Qt::AlignCenter | Qt::TextWordWrap,
                     tr("No choice of this step is stored: versieve profile keeps one of each step "
                        "with a tree whose layers select blocks."));
    return;
  }
  draw_cells(painter);
  painter.setPen(theme::colors().quiet_ink);
  const int every = nodes() > 32 ? 16 : nodes() > 8 ? 4 : 1;
  for (int node = 0; node < nodes(); node += every) {
    painter.drawText(QRectF(0, cellRect(node, 0).center().y() - 8, kLeft - 8, 16),
                     Qt::AlignRight | Qt::AlignVCenter, QString::number(node));
  }
  const double bottom = area().bottom();
  painter.drawText(QRectF(area().left(), bottom + 1, 80, 14), Qt::AlignLeft,
                   tr("block %1").arg(columns_.front()));
  painter.drawText(QRectF(area().right() - 80, bottom + 1, 80, 14), Qt::AlignRight,
                   QString::number(columns_.back()));
  painter.setPen(theme::colors().ink);
  painter.drawText(QRectF(8, bottom + 15, width() - 16, kBottom - 16),
                   Qt::AlignTop | Qt::TextWordWrap, told_);
  if (hasFocus()) {
    painter.setPen(QPen(theme::colors().accent, 1.6));
    painter.setBrush(Qt::NoBrush);
    painter.drawRect(rect().adjusted(1, 1, -1, -1));
  }
}

void ChoicePlot::mouseMoveEvent(QMouseEvent* event) {
  if (nodes() == 0 || !area().contains(event->position())) {
    return;
  }
  const QPointF at = event->position() - area().topLeft();
  tell(static_cast<int>(at.y() / area().height() * nodes()),
       static_cast<int>(at.x() / area().width() * columns()));
}

void ChoicePlot::mousePressEvent(QMouseEvent* event) {
  mouseMoveEvent(event);
}

void ChoicePlot::keyPressEvent(QKeyEvent* event) {
  const int across = (event->key() == Qt::Key_Right) - (event->key() == Qt::Key_Left);
  const int down = (event->key() == Qt::Key_Down) - (event->key() == Qt::Key_Up);
  if (nodes() == 0 || (across == 0 && down == 0)) {
    QWidget::keyPressEvent(event);
    return;
  }
  tell(node_ + down, column_ + across);
}

QList<QStringList> ChoicePlot::savedRows() const {
  QList<QStringList> rows = {
      {tr("Node"), tr("Parent"), tr("Group"), tr("Block"), tr("Nodes of the group that chose it")}};
  for (int node = 0; node < nodes(); ++node) {
    for (int column = 0; column < columns(); ++column) {
      if (chose(node, column)) {
        rows << QStringList{QString::number(node),
                            QString::number(view_->choice->parent[static_cast<std::size_t>(node)]),
                            QString::number(node / group_size_),
                            QString::number(columns_[static_cast<std::size_t>(column)]),
                            QString::number(sharers(node, column))};
      }
    }
  }
  return rows;
}

}  // namespace versieve::gui
