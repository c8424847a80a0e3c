// How the picture of a trace is moved and asked.
#include <QHelpEvent>
#include <QKeyEvent>
#include <QMouseEvent>
#include <QToolTip>
#include <QWheelEvent>
#include <algorithm>
#include <cmath>

#include "gui/views/trace_timeline.h"

namespace versieve::gui {
namespace {

constexpr double kLeastUs = 0.5;  // that are shown
constexpr double kZoom = 1.25;    // a notch of the wheel or a key
constexpr double kReach = 4.0;    // pixels that a press moves before it drags, or misses a bar by

}  // namespace

void TraceTimeline::set_range(double from_us, double to_us) {
  const double most = longest_us();
  const double span = std::clamp(to_us - from_us, kLeastUs, 1.02 * most);
  const double least = std::min(0.0, shift_us(1));
  from_us_ = std::clamp(from_us, least, std::max(least, 1.02 * most - span));
  to_us_ = from_us_ + span;
  update();
}

void TraceTimeline::fit() {
  const double least = std::min(0.0, shift_us(1));
  from_us_ = least;
  to_us_ = 1.01 * longest_us();
  update();
}

void TraceTimeline::zoom(double factor, double around_us) {
  set_range(around_us - (around_us - from_us_) / factor, around_us + (to_us_ - around_us) / factor);
}

void TraceTimeline::tell(int of, int launch) {
  const TracedLaunches* it = step(of);
  if (it == nullptr || launch < 0 || launch >= static_cast<int>(it->trace.launches.size())) {
    return;
  }
  told_step_ = of;
  told_ = launch;
  setAccessibleDescription(told_text());
  update();
}

QString TraceTimeline::told_text() const {
  const TracedLaunches* it = step(told_step_);
  return it == nullptr || told_ < 0 ? QString() : traced_launch_text(*it, told_);
}

void TraceTimeline::tell_phase(const QString& name) {
  for (const int of : {0, 1}) {
    const TracedLaunches* it = step(of);
    const int phase = it == nullptr ? -1 : it->phase(name);
    if (phase >= 0) {
      tell(of, it->phases[static_cast<std::size_t>(phase)].launches.front());
      bring_into_sight();
      Q_EMIT launchTold(told_step_, told_);
      return;
    }
  }
}

double TraceTimeline::own_start_us(int of, int launch) const {
  return shift_us(of) + 1e-3 * static_cast<double>(step(of)->own_start_ns(launch));
}

void TraceTimeline::bring_into_sight() {
  const double from = own_start_us(told_step_, told_);
  const double to = from + step(told_step_)->own_us[static_cast<std::size_t>(told_)];
  const double span = to_us_ - from_us_;
  if (from < from_us_ || to > to_us_) {
    set_range((from + to - span) / 2.0, (from + to + span) / 2.0);
  }
}

// The launch under the pointer; of those too narrow to be hit the nearest.
std::pair<int, int> TraceTimeline::launch_at(const QPointF& place) const {
  for (const int of : {0, 1}) {
    const TracedLaunches* it = step(of);
    if (it == nullptr) {
      continue;
    }
    int nearest = -1;
    double least = kReach;
    for (int i = 0; i < static_cast<int>(it->trace.launches.size()); ++i) {
      const QRectF at = barOf(of, i);
      if (place.y() < at.top() || place.y() > at.bottom()) {
        continue;
      }
      const double away = std::max({0.0, at.left() - place.x(), place.x() - at.right()});
      if (away < least) {
        least = away;
        nearest = i;
      }
    }
    if (nearest >= 0) {
      return {of, nearest};
    }
  }
  return {0, -1};
}

int TraceTimeline::launch_near(int of, double us) const {
  int best = 0;
  for (int i = 1; i < static_cast<int>(step(of)->trace.launches.size()); ++i) {
    if (std::fabs(own_start_us(of, i) - us) < std::fabs(own_start_us(of, best) - us)) {
      best = i;
    }
  }
  return best;
}

bool TraceTimeline::event(QEvent* event) {
  if (event->type() == QEvent::ToolTip) {
    const QHelpEvent* help = static_cast<QHelpEvent*>(event);
    const auto [of, launch] = launch_at(help->pos());
    if (launch >= 0) {
      QToolTip::showText(help->globalPos(), traced_launch_text(*step(of), launch), this);
    } else {
      QToolTip::hideText();
    }
    return true;
  }
  return QWidget::event(event);
}

void TraceTimeline::wheelEvent(QWheelEvent* event) {
  if (steps() > 0) {
    zoom(std::pow(kZoom, event->angleDelta().y() / 120.0), us_at(event->position().x()));
  }
  event->accept();
}

void TraceTimeline::mousePressEvent(QMouseEvent* event) {
  pressed_ = event->position();
  drag_from_us_ = from_us_;
  drags_ = false;
  const auto [of, launch] = launch_at(event->position());
  if (launch >= 0) {
    tell(of, launch);
    Q_EMIT launchTold(of, launch);
  }
}

void TraceTimeline::mouseMoveEvent(QMouseEvent* event) {
  if ((event->buttons() & Qt::LeftButton) != 0) {
    const double moved = event->position().x() - pressed_.x();
    drags_ = drags_ || std::fabs(moved) > kReach;
    if (drags_ && steps() > 0) {
      const double from = drag_from_us_ - (us_at(moved) - us_at(0.0));
      set_range(from, from + to_us_ - from_us_);
    }
    return;
  }
  const auto [of, launch] = launch_at(event->position());
  if (launch >= 0 && (of != told_step_ || launch != told_)) {
    tell(of, launch);
    Q_EMIT launchTold(of, launch);
  }
}

void TraceTimeline::mouseReleaseEvent(QMouseEvent*) {
  drags_ = false;
}

// To the launch and as much again on both sides.
void TraceTimeline::mouseDoubleClickEvent(QMouseEvent* event) {
  const auto [of, launch] = launch_at(event->position());
  if (launch < 0) {
    fit();
    return;
  }
  const double from = own_start_us(of, launch);
  const double length = std::max(step(of)->own_us[static_cast<std::size_t>(launch)], kLeastUs);
  set_range(from - length, from + 2.0 * length);
}

void TraceTimeline::step_through_phase(int by) {
  const TracedLaunches& it = *step(told_step_);
  if (told_ < 0) {
    tell(told_step_, 0);
    return;
  }
  const std::size_t phase = static_cast<std::size_t>(it.phase_of[static_cast<std::size_t>(told_)]);
  const std::vector<int>& launches = it.phases[phase].launches;
  const std::ptrdiff_t at =
      std::find(launches.begin(), launches.end(), told_) - launches.begin() + by;
  if (at >= 0 && at < std::ssize(launches)) {
    tell(told_step_, launches[static_cast<std::size_t>(at)]);
  }
}

// Keys after which another launch is told.
bool TraceTimeline::tell_by_key(int key) {
  const int last = static_cast<int>(step(told_step_)->trace.launches.size()) - 1;
  const int other = key == Qt::Key_Down ? 1 : 0;
  switch (key) {
    case Qt::Key_Left:
    case Qt::Key_Right:
      tell(told_step_, std::clamp(told_ + (key == Qt::Key_Right ? 1 : -1), 0, last));
      return true;
    case Qt::Key_PageUp:
    case Qt::Key_PageDown:
      step_through_phase(key == Qt::Key_PageDown ? 1 : -1);
      return true;
    case Qt::Key_Home:
    case Qt::Key_End:
      tell(told_step_, key == Qt::Key_Home ? 0 : last);
      return true;
    case Qt::Key_Up:
    case Qt::Key_Down:
      if (step(other) != nullptr && other != told_step_) {
        tell(other, launch_near(other, told_us()));
      }
      return true;
    default:
      return false;
  }
}

// Where the told launch has the GPU; the middle of what is shown while none is told.
double TraceTimeline::told_us() const {
  return told_ < 0 ? (from_us_ + to_us_) / 2.0 : own_start_us(told_step_, told_);
}

// Keys after which another part is shown.
bool TraceTimeline::move_by_key(int key, bool shifted) {
  const double tenth = 0.1 * (to_us_ - from_us_);
  if (shifted && (key == Qt::Key_Left || key == Qt::Key_Right)) {
    const double by = key == Qt::Key_Right ? tenth : -tenth;
    set_range(from_us_ + by, to_us_ + by);
  } else if (key == Qt::Key_Plus || key == Qt::Key_Equal) {
    zoom(kZoom, told_us());
  } else if (key == Qt::Key_Minus) {
    zoom(1.0 / kZoom, told_us());
  } else if (key == Qt::Key_0) {
    fit();
  } else {
    return false;
  }
  return true;
}

void TraceTimeline::keyPressEvent(QKeyEvent* event) {
  const bool has_launches =
      step(told_step_) != nullptr && !step(told_step_)->trace.launches.empty();
  const bool shifted = (event->modifiers() & Qt::ShiftModifier) != 0;
  if (has_launches && move_by_key(event->key(), shifted)) {
    return;
  }
  if (!has_launches || !tell_by_key(event->key())) {
    QWidget::keyPressEvent(event);
    return;
  }
  if (told_ >= 0) {
    bring_into_sight();
    Q_EMIT launchTold(told_step_, told_);
  }
}

}  // namespace versieve::gui
