#include "gui/views/parallel_plot.h"

#include <QEvent>
#include <QPainter>
#include <algorithm>
#include <cmath>

#include "gui/models/numbers.h"
#include "gui/models/point_column.h"
#include "gui/views/point_card.h"
#include "gui/views/theme.h"

namespace versieve::gui {
namespace {

constexpr int kTop = 44;
constexpr int kBottom = 14;
constexpr int kLeft = 76;
constexpr int kRight = 76;
constexpr int kTitleHeight = 17;  // two rows of them: neighbours do not meet
constexpr int kBrushWidth = 12;
constexpr std::size_t kEachPoints = 3'000;     // shown: up to here each line is drawn by itself
constexpr std::size_t kAtOncePoints = 20'000;  // up to here no worker is asked
constexpr double kTopPlace = 65535.0;

const PointColumn& column_at(int column) {
  return point_columns()[static_cast<std::size_t>(column)];
}

}  // namespace

ParallelPlot::ParallelPlot(Document& document, QWidget* parent)
    : QWidget(parent), document_(document) {
  setMouseTracking(true);
  setFocusPolicy(Qt::StrongFocus);
  setObjectName("parallel");
  setAccessibleName(tr("Parallel coordinates of the shown points"));
  connect(&document, &Document::loaded, this, &ParallelPlot::take_snapshot);
  connect(&document, &Document::shownChanged, this, &ParallelPlot::take_shown);
  for (const auto changed : {&Document::selectionChanged, &Document::hoverChanged}) {
    connect(&document, changed, this, [this] { update(); });
  }
  connect(&document, &Document::pinsChanged, this, [this] { update(); });
  if (document.snapshot()) {
    take_snapshot();
  }
}

void ParallelPlot::setColumns(const std::vector<int>& columns) {
  columns_are_chosen_ = true;
  if (columns != columns_) {
    columns_ = columns;
    current_ = std::clamp(current_, 0, std::max(0, axis_count() - 1));
    make_scene();
    Q_EMIT columnsChanged();
  }
}

bool ParallelPlot::isReady() const {
  return scene_ && !scene_job_.isRunning() && scene_->snapshot == document_.snapshot() &&
         scene_->axes.size() == columns_.size() && columns_.size() >= 2;
}

void ParallelPlot::take_snapshot() {
  if (!columns_are_chosen_) {
    columns_ = telling_columns(*document_.snapshot());
    current_ = 0;
    Q_EMIT columnsChanged();
  }
  make_scene();
}

void ParallelPlot::showEvent(QShowEvent*) {
  if (is_stale_) {
    make_scene();
  }
}

// A plot that is not seen waits until it is.
void ParallelPlot::make_scene() {
  const SnapshotPtr snapshot = document_.snapshot();
  is_stale_ = !isVisible();
  if (!snapshot || is_stale_) {
    return;
  }
  if (snapshot->overview.points.size() <= kAtOncePoints) {
    take_scene(parallel_scene(snapshot, columns_));
    return;
  }
  const std::vector<int> columns = columns_;
  scene_job_.start<std::shared_ptr<ParallelScene>>(
      [snapshot, columns] { return parallel_scene(snapshot, columns); },
      [this](const std::shared_ptr<ParallelScene>& scene) { take_scene(scene); },
      [](const QString&) {});
  update();
}

void ParallelPlot::take_scene(const std::shared_ptr<ParallelScene>& scene) {
  if (scene->snapshot != document_.snapshot()) {
    make_scene();
    return;
  }
  scene_ = scene;
  shown_counts_ = PairCounts(scene_->axes.size());
  bands_.reset();
  all_is_valid_ = false;
  tell_axis();
  take_shown();
}

void ParallelPlot::take_shown() {
  shown_is_valid_ = false;
  update();
}

QRectF ParallelPlot::plot_area() const {
  return QRectF(rect()).adjusted(kLeft, kTop, -kRight, -kBottom);
}

QRectF ParallelPlot::axisRect(int axis) const {
  const QRectF area = plot_area();
  const double x =
      axis_count() < 2 ? area.left() : area.left() + area.width() * axis / (axis_count() - 1);
  return {x - kBrushWidth / 2.0, area.top(), kBrushWidth, area.height()};
}

QRectF ParallelPlot::titleRect(int axis) const {
  const double gap = axis_count() < 2 ? kLeft + kRight : plot_area().width() / (axis_count() - 1);
  const double half = std::min(gap, static_cast<double>(kLeft)) - 2.0;
  return {axisRect(axis).center().x() - half, axis % 2 == 0 ? 2.0 : 2.0 + kTitleHeight, 2.0 * half,
          kTitleHeight};
}

QPointF ParallelPlot::placeOf(int point, int axis) const {
  const QRectF rect = axisRect(axis);
  const double place =
      scene_->places[static_cast<std::size_t>(axis)][static_cast<std::size_t>(point)] / kTopPlace;
  return {rect.center().x(), rect.bottom() - place * rect.height()};
}

// All points, as bands between bins.
QImage ParallelPlot::all_image() const {
  LineDensity bands = new_bands();
  std::vector<std::vector<Bundle>> gaps(scene_->axes.size() - 1);
  for (std::size_t gap = 0; gap < gaps.size(); ++gap) {
    gaps[gap] = changed_bundles({}, scene_->all.between(gap));
  }
  bands.add(gaps);
  return bands.toned(theme::colors().faint);
}

// Bands are as sharp as their bins.
LineDensity ParallelPlot::new_bands() const {
  return {scene_->axes.size() - 1, 1.0F / static_cast<float>(kBins), plot_area().size().toSize()};
}

// Each line where there are few, else bands: of the last picture what has changed of it.
QImage ParallelPlot::shown_image() {
  const std::size_t gap_count = scene_->axes.size() - 1;
  std::vector<std::vector<Bundle>> gaps(gap_count);
  shown_counts_.follow(scene_->places, document_.mask());
  if (document_.shown().size() <= kEachPoints) {
    for (std::size_t gap = 0; gap < gap_count; ++gap) {
      const std::vector<std::uint16_t>& from = scene_->places[gap];
      const std::vector<std::uint16_t>& to = scene_->places[gap + 1];
      for (const std::int32_t point : document_.shown()) {
        const std::size_t at = static_cast<std::size_t>(point);
        gaps[gap].push_back(
            {static_cast<float>(from[at] / kTopPlace), static_cast<float>(to[at] / kTopPlace), 1});
      }
    }
    LineDensity lines(gap_count, 0.0F, (plot_area().size() * devicePixelRatioF()).toSize());
    lines.add(gaps);
    return lines.toned(theme::colors().accent);
  }
  if (!bands_) {
    bands_.emplace(new_bands());
    banded_counts_ = PairCounts(scene_->axes.size());
  }
  for (std::size_t gap = 0; gap < gap_count; ++gap) {
    gaps[gap] = changed_bundles(banded_counts_.between(gap), shown_counts_.between(gap));
  }
  bands_->add(gaps);
  banded_counts_ = shown_counts_;
  return bands_->toned(theme::colors().accent);
}

void ParallelPlot::paintEvent(QPaintEvent*) {
  QPainter painter(this);
  painter.fillRect(rect(), theme::colors().panel);
  painter.setRenderHint(QPainter::Antialiasing);
  painter.setRenderHint(QPainter::SmoothPixmapTransform);
  if (!isReady()) {
    painter.setPen(theme::colors().quiet_ink);
    painter.drawText(rect(), Qt::AlignCenter | Qt::TextWordWrap,
                     scene_job_.isRunning() ? tr("Drawing …")
                     : !document_.snapshot() || document_.snapshot()->overview.points.empty()
                         ? tr("This database holds no points yet: the page Measure measures them.")
                         : tr("Choose two axes at least."));
    return;
  }
  if (!all_is_valid_) {
    all_image_ = all_image();
    all_is_valid_ = true;
  }
  if (!shown_is_valid_) {
    shown_image_ = shown_image();
    shown_is_valid_ = true;
  }
  if (document_.shown().size() < document_.mask().size()) {
    painter.drawImage(plot_area(), all_image_);
  }
  painter.drawImage(plot_area(), shown_image_);
  const PointFilter filter =
      PointFilter::parse(document_.filterError().isEmpty() ? document_.filterText() : QString());
  for (int axis = 0; axis < axis_count(); ++axis) {
    draw_axis(painter, axis, filter);
  }
  int number = 0;
  for (const int pin : document_.pins()) {
    draw_line(painter, pin, QPen(theme::colors().ink, 1.4, Qt::DashLine));
    draw_pin(painter, placeOf(pin, 0), ++number);
  }
  if (document_.selected() >= 0) {
    draw_line(painter, document_.selected(), QPen(theme::colors().ink, 2.0));
  }
  if (const int hovered = document_.hovered(); hovered >= 0) {
    draw_line(painter, hovered, QPen(theme::colors().warning, 1.6));
    if (underMouse()) {
      draw_card(painter, card_lines(*document_.snapshot(), hovered), dragged_to_, size());
    }
  }
}

void ParallelPlot::draw_axis(QPainter& painter, int axis, const PointFilter& filter) const {
  const ParallelAxis& of = scene_->axes[static_cast<std::size_t>(axis)];
  const QRectF rect = axisRect(axis);
  const double x = rect.center().x();
  const bool has_keys = hasFocus() && axis == current_;
  painter.setPen(
      QPen(has_keys ? theme::colors().accent : theme::colors().quiet_ink, has_keys ? 2.0 : 1.0));
  painter.drawLine(QPointF(x, rect.top()), QPointF(x, rect.bottom()));
  QFont small = font();
  small.setPixelSize(theme::kSmallPixels);
  painter.setFont(small);
  const QFontMetrics metrics(small);
  const double gap = plot_area().width() / std::max(1, axis_count() - 1);
  const int room = static_cast<int>(axis == 0 ? kLeft - 10.0 : 0.75 * gap);
  const int wanted = std::max(2, static_cast<int>(rect.height()) / 26);
  for (const ParallelAxis::Mark& mark : of.marks(wanted)) {
    const double y = rect.bottom() - mark.place * rect.height();
    painter.setPen(theme::colors().quiet_ink);
    painter.drawLine(QPointF(x - 3, y), QPointF(x, y));
    const QString text = metrics.elidedText(mark.text, Qt::ElideRight, room);
    const QRectF ground(x - 6 - metrics.horizontalAdvance(text), y - 7,
                        metrics.horizontalAdvance(text) + 2, 14);
    QColor veil = theme::colors().panel;  // text stands out of the lines
    veil.setAlphaF(0.75F);
    painter.fillRect(ground, veil);
    painter.setPen(theme::colors().ink);
    painter.drawText(ground, Qt::AlignVCenter | Qt::AlignLeft, text);
  }
  QColor tint = theme::colors().accent;
  for (const ParallelAxis::Brush& brush : of.brushesOf(*scene_->snapshot, filter)) {
    const QRectF bar(rect.left(), rect.bottom() - brush.high * rect.height(), rect.width(),
                     std::max(2.0, (brush.high - brush.low) * rect.height()));
    tint.setAlphaF(0.30F);
    painter.setPen(QPen(theme::colors().accent, 1.2));
    painter.setBrush(tint);
    painter.drawRect(bar);
  }
  painter.setBrush(Qt::NoBrush);
  painter.setFont(font());
  painter.setPen(has_keys ? theme::colors().accent : theme::colors().ink);
  const PointColumn& column = column_at(of.column());
  const QString unit = QString::fromUtf8(column.unit);
  const QString title = unit.isEmpty() || column.counts_tokens
                            ? QString::fromUtf8(column.title)
                            : QString::fromUtf8(column.title) + ", " + unit;
  QRectF place = titleRect(axis);
  if (grip_ == Grip::kTitle && gripped_ == axis && dragged_) {
    place.translate(dragged_to_.x() - pressed_at_.x(), 0.0);
  }
  painter.drawText(
      place, Qt::AlignCenter,
      painter.fontMetrics().elidedText(title, Qt::ElideRight, static_cast<int>(place.width())));
}

void ParallelPlot::draw_line(QPainter& painter, int point, const QPen& pen) const {
  QPolygonF line;
  for (int axis = 0; axis < axis_count(); ++axis) {
    line << placeOf(point, axis);
  }
  painter.setBrush(Qt::NoBrush);
  painter.setPen(pen);
  painter.drawPolyline(line);
}

void ParallelPlot::resizeEvent(QResizeEvent*) {
  bands_.reset();
  all_is_valid_ = shown_is_valid_ = false;
}

void ParallelPlot::changeEvent(QEvent* event) {
  if (event->type() == QEvent::PaletteChange) {
    all_is_valid_ = shown_is_valid_ = false;
    update();
  }
  QWidget::changeEvent(event);
}

}  // namespace versieve::gui
