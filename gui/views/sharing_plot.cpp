// What queries share, by the places between them, and what groups of them load less.
#include <QPainter>

#include "gui/models/numbers.h"
#include "gui/views/step_pictures.h"
#include "gui/views/theme.h"

namespace versieve::gui {

namespace {

QString order_name(std::size_t along) {
  return along < 2 ? QString(name_of(static_cast<SharingAlong>(along))).toUpper()
                   : SharingPlot::tr("positions");
}

}  // namespace

SharingPlot::SharingPlot(QWidget* parent) : StepPicture(tr("What queries share"), parent) {}

void SharingPlot::draw_groups(QPainter& painter, const QRectF& area) const {
  const TreeSharing& sharing = view_->sharing;
  const double slot = area.width() / kSharingGroups.size();
  const QString unit = painter.fontMetrics().horizontalAdvance("100 %") <= 0.4 * slot ? " %" : "";
  for (std::size_t g = 0; g < kSharingGroups.size(); ++g) {
    for (std::size_t along = 0; along < 2; ++along) {
      const double share = sharing.saved[along][g].value_or(0.0);
      const QRectF bar(area.left() + slot * g + slot * (0.12 + 0.4 * along),
                       area.bottom() - share * area.height(), slot * 0.36, share * area.height());
      painter.fillRect(bar, theme::category(static_cast<int>(along)));
      painter.setPen(theme::colors().ink);
      painter.drawText(QRectF(bar.left() - 10, bar.top() - 15, bar.width() + 20, 14),
                       Qt::AlignCenter, fixed(100.0 * share, 0) + unit);
    }
    painter.setPen(theme::colors().quiet_ink);
    painter.drawText(QRectF(area.left() + slot * g, area.bottom() + 2, slot, 15), Qt::AlignCenter,
                     tr("group %1").arg(kSharingGroups[g]));
  }
  draw_axis_title(painter, area.bottom() + 17, {tr("loads that a group saves, %")});
}

void SharingPlot::draw(QPainter& painter) {
  const TreeSharing& sharing = view_->sharing;
  draw_title(
      painter,
      {sharing.of.isEmpty() ? tr("Block sharing") : tr("Block sharing of %1").arg(sharing.of),
       tr("Block sharing of %1").arg(sharing.of.section(',', 0, 0)), tr("Block sharing")});
  if (sharing.of.isEmpty()) {
    painter.setPen(theme::colors().quiet_ink);
    painter.drawText(
        rect().adjusted(12, 24, -12, -8), Qt::AlignCenter | Qt::TextWordWrap,
        tr("Nobody recorded which blocks queries choose: versieve profile --sweep pair "
           "does."));
    return;
  }
  const double half = (height() - 130.0) / 2.0;
  const QRectF upper(44, 30, width() - 56, half);
  painter.setPen(theme::colors().line);
  painter.drawRect(upper);
  for (const double share : {0.0, 0.5, 1.0}) {
    painter.setPen(theme::colors().quiet_ink);
    painter.drawText(QRectF(0, upper.bottom() - share * upper.height() - 8, 40, 16),
                     Qt::AlignRight | Qt::AlignVCenter, fixed(100.0 * share, 0) + " %");
  }
  const double step = upper.width() / (kSharingDistances - 1);
  for (std::size_t along = 0; along < kSharingAlongCount; ++along) {
    painter.setPen(QPen(theme::category(static_cast<int>(along)), 1.8));
    QPointF before;
    for (std::size_t d = 0; d < kSharingDistances; ++d) {
      if (!sharing.overlap[along][d]) {
        continue;
      }
      const QPointF at(upper.left() + step * static_cast<double>(d),
                       upper.bottom() - *sharing.overlap[along][d] * upper.height());
      if (!before.isNull()) {
        painter.drawLine(before, at);
      }
      painter.drawEllipse(at, 2.0, 2.0);
      before = at;
    }
    painter.drawText(
        QPointF(upper.left() + 8 + upper.width() / kSharingAlongCount * static_cast<double>(along),
                upper.bottom() - 6),
        order_name(along));
  }
  painter.setPen(theme::colors().quiet_ink);
  for (std::size_t d = 0; d < kSharingDistances; d += 2) {
    painter.drawText(
        QRectF(upper.left() + step * static_cast<double>(d) - 10, upper.bottom() + 2, 20, 15),
        Qt::AlignCenter, QString::number(d));
  }
  draw_axis_title(
      painter, upper.bottom() + 17,
      {tr("blocks shared with the query so many places on"), tr("blocks shared, by places apart")});
  draw_groups(painter, QRectF(44, upper.bottom() + 56, width() - 56, half));
}

}  // namespace versieve::gui
