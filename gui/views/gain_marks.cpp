#include "gui/views/gain_marks.h"

#include <QPainter>
#include <cmath>

#include "gui/models/replay_table.h"
#include "gui/views/theme.h"

namespace versieve::gui {
namespace {

constexpr int kWidth = 230;
constexpr int kInset = 10;
constexpr double kGridStep = 0.1;
constexpr double kRadius = 4.0;

QColor first_color() {
  return theme::category(0);
}
QColor ranked_color() {
  return theme::category(1);
}
QColor promise_color() {
  return theme::category(2);
}

}  // namespace

void GainMarks::paint(QPainter* painter, const QStyleOptionViewItem& option,
                      const QModelIndex& index) const {
  if (!index.data(ReplayTable::kIsPlayedRole).toBool()) {  // a reason in words
    QStyleOptionViewItem quiet = option;
    quiet.palette.setColor(QPalette::Text, theme::colors().quiet_ink);
    QStyledItemDelegate::paint(painter, quiet, index);
    return;
  }
  painter->save();
  if (option.state & QStyle::State_Selected) {
    painter->fillRect(option.rect, option.palette.highlight());
  } else if (option.features & QStyleOptionViewItem::Alternate) {
    painter->fillRect(option.rect, option.palette.alternateBase());
  }
  const double low = index.data(ReplayTable::kScaleLowRole).toDouble();
  const double high = index.data(ReplayTable::kScaleHighRole).toDouble();
  const QRectF area = QRectF(option.rect).adjusted(kInset, 0, -kInset, 0);
  const auto place = [&](double gain) {
    return area.left() + (gain - low) / (high - low) * area.width();
  };
  const auto at = [&](int role) {
    return QPointF(place(index.data(role).toDouble()), area.center().y() + 0.5);
  };
  painter->setRenderHint(QPainter::Antialiasing);
  for (double gain = low; gain <= high + 1e-9; gain += kGridStep) {
    const bool is_baseline = std::fabs(gain) < 1e-9;
    painter->setPen(is_baseline ? QPen(theme::colors().quiet_ink, 1.4)
                                : QPen(theme::colors().grid, 1.0));
    painter->drawLine(QPointF(place(gain), area.top()), QPointF(place(gain), area.bottom()));
  }
  const QPointF first = at(ReplayTable::kFirstRole);
  painter->setPen(QPen(theme::colors().bar, 3.0));
  painter->drawLine(QPointF(place(0.0), first.y()), first);
  painter->setPen(Qt::NoPen);
  painter->setBrush(first_color());
  painter->drawEllipse(first, kRadius, kRadius);
  const QPointF promise = at(ReplayTable::kPromiseRole);
  painter->setPen(QPen(theme::colors().panel, 0.8));
  painter->setBrush(promise_color());
  const double half = kRadius + 0.5;
  painter->drawPolygon(QPolygonF({promise + QPointF(0, -half), promise + QPointF(half, 0),
                                  promise + QPointF(0, half), promise + QPointF(-half, 0)}));
  painter->setBrush(Qt::NoBrush);
  painter->setPen(QPen(ranked_color(), 1.8));
  painter->drawEllipse(at(ReplayTable::kNextRankedRole), kRadius + 2.0, kRadius + 2.0);
  painter->restore();
}

QSize GainMarks::sizeHint(const QStyleOptionViewItem& option, const QModelIndex& index) const {
  return {kWidth, QStyledItemDelegate::sizeHint(option, index).height()};
}

QString gain_legend() {
  return QString(
             "<span style='color:%1'>●</span> best tuple &nbsp; "
             "<span style='color:%2'>◯</span> with the guard to the next ranked &nbsp; "
             "<span style='color:%3'>◆</span> with the guard by promise &nbsp; "
             "│ fixed baseline")
      .arg(first_color().name(), ranked_color().name(), promise_color().name());
}

}  // namespace versieve::gui
