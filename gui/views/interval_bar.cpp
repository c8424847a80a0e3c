#include "gui/views/interval_bar.h"

#include <QPainter>

#include "gui/models/plan_entries.h"
#include "gui/views/theme.h"

namespace versieve::gui {
namespace {

constexpr int kBarWidth = 76;
constexpr int kGap = 8;
constexpr double kHalfHeight = 3.0;

}  // namespace

void IntervalBar::paint(QPainter* painter, const QStyleOptionViewItem& option,
                        const QModelIndex& index) const {
  QStyleOptionViewItem text = option;
  text.rect.adjust(kBarWidth + kGap, 0, 0, 0);
  painter->save();
  if (option.state & QStyle::State_Selected) {
    painter->fillRect(option.rect, option.palette.highlight());
  }
  const double low = index.data(PlanEntries::kScaleLowRole).toDouble();
  const double span = index.data(PlanEntries::kScaleHighRole).toDouble() - low;
  const double left = option.rect.left() + kGap;
  const auto place = [&](int role) {
    return left + (span > 0.0 ? (index.data(role).toDouble() - low) / span : 0.0) * kBarWidth;
  };
  const double y = option.rect.center().y() + 0.5;
  painter->setRenderHint(QPainter::Antialiasing);
  painter->setPen(QPen(theme::colors().quiet_ink, 1.0));
  const double baseline = place(PlanEntries::kBaselineRole);
  painter->drawLine(QPointF(baseline, option.rect.top() + 3),
                    QPointF(baseline, option.rect.bottom() - 2));
  painter->setPen(Qt::NoPen);
  painter->setBrush(theme::colors().bar);
  painter->drawRoundedRect(QRectF(QPointF(place(PlanEntries::kLowRole), y - kHalfHeight),
                                  QPointF(place(PlanEntries::kHighRole), y + kHalfHeight)),
                           2, 2);
  painter->setBrush(theme::colors().accent);
  painter->drawEllipse(QPointF(place(PlanEntries::kMiddleRole), y), kHalfHeight, kHalfHeight);
  painter->restore();
  QStyledItemDelegate::paint(painter, text, index);
}

QSize IntervalBar::sizeHint(const QStyleOptionViewItem& option, const QModelIndex& index) const {
  const QSize text = QStyledItemDelegate::sizeHint(option, index);
  return {text.width() + kBarWidth + 2 * kGap, text.height()};
}

}  // namespace versieve::gui
