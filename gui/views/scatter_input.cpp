// What pointer and keys do to a scatter plot.
#include <QKeyEvent>
#include <QMouseEvent>
#include <QWheelEvent>
#include <algorithm>
#include <cmath>
#include <tuple>

#include "gui/views/scatter.h"

namespace versieve::gui {
namespace {

constexpr double kReach = 9.0;      // pixels from a point that still mean it
constexpr double kDragStart = 4.0;  // pixels before a press becomes a drag
constexpr double kKeyZoom = 0.8;

}  // namespace

// Points are told apart along the horizontal axis before their place is looked for: a million in a
// few milliseconds.
int Scatter::nearest(const QPointF& at) const {
  const QRectF area = plotArea();
  const auto value_at = [&](double x) {
    return static_cast<float>(x_axis_.low() +
                              (x - area.left()) / area.width() * (x_axis_.high() - x_axis_.low()));
  };
  const float low = value_at(at.x() - kReach), high = value_at(at.x() + kReach);
  int best = -1;
  double best_distance = kReach * kReach;
  for (const std::int32_t point : is_current() ? document_.shown() : std::vector<std::int32_t>()) {
    const float x = points_->x[static_cast<std::size_t>(point)];
    if (!(x >= low && x <= high)) {
      continue;
    }
    const QPointF place = placeOf(point);
    const QPointF away = place - at;
    const double distance = QPointF::dotProduct(away, away);
    if (!place.isNull() && distance <= best_distance) {
      best = point;
      best_distance = distance;
    }
  }
  return best;
}

void Scatter::resizeEvent(QResizeEvent*) {
  invalidate();
}

void Scatter::mousePressEvent(QMouseEvent* event) {
  pressed_at_ = dragged_to_ = event->position();
  dragging_ = false;
  brushing_ = event->modifiers().testFlag(Qt::ShiftModifier);
}

void Scatter::mouseMoveEvent(QMouseEvent* event) {
  if (!(event->buttons() & Qt::LeftButton)) {
    document_.hover(nearest(event->position()));
    return;
  }
  dragging_ = dragging_ || QLineF(pressed_at_, event->position()).length() > kDragStart;
  if (dragging_ && brushing_) {
    dragged_to_ = event->position();
    document_.hover(-1);
    update();
  } else if (dragging_) {
    const QPointF by = event->position() - dragged_to_;
    dragged_to_ = event->position();
    x_axis_.shift(-by.x() / plotArea().width());
    y_axis_.shift(by.y() / plotArea().height());
    document_.hover(-1);
    invalidate();
  }
}

void Scatter::mouseReleaseEvent(QMouseEvent* event) {
  if (!dragging_) {
    document_.select(nearest(event->position()));
  } else if (brushing_) {
    const QRectF area = plotArea();
    const QRectF band = QRectF(pressed_at_, event->position()).normalized() & area;
    const auto x_at = [&](double x) { return x_axis_.value_at((x - area.left()) / area.width()); };
    const auto y_at = [&](double y) {
      return y_axis_.value_at((area.bottom() - y) / area.height());
    };
    if (!band.isEmpty()) {
      Q_EMIT brushed(QRectF(QPointF(x_at(band.left()), y_at(band.bottom())),
                            QPointF(x_at(band.right()), y_at(band.top()))));
    }
  }
  dragging_ = brushing_ = false;
  update();
}

void Scatter::mouseDoubleClickEvent(QMouseEvent*) {
  fit();
}

void Scatter::wheelEvent(QWheelEvent* event) {
  const QRectF area = plotArea();
  const double factor = std::pow(0.999, event->angleDelta().y());
  zoom(factor, (event->position().x() - area.left()) / area.width(),
       (area.bottom() - event->position().y()) / area.height());
}

void Scatter::zoom(double factor, double x_fixed, double y_fixed) {
  x_axis_.zoom(factor, x_fixed);
  y_axis_.zoom(factor, y_fixed);
  invalidate();
}

// The shown point after (or before) the selected one, from left to right and from below; where
// none is selected, the first (or the last). At an end the selected one itself.
int Scatter::neighbour(int step) const {
  if (!is_current()) {
    return -1;
  }
  const auto is_before = [this](int a, int b) {
    const std::size_t i = static_cast<std::size_t>(a), j = static_cast<std::size_t>(b);
    return std::tuple(points_->x[i], points_->y[i], a) <
           std::tuple(points_->x[j], points_->y[j], b);
  };
  const int selected = document_.selected();
  const bool has_place = !placeOf(selected).isNull();
  int best = -1;
  for (const std::int32_t point : document_.shown()) {
    const bool is_beyond =
        !has_place || (step > 0 ? is_before(selected, point) : is_before(point, selected));
    // Nearest to the selected one; without one the first by Right, the last by Left.
    const bool is_better =
        is_beyond && (best < 0 || (step > 0 ? is_before(point, best) : is_before(best, point)));
    if (is_better && !placeOf(point).isNull()) {
      best = point;
    }
  }
  return best < 0 ? selected : best;
}

void Scatter::keyPressEvent(QKeyEvent* event) {
  switch (event->key()) {
    case Qt::Key_Left:
    case Qt::Key_Right:
      document_.select(neighbour(event->key() == Qt::Key_Right ? 1 : -1));
      break;
    case Qt::Key_Plus:
    case Qt::Key_Minus:
      zoom(event->key() == Qt::Key_Plus ? kKeyZoom : 1.0 / kKeyZoom, 0.5, 0.5);
      break;
    case Qt::Key_Home:
      fit();
      break;
    default:
      QWidget::keyPressEvent(event);
  }
}

void Scatter::leaveEvent(QEvent*) {
  document_.hover(-1);
}

void Scatter::changeEvent(QEvent* event) {
  if (event->type() == QEvent::PaletteChange) {
    invalidate();
  }
  QWidget::changeEvent(event);
}

}  // namespace versieve::gui
