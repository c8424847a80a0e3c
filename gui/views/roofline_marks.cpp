// The marks of a roofline's launches and their names.
#include <QPainter>
#include <algorithm>
#include <cmath>

#include "gui/views/step_pictures.h"
#include "gui/views/theme.h"

namespace versieve::gui {

// A launch's by the share of the step's time.
double Roofline::radius_of(int launch) const {
  const double whole = std::max(view_->first->launches_us(), 1e-9);
  const StepLaunch& l = view_->first->launches[static_cast<std::size_t>(launch)];
  return 4.0 + 9.0 * std::sqrt(l.us.value_or(0.0) / whole);
}

// A name stands where it covers neither a mark nor another name, else it is left to the pointer.
void Roofline::draw_names(QPainter& painter) const {
  const double whole = std::max(view_->first->launches_us(), 1e-9);
  const int count = static_cast<int>(view_->first->launches.size());
  std::vector<QRectF> taken;
  for (int i = 0; i < count; ++i) {
    const QPointF reach(radius_of(i), radius_of(i));
    if (!placeOf(i).isNull()) {
      taken.emplace_back(placeOf(i) - reach, placeOf(i) + reach);
    }
  }
  painter.setPen(theme::colors().ink);
  for (int i = 0; i < count; ++i) {
    const StepLaunch& l = view_->first->launches[static_cast<std::size_t>(i)];
    const QPointF at = placeOf(i);
    if (at.isNull() || (i != told_ && l.us.value_or(0.0) <= 0.08 * whole)) {
      continue;
    }
    const double radius = radius_of(i);
    const double width = painter.fontMetrics().horizontalAdvance(l.name) + 2.0;
    for (const QRectF& box : {QRectF(at.x() + radius + 3, at.y() - 8, width, 16),
                              QRectF(at.x() - radius - 3 - width, at.y() - 8, width, 16),
                              QRectF(at.x() - width / 2, at.y() + radius + 2, width, 16),
                              QRectF(at.x() - width / 2, at.y() - radius - 18, width, 16)}) {
      if (box.left() >= 0.0 && box.right() <= this->width() &&
          std::none_of(taken.begin(), taken.end(),
                       [&](const QRectF& other) { return other.intersects(box); })) {
        painter.drawText(box, Qt::AlignCenter, l.name);
        taken.push_back(box);
        break;
      }
    }
  }
}

void Roofline::draw_marks(QPainter& painter) const {
  for (int i = 0; i < static_cast<int>(view_->first->launches.size()); ++i) {
    const StepLaunch& l = view_->first->launches[static_cast<std::size_t>(i)];
    const QPointF at = placeOf(i);
    if (at.isNull()) {
      continue;
    }
    const double radius = radius_of(i);
    const QColor color = theme::category(i % theme::kCategoryCount);
    painter.setPen(QPen(i == told_ ? theme::colors().ink : color, i == told_ ? 2.4 : 1.6));
    painter.setBrush(l.dram_bytes ? color : theme::colors().panel);
    painter.drawEllipse(at, radius, radius);
  }
}

}  // namespace versieve::gui
