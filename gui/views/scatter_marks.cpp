// What a scatter draws over its points: the front, the baseline, pins, rings around points.
#include <QPainter>

#include "gui/models/point_column.h"
#include "gui/views/point_card.h"
#include "gui/views/scatter.h"
#include "gui/views/theme.h"

namespace versieve::gui {

// A stair: what lies on its worse side is beaten.
void Scatter::draw_front(QPainter& painter) {
  if (!draws_front_ || !hasFront()) {
    return;
  }
  QPolygonF line;
  const bool more = point_columns()[static_cast<std::size_t>(columns_.x)].better == Better::kMore;
  for (const std::int32_t point : front()) {
    const QPointF place = placeOf(point);
    if (place.isNull()) {
      continue;
    }
    if (!line.isEmpty()) {
      line << (more ? QPointF(line.last().x(), place.y()) : QPointF(place.x(), line.last().y()));
    }
    line << place;
  }
  painter.setRenderHint(QPainter::Antialiasing);
  painter.setBrush(Qt::NoBrush);
  painter.setPen(QPen(theme::colors().ink, 1.3));
  painter.drawPolyline(line);
}

// How far others are above or below it.
void Scatter::draw_baseline(QPainter& painter) const {
  const QPointF place = placeOf(document_.baseline());
  if (place.isNull()) {
    return;
  }
  const QRect area = plotArea();
  painter.setBrush(Qt::NoBrush);
  painter.setPen(QPen(theme::colors().accent, 1.2, Qt::DashLine));
  painter.drawLine(QPointF(area.left(), place.y()), QPointF(area.right(), place.y()));
  painter.setPen(QPen(theme::colors().accent, 1.6));
  const double half = radius() + 3.0;
  painter.drawRect(QRectF(place - QPointF(half, half), place + QPointF(half, half)));
  painter.drawText(QRectF(area.left() + 6, place.y() - 18, 100, 16), Qt::AlignVCenter,
                   tr("baseline"));
}

void Scatter::draw_pins(QPainter& painter) const {
  int number = 0;
  for (const int pin : document_.pins()) {
    draw_pin(painter, placeOf(pin), ++number);
  }
}

void Scatter::draw_mark(QPainter& painter, int point, double ring) const {
  const QPointF place = placeOf(point);
  if (!place.isNull()) {
    painter.setBrush(Qt::NoBrush);
    painter.setPen(QPen(theme::colors().ink, 1.6));
    painter.drawEllipse(place, ring, ring);
  }
}

}  // namespace versieve::gui
