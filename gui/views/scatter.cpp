#include "gui/views/scatter.h"

#include <QPainter>
#include <algorithm>
#include <cmath>

#include "gui/models/numbers.h"
#include "gui/models/point_column.h"
#include "gui/views/point_card.h"
#include "gui/views/theme.h"

namespace versieve::gui {
namespace {

constexpr int kLeft = 78;
constexpr int kBottom = 46;
constexpr int kTop = 30;
constexpr int kRight = 18;

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
      x_column_(column_index("L")),
      y_column_(column_index("time")),
      color_column_(column_index("system")) {
  setMouseTracking(true);
  setFocusPolicy(Qt::StrongFocus);
  setAccessibleName(tr("Scatter plot of the shown points"));
  connect(&document, &Document::shownChanged, this, [this] {
    read_columns();
    fit();
  });
  connect(&document, &Document::selectionChanged, this, [this](int point) {
    setAccessibleDescription(point < 0 ? QString()
                                       : card_lines(*document_.snapshot(), point).join(". "));
    update();
  });
  connect(&document, &Document::baselineChanged, this, [this] { update(); });
  read_columns();
  fit();
}

void Scatter::setX(int column) {
  x_column_ = column;
  read_columns();
  fit();
}

void Scatter::setY(int column) {
  y_column_ = column;
  read_columns();
  fit();
}

void Scatter::setLog(bool x_is_log, bool y_is_log) {
  x_is_log_ = x_is_log;
  y_is_log_ = y_is_log;
  fit();
}

void Scatter::setColor(int column) {
  color_column_ = column;
  read_columns();
  invalidate();
}

void Scatter::read_columns() {
  x_.clear();
  y_.clear();
  category_.clear();
  categories_.clear();
  hovered_ = -1;
  if (!document_.snapshot()) {
    return;
  }
  const Snapshot& snapshot = *document_.snapshot();
  const PointColumn& color = column_at(color_column_);
  std::vector<int> category_at;  // [alphabetic place], -1: not met yet
  for (const db::PointOverview& point : snapshot.overview.points) {
    x_.push_back(column_at(x_column_).value(snapshot, point));
    y_.push_back(column_at(y_column_).value(snapshot, point));
    const std::size_t place = static_cast<std::size_t>(color.value(snapshot, point));
    if (place >= category_at.size()) {
      category_at.resize(place + 1, -1);
    }
    if (category_at[place] < 0) {
      category_at[place] = add_category(color.text(snapshot, point));
    }
    category_.push_back(static_cast<std::uint8_t>(category_at[place]));
  }
}

// Its index; beyond the colours all share the last, "others".
int Scatter::add_category(const QString& name) {
  if (categories_.size() <= theme::kCategoryCount) {
    categories_.push_back({categories_.size() < theme::kCategoryCount ? name : tr("others")});
  }
  return static_cast<int>(categories_.size()) - 1;
}

void Scatter::fit() {
  std::vector<double> x;
  std::vector<double> y;
  has_other_lengths_ = false;
  for (const std::int32_t point : document_.shown()) {
    const std::size_t at = static_cast<std::size_t>(point);
    if (std::isfinite(x_[at]) && std::isfinite(y_[at])) {
      has_other_lengths_ =
          has_other_lengths_ ||
          !is_length_of_context(document_.snapshot()->overview.points[at].workload);
      x.push_back(x_[at]);
      y.push_back(y_[at]);
    }
  }
  x_axis_ = Axis::around(x, x_is_log_, column_at(x_column_).counts_tokens);
  y_axis_ = Axis::around(y, y_is_log_, column_at(y_column_).counts_tokens);
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
  if (point < 0 || at >= x_.size() || !x_axis_.holds(x_[at]) || !y_axis_.holds(y_[at])) {
    return {};
  }
  const QRectF area = plotArea();
  const QPointF place(area.left() + x_axis_.place(x_[at]) * area.width(),
                      area.bottom() - y_axis_.place(y_[at]) * area.height());
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
  const QRect area = plotArea();
  QFont small = font();
  small.setPixelSize(theme::kSmallPixels);
  painter.setFont(small);
  for (const Tick& tick : x_axis_.ticks(std::max(2, area.width() / 90))) {
    const double x = area.left() + x_axis_.place(tick.value) * area.width();
    painter.setPen(theme::colors().grid);
    painter.drawLine(QPointF(x, area.top()), QPointF(x, area.bottom()));
    painter.setPen(theme::colors().quiet_ink);
    painter.drawText(QRectF(x - 40, area.bottom() + 4, 80, 16), Qt::AlignHCenter, tick.text);
  }
  for (const Tick& tick : y_axis_.ticks(std::max(2, area.height() / 32))) {
    const double y = area.bottom() - y_axis_.place(tick.value) * area.height();
    painter.setPen(theme::colors().grid);
    painter.drawLine(QPointF(area.left(), y), QPointF(area.right(), y));
    painter.setPen(theme::colors().quiet_ink);
    painter.drawText(QRectF(0, y - 8, kLeft - 8, 16), Qt::AlignRight | Qt::AlignVCenter, tick.text);
  }
  painter.setPen(theme::colors().line);
  painter.drawRect(area);
  painter.setPen(theme::colors().ink);
  painter.setFont(font());
  painter.drawText(QRect(area.left(), area.bottom() + 20, area.width(), 22), Qt::AlignCenter,
                   axis_title(column_at(x_column_), has_other_lengths_));
  painter.drawText(QRect(8, 6, kLeft + 200, 20), Qt::AlignLeft | Qt::AlignVCenter,
                   axis_title(column_at(y_column_), has_other_lengths_));
}

// From right to left: colours, then what hollow marks are where there are any.
void Scatter::draw_legend(QPainter& painter) const {
  QFont small = font();
  small.setPixelSize(theme::kSmallPixels);
  painter.setFont(small);
  painter.setRenderHint(QPainter::Antialiasing);
  const QFontMetrics metrics(small);
  double right = width() - kRight;
  for (std::size_t index = categories_.size(); index-- > 0;) {
    if (categories_[index].drawn == 0) {
      continue;
    }
    const QString name = categories_[index].name.isEmpty() ? tr("none") : categories_[index].name;
    const int text_width = metrics.horizontalAdvance(name);
    right -= text_width;
    painter.setPen(theme::colors().quiet_ink);
    painter.drawText(QPointF(right, 21), name);
    painter.setPen(Qt::NoPen);
    painter.setBrush(theme::category(static_cast<int>(index)));
    painter.drawEllipse(QPointF(right - 9, 17), 4, 4);
    right -= 26;
  }
  if (hollow_count_ > 0) {
    const QString text = tr("hollow: simulated or imported");
    right -= metrics.horizontalAdvance(text) + 8;
    painter.setPen(theme::colors().quiet_ink);
    painter.drawText(QPointF(right, 21), text);
    painter.setBrush(Qt::NoBrush);
    painter.drawEllipse(QPointF(right - 9, 17), 4, 4);
  }
}

void Scatter::draw_points(QPainter& painter) {
  drawn_count_ = 0;
  hollow_count_ = 0;
  for (Category& category : categories_) {
    category.drawn = 0;
  }
  if (!document_.snapshot()) {
    return;
  }
  const Snapshot& snapshot = *document_.snapshot();
  const double ratio = devicePixelRatioF();
  painter.setClipRect(plotArea().adjusted(-6, -6, 6, 6));
  if (document_.shown().size() < x_.size()) {
    const QPixmap faint = mark(theme::colors().faint, radius() * 0.6, false, ratio);
    const double half = faint.width() / ratio / 2.0;
    for (std::size_t point = 0; point < x_.size(); ++point) {
      const QPointF place = placeOf(static_cast<int>(point));
      if (!place.isNull()) {
        painter.drawPixmap(place - QPointF(half, half), faint);
      }
    }
  }
  std::vector<QPixmap> solid;
  std::vector<QPixmap> hollow;
  for (std::size_t index = 0; index < categories_.size(); ++index) {
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
    const bool is_measured =
        provenance(snapshot, snapshot.overview.points[at]) == QLatin1String("measured");
    const QPixmap& pixmap = !is_measured ? hollow[category_[at]] : solid[category_[at]];
    const double half = pixmap.width() / ratio / 2.0;
    painter.drawPixmap(place - QPointF(half, half), pixmap);
    ++drawn_count_;
    hollow_count_ += is_measured ? 0 : 1;
    ++categories_[category_[at]].drawn;
  }
  painter.setClipping(false);
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
  if (hovered_ >= 0) {
    draw_mark(painter, hovered_, radius() + 2.0);
    draw_card(painter, card_lines(*document_.snapshot(), hovered_), placeOf(hovered_), size());
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
  if (!document_.snapshot() || document_.snapshot()->overview.points.empty()) {
    return tr("This database holds no points yet: versieve profile measures them.");
  }
  return document_.shown().empty()
             ? tr("The filter leaves no point.")
             : tr("No shown point has both “%1” and “%2”%3.")
                   .arg(column_at(x_column_).title, column_at(y_column_).title,
                        x_is_log_ || y_is_log_ ? tr(" that a logarithmic axis can show") : "");
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

void Scatter::draw_mark(QPainter& painter, int point, double ring) const {
  const QPointF place = placeOf(point);
  if (!place.isNull()) {
    painter.setBrush(Qt::NoBrush);
    painter.setPen(QPen(theme::colors().ink, 1.6));
    painter.drawEllipse(place, ring, ring);
  }
}

}  // namespace versieve::gui
