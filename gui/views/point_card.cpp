#include "gui/views/point_card.h"

#include <algorithm>
#include <cmath>

#include "gui/models/numbers.h"
#include "gui/models/point_column.h"
#include "gui/views/theme.h"

namespace versieve::gui {

QStringList card_lines(const Snapshot& snapshot, int point) {
  const db::PointOverview& overview = snapshot.overview.points[static_cast<std::size_t>(point)];
  QStringList lines = {snapshot.word(overview.strategy)};
  lines << snapshot.word(overview.model) + "  " + name_of(overview.workload) + "  " +
               snapshot.word(overview.regime) + "  " + snapshot.word(overview.dtype);
  lines << "L = " + tokens(overview.context_len) +
               "   N = " + QString::number(overview.num_queries) + "   " +
               provenance(snapshot, overview) + ", run " + QString::number(overview.run_id);
  if (overview.median_ns) {
    lines << median_with_interval(overview.median_ns, overview.median_low_ns,
                                  overview.median_high_ns);
  }
  if (overview.dram_bytes || overview.predicted_dram_bytes) {
    const double missing = std::nan("");
    lines << "DRAM " + bytes(overview.dram_bytes.value_or(missing)) + " " +
                 provenance(snapshot, overview) + ", " +
                 bytes(overview.predicted_dram_bytes.value_or(missing)) + " predicted";
  }
  if (overview.accepted_per_step) {
    lines << fixed(*overview.accepted_per_step, 2) + " tokens a step";
  }
  return lines;
}

void draw_card(QPainter& painter, const QStringList& lines, const QPointF& place,
               const QSize& within) {
  const QFontMetrics metrics(painter.font());
  int text_width = 0;
  for (const QString& line : lines) {
    text_width = std::max(text_width, metrics.horizontalAdvance(line));
  }
  const int line_height = metrics.height() + 2;
  QRectF card(0, 0, text_width + 20, static_cast<double>(lines.size()) * line_height + 14);
  card.moveTopLeft(place + QPointF(14, 14));
  if (card.right() > within.width() - 4) {
    card.moveRight(place.x() - 14);
  }
  if (card.bottom() > within.height() - 4) {
    card.moveBottom(place.y() - 14);
  }
  painter.setPen(theme::colors().line);
  painter.setBrush(theme::colors().panel);
  painter.drawRoundedRect(card, 4, 4);
  double y = card.top() + 7 + metrics.ascent();
  for (const QString& line : lines) {
    painter.setPen(&line == &lines.front() ? theme::colors().ink : theme::colors().quiet_ink);
    painter.drawText(QPointF(card.left() + 10, y), line);
    y += line_height;
  }
}

void draw_pin(QPainter& painter, const QPointF& place, int number) {
  constexpr double kRadius = 7.5, kAbove = 12.0;
  if (place.isNull()) {
    return;
  }
  const QPointF center = place - QPointF(0.0, kAbove);
  painter.setPen(QPen(theme::colors().panel, 1.0));
  painter.setBrush(theme::colors().ink);
  painter.drawEllipse(center, kRadius, kRadius);
  painter.drawEllipse(place, 2.5, 2.5);
  QFont small = painter.font();
  small.setPixelSize(theme::kSmallPixels - 1);
  painter.setFont(small);
  painter.setPen(theme::colors().panel);
  painter.drawText(QRectF(center - QPointF(kRadius, kRadius), center + QPointF(kRadius, kRadius)),
                   Qt::AlignCenter, QString::number(number));
}

}  // namespace versieve::gui
