#include "gui/views/scatter.h"

#include <QPainter>
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include "gui/models/numbers.h"
#include "gui/models/pareto.h"
#include "gui/models/point_column.h"
#include "gui/views/plot_frame.h"
#include "gui/views/point_card.h"
#include "gui/views/point_density.h"
#include "gui/views/theme.h"

namespace versieve::gui {
namespace {

constexpr int kLeft = 78;
constexpr int kBottom = 46;
constexpr int kTop = 30;
constexpr int kRight = 18;
constexpr double kLegendGap = 26.0, kNarrowLegendGap = 18.0;  // a mark and what is beside it
constexpr std::size_t kReadAtOnce = 100'000;  // of more points a worker makes the columns
constexpr std::size_t kDrawnEach = 20'000;    // of more points the cells are drawn
constexpr int kCell = 2;                      // pixels

const PointColumn& column_at(int column) {
  return point_columns()[static_cast<std::size_t>(column)];
}

bool is_length_of_context(WorkloadKind workload) {
  return workload != WorkloadKind::kTopk && workload != WorkloadKind::kSampling &&
         workload != WorkloadKind::kMachine;
}

// Kernels alone have no context: their L is something else.
QString axis_title(const PointColumn& column, bool has_other_lengths) {
  if (column.counts_tokens && has_other_lengths) {
    return QString(column.title) + ": tokens; of kernels alone scores, logits or KiB";
  }
  return *column.unit == '\0' ? QString(column.title)
                              : QString(column.title) + ", " + QString(column.unit);
}

// One mark, drawn once and then copied for each point.
QPixmap mark(const QColor& color, double radius, bool is_hollow, double ratio) {
  const int side = static_cast<int>(std::ceil(2.0 * radius)) + 4;
  QPixmap pixmap(QSize(side, side) * ratio);
  pixmap.setDevicePixelRatio(ratio);
  pixmap.fill(Qt::transparent);
  QPainter painter(&pixmap);
  painter.setRenderHint(QPainter::Antialiasing);
  QColor fill = color;
  fill.setAlpha(190);
  painter.setBrush(is_hollow ? QBrush(theme::colors().panel) : QBrush(fill));
  const QPen rim = radius > 2.0 ? QPen(theme::colors().panel, 0.6) : QPen(Qt::NoPen);
  painter.setPen(is_hollow ? QPen(color, std::min(1.4, radius / 2.0)) : rim);
  painter.drawEllipse(QPointF(side / 2.0, side / 2.0), radius, radius);
  return pixmap;
}

}  // namespace

Scatter::Scatter(Document& document, QWidget* parent)
    : QWidget(parent),
      document_(document),
      columns_{column_index("L"), column_index("time"), column_index("system")},
      points_(std::make_shared<ScatterPoints>()) {
  setMouseTracking(true);
  setFocusPolicy(Qt::StrongFocus);
  setAccessibleName(tr("Scatter plot of the shown points"));
  connect(&document, &Document::shownChanged, this, &Scatter::take_shown);
  connect(&document, &Document::hoverChanged, this, [this] { update(); });
  connect(&document, &Document::pinsChanged, this, [this] { update(); });
  connect(&document, &Document::selectionChanged, this, [this](int point) {
    setAccessibleDescription(point < 0 ? QString()
                                       : card_lines(*document_.snapshot(), point).join(". "));
    update();
  });
  connect(&document, &Document::baselineChanged, this, [this] { update(); });
  read_points(true);
}

void Scatter::setX(int column) {
  ScatterColumns columns = columns_;
  columns.x = column;
  choose(columns);
}

void Scatter::setY(int column) {
  ScatterColumns columns = columns_;
  columns.y = column;
  choose(columns);
}

void Scatter::setLog(bool x_is_log, bool y_is_log) {
  ScatterColumns columns = columns_;
  columns.x_is_log = x_is_log;
  columns.y_is_log = y_is_log;
  choose(columns);
}

void Scatter::setColor(int column) {
  ScatterColumns columns = columns_;
  columns.color = column;
  choose(columns);
}

// Another colour leaves what is seen.
void Scatter::choose(const ScatterColumns& columns) {
  if (columns != columns_) {
    const bool fits = columns.color == columns_.color;
    columns_ = columns;
    read_points(fits);
  }
}

void Scatter::setFront(bool is_drawn) {
  draws_front_ = is_drawn;
  invalidate();
}

bool Scatter::hasFront() const {
  return column_at(columns_.x).better != Better::kNeither &&
         column_at(columns_.y).better != Better::kNeither && columns_.x != columns_.y;
}

const std::vector<std::int32_t>& Scatter::front() {
  if (!front_is_valid_) {
    const auto sign = [](int column) {
      return column_at(column).better == Better::kMore ? 1.0F : -1.0F;
    };
    front_ = hasFront() ? pareto_front(points_->x, points_->y, document_.mask(), sign(columns_.x),
                                       sign(columns_.y))
                        : std::vector<std::int32_t>();
    front_is_valid_ = true;
  }
  return front_;
}

void Scatter::read_points(bool fits) {
  const SnapshotPtr snapshot = document_.snapshot();
  if (!snapshot) {
    fit();
    return;
  }
  const bool is_small = snapshot->overview.points.size() <= kReadAtOnce;
  is_stale_ = !is_small && !isVisible();
  if (is_stale_) {
    return;
  }
  if (is_small) {
    take_points(scatter_points(snapshot, columns_), fits);
    return;
  }
  const ScatterColumns columns = columns_;
  points_ = std::make_shared<ScatterPoints>();
  points_job_.start<std::shared_ptr<const ScatterPoints>>(
      [snapshot, columns] { return scatter_points(snapshot, columns); },
      [this, fits](const std::shared_ptr<const ScatterPoints>& points) {
        take_points(points, fits);
      },
      [](const QString&) {});
  invalidate();
}

void Scatter::take_points(const std::shared_ptr<const ScatterPoints>& points, bool fits) {
  if (points->snapshot != document_.snapshot()) {
    read_points(true);
    return;
  }
  points_ = points;
  front_is_valid_ = false;
  if (fits) {
    fit();
  } else {
    invalidate();
  }
}

bool Scatter::is_current() const {
  return points_->snapshot && points_->snapshot == document_.snapshot();
}

// A plot of very many points that is not seen waits until it is.
void Scatter::take_shown() {
  front_is_valid_ = false;
  if (!is_current()) {
    if (!points_job_.isRunning()) {
      read_points(true);
    }
  } else if (document_.mask().size() > kReadAtOnce && !isVisible()) {
    is_stale_ = true;
  } else {
    fit();
  }
}

void Scatter::showEvent(QShowEvent*) {
  if (is_stale_) {
    is_stale_ = false;
    take_shown();
  }
}

void Scatter::fit() {
  constexpr float kNone = std::numeric_limits<float>::quiet_NaN();
  float x_low = kNone, x_high = kNone, y_low = kNone, y_high = kNone;
  has_other_lengths_ = false;
  const std::vector<float>&x = points_->x, &y = points_->y;
  const std::span<const double> workload =
      is_current() ? points_->snapshot->values.column(column_index("workload"))
                   : std::span<const double>();
  for (const std::int32_t point : document_.shown()) {
    if (!is_current()) {
      break;
    }
    const std::size_t at = static_cast<std::size_t>(point);
    if (!std::isnan(x[at]) && !std::isnan(y[at])) {
      has_other_lengths_ =
          has_other_lengths_ || !is_length_of_context(static_cast<WorkloadKind>(workload[at]));
      x_low = x_low <= x[at] ? x_low : x[at];
      x_high = x_high >= x[at] ? x_high : x[at];
      y_low = y_low <= y[at] ? y_low : y[at];
      y_high = y_high >= y[at] ? y_high : y[at];
    }
  }
  x_axis_ = Axis::between(static_cast<double>(x_low), static_cast<double>(x_high),
                          columns_.x_is_log, column_at(columns_.x).counts_tokens);
  y_axis_ = Axis::between(static_cast<double>(y_low), static_cast<double>(y_high),
                          columns_.y_is_log, column_at(columns_.y).counts_tokens);
  invalidate();
}

void Scatter::invalidate() {
  base_is_valid_ = false;
  update();
}

QRect Scatter::plotArea() const {
  return rect().adjusted(kLeft, kTop, -kRight, -kBottom);
}

QPointF Scatter::placeOf(int point) const {
  const std::size_t at = static_cast<std::size_t>(point);
  if (point < 0 || at >= points_->x.size() || std::isnan(points_->x[at]) ||
      std::isnan(points_->y[at])) {
    return {};
  }
  const QRectF area = plotArea();
  const double x =
      (static_cast<double>(points_->x[at]) - x_axis_.low()) / (x_axis_.high() - x_axis_.low());
  const double y =
      (static_cast<double>(points_->y[at]) - y_axis_.low()) / (y_axis_.high() - y_axis_.low());
  const QPointF place(area.left() + x * area.width(), area.bottom() - y * area.height());
  return area.adjusted(-1, -1, 1, 1).contains(place) ? place : QPointF();
}

double Scatter::radius() const {
  const std::size_t count = document_.shown().size();
  return count <= 3'000 ? 4.5 : count <= 30'000 ? 3.0 : 1.5;
}

void Scatter::draw_base() {
  const double ratio = devicePixelRatioF();
  base_ = QPixmap(size() * ratio);
  base_.setDevicePixelRatio(ratio);
  base_.fill(theme::colors().panel);
  QPainter painter(&base_);
  draw_axes(painter);
  draw_points(painter);
  draw_legend(painter);
  base_is_valid_ = true;
}

void Scatter::draw_axes(QPainter& painter) const {
  painter.setFont(font());
  draw_frame(painter, {.x = x_axis_,
                       .y = y_axis_,
                       .area = plotArea(),
                       .x_title = axis_title(column_at(columns_.x), has_other_lengths_),
                       .y_title = axis_title(column_at(columns_.y), has_other_lengths_)});
}

// From right to left: colours, then what hollow marks are where there are any. In a narrow plot it
// stands closer, and what would reach the title of y is left out.
void Scatter::draw_legend(QPainter& painter) const {
  painter.setFont(font());
  const double title = 16.0 + painter.fontMetrics().horizontalAdvance(
                                  axis_title(column_at(columns_.y), has_other_lengths_));
  QFont small = font();
  small.setPixelSize(theme::kSmallPixels);
  painter.setFont(small);
  painter.setRenderHint(QPainter::Antialiasing);
  const QFontMetrics metrics(small);
  struct Entry {
    QString name;
    std::optional<QColor> color;  // none: a hollow mark
  };
  std::vector<Entry> entries;
  for (std::size_t index = drawn_.size(); index-- > 0;) {
    if (drawn_[index] > 0) {
      const QString& category = points_->categories[static_cast<qsizetype>(index)];
      entries.push_back(
          {category.isEmpty() ? tr("none") : category, theme::category(static_cast<int>(index))});
    }
  }
  if (hollow_count_ > 0) {
    entries.push_back({tr("hollow: simulated or imported"), std::nullopt});
  }
  double wanted = 0.0;
  for (const Entry& entry : entries) {
    wanted += metrics.horizontalAdvance(entry.name) + kLegendGap;
  }
  const double room = width() - kRight - title;
  const double gap = wanted <= room ? kLegendGap : kNarrowLegendGap;
  double right = width() - kRight;
  for (const Entry& entry : entries) {
    right -= metrics.horizontalAdvance(entry.name);
    if (right - kNarrowLegendGap < title) {
      break;
    }
    painter.setPen(theme::colors().quiet_ink);
    painter.drawText(QPointF(right, 21), entry.name);
    painter.setPen(entry.color ? QPen(Qt::NoPen) : QPen(theme::colors().quiet_ink));
    painter.setBrush(entry.color ? QBrush(*entry.color) : QBrush(Qt::NoBrush));
    painter.drawEllipse(QPointF(right - 9, 17), 4, 4);
    right -= gap;
  }
}

void Scatter::draw_points(QPainter& painter) {
  drawn_count_ = 0;
  hollow_count_ = 0;
  drawn_.assign(static_cast<std::size_t>(points_->categories.size()), 0);
  if (!is_current()) {
    return;
  }
  painter.setClipRect(plotArea().adjusted(-6, -6, 6, 6));
  if (points_->x.size() > kDrawnEach) {
    draw_cells(painter);
  } else {
    draw_each(painter);
  }
  draw_front(painter);
  painter.setClipping(false);
}

// Hollow marks would not be seen: the source of one that is selected stands beside it.
void Scatter::draw_cells(QPainter& painter) {
  DensePoints points{points_->x,        points_->y, document_.mask(),
                     points_->category, {},         theme::colors().faint};
  for (std::size_t index = 0; index < drawn_.size(); ++index) {
    points.colors.push_back(theme::category(static_cast<int>(index)));
  }
  const QRect area = plotArea();
  const QRectF view(x_axis_.low(), y_axis_.low(), x_axis_.high() - x_axis_.low(),
                    y_axis_.high() - y_axis_.low());
  const DensePicture picture = draw_dense(
      points, view, {std::max(1, area.width() / kCell), std::max(1, area.height() / kCell)});
  painter.drawImage(area, picture.image);
  for (std::size_t index = 0; index < drawn_.size(); ++index) {
    drawn_[index] = picture.counts[index];
    drawn_count_ += picture.counts[index];
  }
}

void Scatter::draw_each(QPainter& painter) {
  const double ratio = devicePixelRatioF();
  if (document_.shown().size() < points_->x.size()) {
    const QPixmap faint = mark(theme::colors().faint, radius() * 0.6, false, ratio);
    const double half = faint.width() / ratio / 2.0;
    for (std::size_t point = 0; point < points_->x.size(); ++point) {
      const QPointF place = placeOf(static_cast<int>(point));
      if (!place.isNull()) {
        painter.drawPixmap(place - QPointF(half, half), faint);
      }
    }
  }
  std::vector<QPixmap> solid;
  std::vector<QPixmap> hollow;
  for (std::size_t index = 0; index < drawn_.size(); ++index) {
    const QColor color = theme::category(static_cast<int>(index));
    solid.push_back(mark(color, radius(), false, ratio));
    hollow.push_back(mark(color, radius(), true, ratio));
  }
  for (const std::int32_t point : document_.shown()) {
    const QPointF place = placeOf(point);
    if (place.isNull()) {
      continue;
    }
    const std::size_t at = static_cast<std::size_t>(point);
    const bool is_hollow = points_->is_hollow[at] != 0;
    const QPixmap& pixmap =
        is_hollow ? hollow[points_->category[at]] : solid[points_->category[at]];
    const double half = pixmap.width() / ratio / 2.0;
    painter.drawPixmap(place - QPointF(half, half), pixmap);
    ++drawn_count_;
    hollow_count_ += is_hollow ? 1 : 0;
    ++drawn_[points_->category[at]];
  }
}

void Scatter::paintEvent(QPaintEvent*) {
  if (!base_is_valid_) {
    draw_base();
  }
  QPainter painter(this);
  painter.drawPixmap(0, 0, base_);
  painter.setRenderHint(QPainter::Antialiasing);
  if (drawn_count_ == 0) {
    painter.setPen(theme::colors().quiet_ink);
    painter.drawText(plotArea(), Qt::AlignCenter | Qt::TextWordWrap, emptyText());
  }
  draw_baseline(painter);
  if (std::binary_search(document_.shown().begin(), document_.shown().end(),
                         document_.selected())) {
    draw_mark(painter, document_.selected(), radius() + 4.0);
  }
  draw_pins(painter);
  if (const int hovered = document_.hovered(); hovered >= 0 && !placeOf(hovered).isNull()) {
    draw_mark(painter, hovered, radius() + 2.0);
    if (underMouse()) {  // hovered here, not in another view
      draw_card(painter, card_lines(*document_.snapshot(), hovered), placeOf(hovered), size());
    }
  }
  if (brushing_ && dragging_) {
    QColor tint = theme::colors().accent;
    tint.setAlphaF(0.15F);
    painter.setPen(theme::colors().accent);
    painter.setBrush(tint);
    painter.drawRect(QRectF(pressed_at_, dragged_to_).normalized() & QRectF(plotArea()));
  }
  if (hasFocus()) {
    painter.setPen(QPen(theme::colors().accent, 1.6));
    painter.setBrush(Qt::NoBrush);
    painter.drawRect(plotArea());
  }
}

QString Scatter::emptyText() const {
  if (points_job_.isRunning()) {
    return tr("Drawing …");
  }
  if (!document_.snapshot() || document_.snapshot()->overview.points.empty()) {
    return tr("This database holds no points yet: the page Measure measures them.");
  }
  return document_.shown().empty()
             ? tr("The filter leaves no point.")
             : tr("No shown point has both “%1” and “%2”%3.")
                   .arg(column_at(columns_.x).title, column_at(columns_.y).title,
                        columns_.x_is_log || columns_.y_is_log
                            ? tr(" that a logarithmic axis can show")
                            : "");
}

}  // namespace versieve::gui
