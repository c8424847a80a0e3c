// What pointer and keys do to parallel coordinates.
#include <QKeyEvent>
#include <QMouseEvent>
#include <algorithm>
#include <cmath>

#include "gui/models/point_column.h"
#include "gui/views/parallel_plot.h"

namespace versieve::gui {
namespace {

constexpr double kReach = 8.0;      // pixels from an axis or a line that still mean it
constexpr double kEndReach = 5.0;   // pixels from a brush's end
constexpr double kDragStart = 3.0;  // pixels before a press becomes a drag
constexpr double kKeyStep = 0.05;   // of the axis
constexpr double kTopPlace = 65535.0;

}  // namespace

int ParallelPlot::nearest_axis(double x) const {
  int best = 0;
  for (int axis = 1; axis < axis_count(); ++axis) {
    if (std::fabs(axisRect(axis).center().x() - x) < std::fabs(axisRect(best).center().x() - x)) {
      best = axis;
    }
  }
  return best;
}

ParallelAxis::Brush ParallelPlot::brush_of(int axis) const {
  if (!document_.filterError().isEmpty()) {
    return {};
  }
  const std::vector<ParallelAxis::Brush> brushes =
      scene_->axes[static_cast<std::size_t>(axis)].brushesOf(
          *scene_->snapshot, PointFilter::parse(document_.filterText()));
  return brushes.empty() ? ParallelAxis::Brush{}
                         : ParallelAxis::Brush{brushes.front().low, brushes.back().high};
}

ParallelPlot::Grip ParallelPlot::grip_at(const QPointF& place, int& axis) const {
  axis = nearest_axis(place.x());
  const QRectF rect = axisRect(axis);
  if (titleRect(axis).contains(place)) {
    return Grip::kTitle;
  }
  if (std::fabs(place.x() - rect.center().x()) > kReach ||
      !rect.adjusted(-kReach, -kReach, kReach, kReach).contains(place)) {
    return Grip::kLine;
  }
  const ParallelAxis::Brush brush = brush_of(axis);
  if (brush.isAll() || scene_->axes[static_cast<std::size_t>(axis)].isText()) {
    return Grip::kBrush;
  }
  const double low = rect.bottom() - brush.low * rect.height();
  const double high = rect.bottom() - brush.high * rect.height();
  return std::fabs(place.y() - high) <= kEndReach  ? Grip::kHigh
         : std::fabs(place.y() - low) <= kEndReach ? Grip::kLow
         : place.y() > high && place.y() < low     ? Grip::kMove
                                                   : Grip::kBrush;
}

int ParallelPlot::nearest_line(const QPointF& place) const {
  const QRectF area = axisRect(0) | axisRect(axis_count() - 1);
  if (!area.contains(place) || axis_count() < 2) {
    return -1;
  }
  int axis = 0;
  while (axis + 2 < axis_count() && axisRect(axis + 1).center().x() < place.x()) {
    ++axis;
  }
  const double left = axisRect(axis).center().x();
  const double share =
      std::clamp((place.x() - left) / (axisRect(axis + 1).center().x() - left), 0.0, 1.0);
  const double wanted = kTopPlace * (area.bottom() - place.y()) / area.height();
  const double reach = kTopPlace * kReach / area.height();
  const std::vector<std::uint16_t>& from = scene_->places[static_cast<std::size_t>(axis)];
  const std::vector<std::uint16_t>& to = scene_->places[static_cast<std::size_t>(axis) + 1];
  int best = -1;
  double best_distance = reach;
  for (const std::int32_t point : document_.shown()) {
    const std::size_t at = static_cast<std::size_t>(point);
    const double distance = std::fabs(from[at] + share * (to[at] - from[at]) - wanted);
    if (distance < best_distance) {
      best = point;
      best_distance = distance;
    }
  }
  return best;
}

void ParallelPlot::brush(int axis, const ParallelAxis::Brush& brush) {
  document_.setFilter(
      scene_->axes[static_cast<std::size_t>(axis)].brushed(document_.filterText(), brush));
  tell_axis();
}

void ParallelPlot::move_axis(int from, int to) {
  std::vector<int> columns = columns_;
  const int column = columns[static_cast<std::size_t>(from)];
  columns.erase(columns.begin() + from);
  columns.insert(columns.begin() + to, column);
  current_ = to;
  setColumns(columns);
}

void ParallelPlot::mousePressEvent(QMouseEvent* event) {
  if (!isReady() || event->button() != Qt::LeftButton) {
    return;
  }
  pressed_at_ = dragged_to_ = event->position();
  dragged_ = false;
  grip_ = grip_at(pressed_at_, gripped_);
  if (grip_ != Grip::kLine) {
    current_ = gripped_;
    grip_brush_ = brush_of(gripped_);
  }
  update();
}

void ParallelPlot::mouseMoveEvent(QMouseEvent* event) {
  if (!isReady()) {
    return;
  }
  dragged_to_ = event->position();
  if (!(event->buttons() & Qt::LeftButton)) {
    int axis = 0;
    const Grip grip = grip_at(dragged_to_, axis);
    setCursor(grip == Grip::kTitle   ? Qt::SizeHorCursor
              : grip == Grip::kLine  ? Qt::ArrowCursor
              : grip == Grip::kBrush ? Qt::CrossCursor
                                     : Qt::SizeVerCursor);
    document_.hover(grip == Grip::kLine ? nearest_line(dragged_to_) : -1);
    update();
    return;
  }
  dragged_ = dragged_ || QLineF(pressed_at_, dragged_to_).length() > kDragStart;
  if (!dragged_ || grip_ == Grip::kLine || grip_ == Grip::kNone) {
    return;
  }
  document_.hover(-1);
  const QRectF rect = axisRect(gripped_);
  const auto place_at = [&rect](const QPointF& at) {
    return std::clamp((rect.bottom() - at.y()) / rect.height(), 0.0, 1.0);
  };
  const double here = place_at(dragged_to_), began = place_at(pressed_at_);
  switch (grip_) {
    case Grip::kBrush:
      brush(gripped_, {std::min(here, began), std::max(here, began)});
      break;
    case Grip::kMove: {
      const double by = std::clamp(here - began, -grip_brush_.low, 1.0 - grip_brush_.high);
      brush(gripped_, {grip_brush_.low + by, grip_brush_.high + by});
      break;
    }
    case Grip::kLow:
      brush(gripped_, {std::min(here, grip_brush_.high), grip_brush_.high});
      break;
    case Grip::kHigh:
      brush(gripped_, {grip_brush_.low, std::max(here, grip_brush_.low)});
      break;
    case Grip::kTitle:
      update();
      break;
    case Grip::kNone:
    case Grip::kLine:
      break;
  }
}

void ParallelPlot::mouseReleaseEvent(QMouseEvent* event) {
  const Grip grip = std::exchange(grip_, Grip::kNone);
  if (!isReady()) {
    return;
  }
  if (grip == Grip::kTitle && dragged_) {
    move_axis(gripped_, nearest_axis(event->position().x()));
  } else if (grip == Grip::kLine && !dragged_) {
    document_.select(nearest_line(event->position()));
  } else if (grip != Grip::kNone && grip != Grip::kTitle && !dragged_) {
    brush(gripped_, {});
  }
  update();
}

void ParallelPlot::leaveEvent(QEvent*) {
  document_.hover(-1);
}

// What a screen reader says of the axis of the keys.
void ParallelPlot::tell_axis() {
  if (!isReady()) {
    return;
  }
  const PointColumn& column =
      point_columns()[static_cast<std::size_t>(columns_[static_cast<std::size_t>(current_)])];
  const ParallelAxis::Brush brush = brush_of(current_);
  setAccessibleDescription(tr("Axis %1 of %2: %3, %4")
                               .arg(current_ + 1)
                               .arg(axis_count())
                               .arg(QString::fromUtf8(column.title),
                                    brush.isAll() ? tr("all of it")
                                                  : tr("kept from %1 % to %2 % of its height")
                                                        .arg(std::lround(100.0 * brush.low))
                                                        .arg(std::lround(100.0 * brush.high))));
}

void ParallelPlot::keyPressEvent(QKeyEvent* event) {
  const bool is_ready = isReady();
  const bool shift = event->modifiers().testFlag(Qt::ShiftModifier);
  const bool control = event->modifiers().testFlag(Qt::ControlModifier);
  const int key = event->key();
  if (is_ready && (key == Qt::Key_Left || key == Qt::Key_Right)) {
    const int next = std::clamp(current_ + (key == Qt::Key_Right ? 1 : -1), 0, axis_count() - 1);
    if (control && next != current_) {
      move_axis(current_, next);
    }
    current_ = next;
    tell_axis();
    update();
  } else if (is_ready && (key == Qt::Key_Up || key == Qt::Key_Down)) {
    const ParallelAxis& axis = scene_->axes[static_cast<std::size_t>(current_)];
    const double step =
        (axis.isText() ? 1.0 / static_cast<double>(std::max<qsizetype>(1, axis.names().size()))
                       : kKeyStep) *
        (key == Qt::Key_Up ? 1.0 : -1.0);
    ParallelAxis::Brush kept = brush_of(current_);
    if (!shift && !control) {
      const double by = std::clamp(step, -kept.low, 1.0 - kept.high);
      kept = {kept.low + by, kept.high + by};
    } else if (shift) {
      kept.high = std::clamp(kept.high + step, kept.low, 1.0);
    } else {
      kept.low = std::clamp(kept.low + step, 0.0, kept.high);
    }
    brush(current_, kept);
  } else if (is_ready && (key == Qt::Key_Delete || key == Qt::Key_Backspace)) {
    brush(current_, {});
  } else {
    QWidget::keyPressEvent(event);
  }
}

}  // namespace versieve::gui
