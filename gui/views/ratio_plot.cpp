#include "gui/views/ratio_plot.h"

#include <QKeyEvent>
#include <QMouseEvent>
#include <QPainter>
#include <QToolTip>
#include <algorithm>
#include <cmath>

#include "gui/models/numbers.h"
#include "gui/views/plot_frame.h"
#include "gui/views/theme.h"

namespace versieve::gui {
namespace {

using engine::Change;

constexpr int kLeft = 64, kTop = 34, kRight = 16, kBottom = 46;
constexpr double kReach = 10.0;  // of a click around a mark
constexpr double kMark = 4.5;
constexpr double kDot = 2.2;

QColor color_of(Change change) {
  return change == Change::kWorse    ? theme::colors().warning
         : change == Change::kBetter ? theme::colors().accent
                                     : theme::colors().quiet_ink;
}

// Worse points up, better down, the same is a dot, what is not judged a ring: colour is not needed.
void draw_shape(QPainter& painter, Change change, const QPointF& at, bool worse_is_up) {
  const QColor color = color_of(change);
  if (change == Change::kSame || change == Change::kNotJudged) {
    const bool is_ring = change == Change::kNotJudged;
    painter.setPen(is_ring ? QPen(color, 1.2) : QPen(Qt::NoPen));
    QColor faint = color;
    faint.setAlpha(120);
    painter.setBrush(is_ring ? QBrush(Qt::NoBrush) : QBrush(faint));
    painter.drawEllipse(at, is_ring ? kMark - 1.0 : kDot, is_ring ? kMark - 1.0 : kDot);
    return;
  }
  const double up = ((change == Change::kWorse) == worse_is_up) ? -1.0 : 1.0;
  const QPointF corners[] = {at + QPointF(0.0, up * kMark), at + QPointF(-kMark, -up * kMark),
                             at + QPointF(kMark, -up * kMark)};
  painter.setPen(QPen(theme::colors().panel, 0.6));
  painter.setBrush(color);
  painter.drawConvexPolygon(corners, 3);
}

}  // namespace

RatioPlot::RatioPlot(const ComparisonRows& rows, QWidget* parent) : QWidget(parent), rows_(rows) {
  setObjectName("ratioPlot");
  setAccessibleName(tr("Ratio of the second to the first"));
  setFocusPolicy(Qt::StrongFocus);
  setMouseTracking(true);
  connect(&rows, &QAbstractItemModel::modelReset, this, &RatioPlot::take_rows);
}

QRect RatioPlot::plotArea() const {
  return rect().adjusted(kLeft, kTop, -kRight, -kBottom);
}

QString RatioPlot::unit() const {
  if (rows_.areTables()) {
    return tr("first, tokens/s");
  }
  switch (rows_.points() == nullptr ? engine::ComparedFigure::kTime : rows_.points()->figure) {
    case engine::ComparedFigure::kTime:
      return QString::fromUtf8("first, µs");
    case engine::ComparedFigure::kDramBytes:
      return tr("first, MB of DRAM");
    case engine::ComparedFigure::kTokens:
      return tr("first, tokens a step");
  }
  return {};
}

double RatioPlot::shown_value(double base) const {
  if (rows_.areTables() || rows_.points() == nullptr) {
    return base;
  }
  switch (rows_.points()->figure) {
    case engine::ComparedFigure::kTime:
      return base / 1e3;
    case engine::ComparedFigure::kDramBytes:
      return base / 1e6;
    case engine::ComparedFigure::kTokens:
      return base;
  }
  return base;
}

void RatioPlot::take_rows() {
  std::vector<double> bases, ratios = {0.98, 1.02};
  for (const ComparedRow& row : rows_.rows()) {
    if (std::isfinite(row.ratio) && row.ratio > 0.0) {
      bases.push_back(shown_value(row.base));
      ratios.push_back(row.ratio);
    }
  }
  base_axis_ = Axis::around(bases, true, false);
  ratio_axis_ = Axis::around(ratios, true, false);
  selected_ = -1;
  setAccessibleDescription(rows_.summary());
  update();
}

QPointF RatioPlot::placeOf(int row) const {
  const ComparedRow& r = rows_.rows()[static_cast<std::size_t>(row)];
  const double base = shown_value(r.base);
  if (!base_axis_.holds(base) || !ratio_axis_.holds(r.ratio)) {
    return {};
  }
  const QRect area = plotArea();
  return {area.left() + base_axis_.place(base) * area.width(),
          area.bottom() - ratio_axis_.place(r.ratio) * area.height()};
}

void RatioPlot::select(int row) {
  selected_ = row;
  setAccessibleDescription(row < 0 ? rows_.summary() : rows_.line(row));
  update();
}

void RatioPlot::choose(int row) {
  if (row >= 0 && row != selected_) {
    select(row);
    Q_EMIT rowSelected(row);
  }
}

int RatioPlot::nearest(const QPointF& at) const {
  int best = -1;
  double reach = kReach;
  for (int row = 0; row < rows_.rowCount(); ++row) {
    const QPointF place = placeOf(row);
    const double distance = std::hypot(place.x() - at.x(), place.y() - at.y());
    if (!place.isNull() && distance < reach) {
      reach = distance;
      best = row;
    }
  }
  return best;
}

void RatioPlot::mousePressEvent(QMouseEvent* event) {
  choose(nearest(event->position()));
}

void RatioPlot::mouseMoveEvent(QMouseEvent* event) {
  const int row = nearest(event->position());
  if (row >= 0) {
    QToolTip::showText(event->globalPosition().toPoint(), rows_.line(row), this);
  } else {
    QToolTip::hideText();
  }
}

void RatioPlot::keyPressEvent(QKeyEvent* event) {
  const int last = rows_.rowCount() - 1;
  switch (event->key()) {
    case Qt::Key_Up:
    case Qt::Key_Left:
      return choose(std::max(0, selected_ - 1));
    case Qt::Key_Down:
    case Qt::Key_Right:
      return choose(std::min(last, selected_ + 1));
    case Qt::Key_Home:
      return choose(last < 0 ? -1 : 0);
    case Qt::Key_End:
      return choose(last);
    default:
      QWidget::keyPressEvent(event);
  }
}

void RatioPlot::draw_axes(QPainter& painter) const {
  painter.setFont(font());
  draw_frame(painter, {.x = base_axis_,
                       .y = ratio_axis_,
                       .area = plotArea(),
                       .x_title = unit(),
                       .y_title = tr("second / first")});
}

void RatioPlot::draw_band(QPainter& painter) const {
  const QRect area = plotArea();
  const auto y_of = [&](double ratio) {
    return area.bottom() - ratio_axis_.place(ratio) * area.height();
  };
  if (const engine::PointComparison* comparison = rows_.points()) {
    const double most = 1.0 + comparison->noise.share;
    QColor band = theme::colors().bar;
    band.setAlpha(70);
    painter.fillRect(
        QRectF(QPointF(area.left(), y_of(most)), QPointF(area.right(), y_of(1 / most))), band);
  }
  painter.setPen(QPen(theme::colors().quiet_ink, 1.0));
  painter.drawLine(QPointF(area.left(), y_of(1.0)), QPointF(area.right(), y_of(1.0)));
}

void RatioPlot::draw_mark(QPainter& painter, int row) const {
  const ComparedRow& r = rows_.rows()[static_cast<std::size_t>(row)];
  const QPointF at = placeOf(row);
  if (!at.isNull()) {
    const bool less_is_better =
        rows_.points() != nullptr && rows_.points()->figure != engine::ComparedFigure::kTokens;
    draw_shape(painter, r.change, at, less_is_better);
  }
}

void RatioPlot::draw_legend(QPainter& painter) const {
  QFont small = font();
  small.setPixelSize(theme::kSmallPixels);
  painter.setFont(small);
  const QFontMetrics metrics(small);
  const bool less_is_better =
      rows_.points() != nullptr && rows_.points()->figure != engine::ComparedFigure::kTokens;
  double right = width() - kRight;
  for (const Change change : {Change::kNotJudged, Change::kBetter, Change::kSame, Change::kWorse}) {
    const qsizetype count =
        std::count_if(rows_.rows().begin(), rows_.rows().end(),
                      [change](const ComparedRow& row) { return row.change == change; });
    if (count == 0) {
      continue;
    }
    const QString word = rows_.points() != nullptr
                             ? QString(engine::word_of(change, rows_.points()->figure))
                         : change == Change::kSame      ? tr("same or within noise")
                         : change == Change::kNotJudged ? tr("in one alone")
                                                        : QString(engine::name_of(change));
    const QString text = QString::number(count) + " " + word;
    right -= metrics.horizontalAdvance(text);
    painter.setPen(theme::colors().quiet_ink);
    painter.drawText(QPointF(right, 21), text);
    draw_shape(painter, change, QPointF(right - 10, 17), less_is_better);
    right -= 30;
  }
}

void RatioPlot::paintEvent(QPaintEvent*) {
  QPainter painter(this);
  painter.fillRect(rect(), theme::colors().panel);
  painter.setRenderHint(QPainter::Antialiasing);
  if (rows_.rows().empty()) {
    painter.setPen(theme::colors().quiet_ink);
    painter.drawText(rect(), Qt::AlignCenter | Qt::TextWordWrap,
                     tr("No row to draw: the filter, or the figure, leaves none."));
    return;
  }
  draw_axes(painter);
  draw_band(painter);
  // What matters is painted over what is the same.
  for (const bool matters : {false, true}) {
    for (int row = 0; row < rows_.rowCount(); ++row) {
      const Change change = rows_.rows()[static_cast<std::size_t>(row)].change;
      if ((change != Change::kSame) == matters) {
        draw_mark(painter, row);
      }
    }
  }
  draw_legend(painter);
  if (selected_ >= 0 && !placeOf(selected_).isNull()) {
    painter.setPen(QPen(theme::colors().ink, 1.6));
    painter.setBrush(Qt::NoBrush);
    painter.drawEllipse(placeOf(selected_), kMark + 4.0, kMark + 4.0);
  }
  if (hasFocus()) {
    painter.setPen(QPen(theme::colors().accent, 1.0));
    painter.drawRect(QRectF(rect()).adjusted(0.5, 0.5, -0.5, -0.5));
  }
}

}  // namespace versieve::gui
