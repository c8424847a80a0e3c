#include "gui/views/front_plot.h"

#include <QKeyEvent>
#include <QMouseEvent>
#include <QPainter>
#include <QToolTip>
#include <algorithm>
#include <cmath>

#include "gui/models/numbers.h"
#include "gui/models/plain_words.h"
#include "gui/views/theme.h"

namespace versieve::gui {
namespace {

constexpr int kLeft = 78, kTop = 34, kRight = 14, kBottom = 78;
constexpr double kLegend = 42.0;     // below the area
constexpr double kLane = 64.0;       // nothing lost; not measured
constexpr double kGrip = 7.0;        // pixels around the limit's line that take hold of it
constexpr double kReach = 10.0;      // of a click around a mark
constexpr double kLossStep = 0.001;  // of limits, in nats
constexpr double kRadius = 4.5;
constexpr double kFrontRadius = 6.0;

std::optional<double> rounded_up(const std::optional<double>& nats) {
  return nats ? std::optional<double>(std::ceil(*nats / kLossStep - 1e-9) * kLossStep) : nats;
}

// A baseline is of no class.
QColor color_of(const PlanEntry& entry) {
  return entry.baseline.empty() ? theme::category(static_cast<int>(entry.precision))
                                : theme::colors().quiet_ink;
}

QString marks_text() {
  return FrontPlot::tr(
      "filled: on the front, grey: another is faster and loses no more, hollow: beyond the limit");
}

}  // namespace

FrontPlot::FrontPlot(QWidget* parent) : QWidget(parent) {
  setObjectName("frontPlot");
  setAccessibleName(tr("Tokens a second against loss"));
  setFocusPolicy(Qt::StrongFocus);
  setMouseTracking(true);
}

void FrontPlot::show_front(const QualityFront& front) {
  const QString before =
      selected_ < 0 ? QString()
                    : QString::fromStdString(front_.points[static_cast<std::size_t>(selected_)]
                                                 .entry->evaluation.strategy.text());
  front_ = front;
  std::vector<double> rates;
  selected_ = -1;
  for (std::size_t i = 0; i < front_.points.size(); ++i) {
    const Evaluation& e = front_.points[i].entry->evaluation;
    rates.push_back(e.throughput);
    if (QString::fromStdString(e.strategy.text()) == before) {
      selected_ = static_cast<int>(i);
    }
  }
  if (!dragging_) {  // what is dragged over stays where it is
    loss_axis_ = Axis::around(front_.losses(), true, false);
    rate_axis_ = Axis::around(rates, false, false);
  }
  const auto within = std::find_if(front_.points.begin(), front_.points.end(),
                                   [](const FrontPoint& point) { return point.is_within; });
  if (selected_ < 0 && within != front_.points.end()) {
    selected_ = static_cast<int>(within - front_.points.begin());
  }
  select(selected_);
}

QRectF FrontPlot::plotArea() const {
  return QRectF(rect().adjusted(kLeft, kTop, -kRight, -kBottom));
}

QRectF FrontPlot::measured_area() const {
  return plotArea().adjusted(kLane, 0, -kLane, 0);
}

double FrontPlot::x_of(const std::optional<double>& most_kl) const {
  const QRectF area = measured_area();
  if (!most_kl) {
    return area.right() + kLane / 2.0;
  }
  return *most_kl > 0.0 ? area.left() + loss_axis_.place(*most_kl) * area.width()
                        : area.left() - kLane / 2.0;
}

QPointF FrontPlot::placeOf(int point) const {
  const FrontPoint& p = front_.points[static_cast<std::size_t>(point)];
  const QRectF area = plotArea();
  return {x_of(p.most_kl),
          area.bottom() - rate_axis_.place(p.entry->evaluation.throughput) * area.height()};
}

double FrontPlot::limitX() const {
  const QRectF area = measured_area();
  if (!front_.limit) {
    return area.right();
  }
  return *front_.limit > 0.0 ? std::clamp(x_of(front_.limit), area.left(), area.right())
                             : area.left();
}

std::optional<double> FrontPlot::limit_at(double x) const {
  const QRectF area = measured_area();
  if (x >= area.right()) {
    return std::nullopt;
  }
  return x <= area.left()
             ? 0.0
             : std::round(loss_axis_.value_at((x - area.left()) / area.width()) / kLossStep) *
                   kLossStep;
}

// From one tuple's loss to the next: each step lets another one in, or leaves one out.
void FrontPlot::step_limit(int step) {
  std::vector<double> stops = {0.0};
  for (const double loss : front_.losses()) {
    const double stop = *rounded_up(loss);
    if (stop > stops.back()) {
      stops.push_back(stop);
    }
  }
  const double half = kLossStep / 2.0;
  if (step > 0) {
    const auto next = std::find_if(stops.begin(), stops.end(), [&](double stop) {
      return front_.limit && stop > *front_.limit + half;
    });
    Q_EMIT limitMoved(next == stops.end() ? std::nullopt : std::optional<double>(*next));
  } else {
    const auto before = std::find_if(stops.rbegin(), stops.rend(), [&](double stop) {
      return !front_.limit || stop < *front_.limit - half;
    });
    Q_EMIT limitMoved(before == stops.rend() ? 0.0 : *before);
  }
}

void FrontPlot::select(int point) {
  selected_ = point;
  setAccessibleDescription(
      selected_ < 0 ? QString()
                    : front_point_text(front_, front_.points[static_cast<std::size_t>(selected_)]));
  update();
  Q_EMIT pointSelected(selected_);
}

int FrontPlot::nearest(const QPointF& at) const {
  int best = -1;
  double reach = kReach;
  for (int i = 0; i < static_cast<int>(front_.points.size()); ++i) {
    const QPointF away = placeOf(i) - at;
    const double distance = std::hypot(away.x(), away.y());
    if (distance < reach) {
      reach = distance;
      best = i;
    }
  }
  return best;
}

void FrontPlot::mousePressEvent(QMouseEvent* event) {
  const int point = nearest(event->position());
  const double away = std::fabs(event->position().x() - limitX());
  if (event->button() == Qt::LeftButton && away <= kGrip && point < 0) {
    dragging_ = true;
  } else if (point >= 0) {
    select(point);
  }
}

void FrontPlot::mouseMoveEvent(QMouseEvent* event) {
  if (dragging_) {
    const std::optional<double> limit = limit_at(event->position().x());
    if (limit != front_.limit) {
      Q_EMIT limitMoved(limit);
    }
    return;
  }
  const int point = nearest(event->position());
  const bool is_grip = point < 0 && std::fabs(event->position().x() - limitX()) <= kGrip;
  setCursor(is_grip ? Qt::SplitHCursor : Qt::ArrowCursor);
  if (point >= 0) {
    QToolTip::showText(event->globalPosition().toPoint(),
                       front_point_text(front_, front_.points[static_cast<std::size_t>(point)]),
                       this);
  } else if (is_grip) {
    QToolTip::showText(event->globalPosition().toPoint(),
                       tr("Loss at most: drag, or Left and Right"), this);
  } else {
    QToolTip::showText(event->globalPosition().toPoint(), legendHelpAt(event->position()), this);
  }
}

void FrontPlot::mouseReleaseEvent(QMouseEvent*) {
  dragging_ = false;
}

void FrontPlot::mouseDoubleClickEvent(QMouseEvent* event) {
  const int point = nearest(event->position());
  if (point >= 0) {
    Q_EMIT pointOpened(point);
  }
}

void FrontPlot::keyPressEvent(QKeyEvent* event) {
  switch (event->key()) {
    case Qt::Key_Left:
      return step_limit(-1);
    case Qt::Key_Right:
      return step_limit(1);
    case Qt::Key_Home:
      Q_EMIT limitMoved(0.0);
      return;
    case Qt::Key_End:
      Q_EMIT limitMoved(std::nullopt);
      return;
    case Qt::Key_Up:
      return select(std::max(0, selected_ - 1));
    case Qt::Key_Down:
      return select(std::min(selected_ + 1, static_cast<int>(front_.points.size()) - 1));
    case Qt::Key_Return:
    case Qt::Key_Enter:
      if (selected_ >= 0) {
        Q_EMIT pointOpened(selected_);
      }
      return;
    default:
      QWidget::keyPressEvent(event);
  }
}

QList<QStringList> FrontPlot::savedRows() const {
  QList<QStringList> rows = {{tr("Strategy"), tr("Class"), tr("Tokens a second"),
                              tr("KL at most, nats a token"), tr("On the front"),
                              tr("Within the limit")}};
  for (const FrontPoint& point : front_.points) {
    const Evaluation& e = point.entry->evaluation;
    rows << QStringList{QString::fromStdString(e.strategy.text()),
                        QString(name_of(point.entry->precision)),
                        QString::number(e.throughput),
                        point.most_kl ? QString::number(*point.most_kl) : QString(),
                        point.is_on_front ? tr("yes") : tr("no"),
                        point.is_within ? tr("yes") : tr("no")};
  }
  return rows;
}

void FrontPlot::paintEvent(QPaintEvent*) {
  QPainter painter(this);
  painter.fillRect(rect(), theme::colors().panel);
  painter.setRenderHint(QPainter::Antialiasing);
  if (front_.points.empty()) {
    painter.setPen(theme::colors().quiet_ink);
    painter.drawText(rect(), Qt::AlignCenter | Qt::TextWordWrap, front_text(front_));
    return;
  }
  draw_axes(painter);
  draw_limit(painter);
  draw_front_line(painter);
  for (int i = static_cast<int>(front_.points.size()) - 1; i >= 0; --i) {
    draw_point(painter, i);
  }
  draw_legend(painter);
}

void FrontPlot::draw_axes(QPainter& painter) const {
  const QRectF area = plotArea();
  const QRectF measured = measured_area();
  QFont small = font();
  small.setPixelSize(theme::kSmallPixels);
  painter.setFont(small);
  const auto below = [&](double x, const QString& text) {
    painter.setPen(theme::colors().quiet_ink);
    painter.drawText(QRectF(x - 45, area.bottom() + 4, 90, 16), Qt::AlignHCenter, text);
  };
  for (const Tick& tick : rate_axis_.ticks(6)) {
    const double y = area.bottom() - rate_axis_.place(tick.value) * area.height();
    painter.setPen(theme::colors().grid);
    painter.drawLine(QPointF(area.left(), y), QPointF(area.right(), y));
    painter.setPen(theme::colors().quiet_ink);
    painter.drawText(QRectF(0, y - 8, kLeft - 8, 16), Qt::AlignRight | Qt::AlignVCenter,
                     fixed(tick.value, 0));
  }
  if (!front_.losses().empty()) {
    for (const Tick& tick :
         loss_axis_.ticks(std::max(2, static_cast<int>(measured.width()) / 90))) {
      const double x = x_of(tick.value);
      painter.setPen(theme::colors().grid);
      painter.drawLine(QPointF(x, area.top()), QPointF(x, area.bottom()));
      below(x, tick.text);
    }
  }
  below(measured.left() - kLane / 2.0, tr("exact"));
  below(measured.right() + kLane / 2.0 - 2, tr("unmeasured"));
  painter.setPen(theme::colors().line);
  painter.drawRect(area);
  painter.drawLine(measured.topLeft(), measured.bottomLeft());
  painter.drawLine(measured.topRight(), measured.bottomRight());
  painter.setFont(font());
  painter.setPen(theme::colors().ink);
  painter.drawText(QRectF(area.left(), area.bottom() + 23, area.width(), 18), Qt::AlignCenter,
                   tr("KL, nats a token: upper end of the 95 % interval"));
  painter.drawText(QRectF(6, 0, 140, kTop - 10), Qt::AlignVCenter, tr("Tokens/s"));
}

void FrontPlot::draw_front_line(QPainter& painter) const {
  std::vector<QPointF> corners;
  for (int i = static_cast<int>(front_.points.size()) - 1; i >= 0; --i) {
    if (front_.points[static_cast<std::size_t>(i)].is_on_front) {
      corners.push_back(placeOf(i));
    }
  }
  painter.setPen(QPen(theme::colors().ink, 1.2));
  for (std::size_t i = 0; i < corners.size(); ++i) {
    const double end = i + 1 < corners.size() ? corners[i + 1].x() : measured_area().right();
    painter.drawLine(corners[i], QPointF(end, corners[i].y()));
    if (i + 1 < corners.size()) {
      painter.drawLine(QPointF(end, corners[i].y()), corners[i + 1]);
    }
  }
}

void FrontPlot::draw_point(QPainter& painter, int index) const {
  const FrontPoint& point = front_.points[static_cast<std::size_t>(index)];
  const QPointF place = placeOf(index);
  const QColor own = color_of(*point.entry);
  const double radius = point.is_on_front ? kFrontRadius : kRadius;
  if (!point.is_within) {
    painter.setPen(QPen(theme::colors().faint, 1.2));
    painter.setBrush(Qt::NoBrush);
  } else if (point.is_on_front) {
    painter.setPen(QPen(theme::colors().panel, 1.0));
    painter.setBrush(own);
  } else {
    painter.setPen(QPen(own, 1.2));
    painter.setBrush(theme::colors().faint);
  }
  painter.drawEllipse(place, radius, radius);
  if (index == selected_) {
    painter.setPen(QPen(theme::colors().ink, hasFocus() ? 2.2 : 1.4));
    painter.setBrush(Qt::NoBrush);
    painter.drawEllipse(place, radius + 3.5, radius + 3.5);
  }
}

void FrontPlot::draw_limit(QPainter& painter) const {
  const QRectF area = plotArea();
  const double x = limitX();
  QColor beyond = theme::colors().line;
  beyond.setAlphaF(0.35F);
  if (front_.limit) {
    painter.fillRect(QRectF(QPointF(x, area.top()), area.bottomRight()), beyond);
  }
  painter.setPen(QPen(theme::colors().accent, hasFocus() ? 2.4 : 1.6));
  painter.drawLine(QPointF(x, area.top() - 4), QPointF(x, area.bottom()));
  painter.setPen(Qt::NoPen);
  painter.setBrush(theme::colors().accent);
  painter.drawRoundedRect(QRectF(x - 4, area.top() - 9, 8, 14), 3, 3);
  painter.setPen(theme::colors().accent);
  const QString text =
      front_.limit ? tr("at most %1 nats").arg(fixed(*front_.limit, 3)) : tr("no limit");
  const double width = fontMetrics().horizontalAdvance(text) + 12.0;
  const bool fits = x + 8 + width <= area.right();
  painter.drawText(QRectF(fits ? x + 8 : x - 8 - width, area.top() - 24, width, 16),
                   (fits ? Qt::AlignLeft : Qt::AlignRight) | Qt::AlignVCenter, text);
}

std::vector<FrontPlot::LegendItem> FrontPlot::legend_items() const {
  std::vector<LegendItem> items;
  QFont small = font();
  small.setPixelSize(theme::kSmallPixels);
  const QFontMetrics metrics(small);
  const QRectF area = plotArea();
  double x = area.left();
  for (int i = 0; i <= kPrecisionClassCount; ++i) {
    const bool is_baseline = i == kPrecisionClassCount;
    const bool is_shown =
        std::any_of(front_.points.begin(), front_.points.end(), [&](const FrontPoint& point) {
          return point.entry->baseline.empty() == !is_baseline &&
                 (is_baseline || static_cast<int>(point.entry->precision) == i);
        });
    if (is_shown) {
      const QString name =
          is_baseline ? tr("baselines") : QString(name_of(static_cast<PrecisionClass>(i)));
      const double width = metrics.horizontalAdvance(name) + 14.0;
      items.push_back({i, name, QRectF(x, area.bottom() + kLegend, width, 16)});
      x += width + 14.0;
    }
  }
  return items;
}

QRectF FrontPlot::legendRect(int item) const {
  const std::vector<LegendItem> items = legend_items();
  return item < static_cast<int>(items.size()) ? items[static_cast<std::size_t>(item)].place
                                               : QRectF();
}

QString FrontPlot::legendHelpAt(const QPointF& place) const {
  for (const LegendItem& item : legend_items()) {
    if (item.place.contains(place)) {
      return item.precision < kPrecisionClassCount
                 ? class_in_words(static_cast<PrecisionClass>(item.precision))
                 : tr("Plain decoding and the fixed strategy that all are compared with");
    }
  }
  const QRectF area = plotArea();
  return QRectF(area.left(), area.bottom() + kLegend + 17, area.width(), 16).contains(place)
             ? marks_text()
             : QString();
}

void FrontPlot::draw_legend(QPainter& painter) const {
  QFont small = font();
  small.setPixelSize(theme::kSmallPixels);
  painter.setFont(small);
  const QRectF area = plotArea();
  for (const LegendItem& item : legend_items()) {
    painter.setPen(Qt::NoPen);
    painter.setBrush(item.precision < kPrecisionClassCount ? theme::category(item.precision)
                                                           : theme::colors().quiet_ink);
    painter.drawEllipse(QPointF(item.place.left() + 5, item.place.center().y()), 4.5, 4.5);
    painter.setPen(theme::colors().ink);
    painter.drawText(item.place.adjusted(14, 0, 0, 0), Qt::AlignLeft | Qt::AlignVCenter, item.name);
  }
  painter.setPen(theme::colors().quiet_ink);
  const QString text = marks_text();
  painter.drawText(
      QRectF(area.left(), area.bottom() + kLegend + 17, area.width(), 16),
      Qt::AlignLeft | Qt::AlignVCenter,
      painter.fontMetrics().elidedText(text, Qt::ElideRight, static_cast<int>(area.width())));
}

}  // namespace versieve::gui
