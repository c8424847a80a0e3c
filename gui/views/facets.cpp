#include "gui/views/facets.h"

#include <QKeyEvent>
#include <QMouseEvent>
#include <QPaintEvent>
#include <QPainter>
#include <QScrollArea>
#include <algorithm>
#include <cmath>

#include "gui/models/filter_terms.h"
#include "gui/models/numbers.h"
#include "gui/models/point_column.h"
#include "gui/views/theme.h"

namespace versieve::gui {
namespace {

constexpr int kMostTexts = 12;  // of a column; with more it is no facet
constexpr int kParts = 24;
constexpr double kTitle = 22.0;
constexpr double kRow = 19.0;
constexpr double kHistogram = 46.0;
constexpr double kScale = 16.0;
constexpr double kGap = 10.0;
constexpr double kSide = 6.0;
constexpr double kNameShare = 0.46;             // of the width
constexpr std::size_t kCountedAtOnce = 20'000;  // points, in a moment
constexpr double kTop = 65536.0;

using Columns = std::vector<FacetColumn>;

int bar_count(const FacetColumn& column) {
  return static_cast<int>(column.all.size());
}

std::shared_ptr<const Columns> facet_columns(const Snapshot& snapshot) {
  const std::shared_ptr<Columns> columns = std::make_shared<Columns>();
  for (const char* key : {"system", "workload", "source", "model", "regime", "L", "N", "time",
                          "accepted", "dram", "ratio", "rho", "cache", "launch", "status"}) {
    const int index = column_index(key);
    if (!tells_apart(snapshot, index)) {
      continue;
    }
    FacetColumn column{ParallelAxis(snapshot, index), {}, {}};
    if (column.axis.isText() && column.axis.names().size() > kMostTexts) {
      continue;
    }
    const double bars = column.axis.isText() ? static_cast<double>(column.axis.names().size())
                                             : static_cast<double>(kParts);
    column.all.assign(static_cast<std::size_t>(bars), 0);
    for (const std::uint16_t place : column.axis.placesOf(snapshot)) {
      column.bars.push_back(static_cast<std::uint8_t>(place * bars / kTop));
      ++column.all[column.bars.back()];
    }
    columns->push_back(std::move(column));
  }
  return columns;
}

std::vector<std::vector<int>> counts_of(const Columns& columns,
                                        const std::vector<std::uint8_t>& mask) {
  std::vector<std::vector<int>> counts;
  for (const FacetColumn& column : columns) {
    std::vector<int> of_column(column.all.size(), 0);
    for (std::size_t at = 0; at < mask.size(); ++at) {
      of_column[column.bars[at]] += mask[at];
    }
    counts.push_back(std::move(of_column));
  }
  return counts;
}

}  // namespace

Facets::Facets(Document& document, QWidget* parent) : QWidget(parent), document_(document) {
  setFocusPolicy(Qt::StrongFocus);
  setObjectName("facets");
  setAccessibleName(tr("How the points are spread over each column"));
  connect(&document, &Document::loaded, this, &Facets::make_columns);
  connect(&document, &Document::shownChanged, this, &Facets::count_shown);
  connect(&document, &Document::hoverChanged, this, [this] { update(); });
}

const FacetColumn& Facets::column(int index) const {
  return (*columns_)[static_cast<std::size_t>(index)];
}

int Facets::shownCount(int column, int bar) const {
  return shown_[static_cast<std::size_t>(column)][static_cast<std::size_t>(bar)];
}

void Facets::showEvent(QShowEvent*) {
  if (is_stale_) {
    make_columns();
  }
}

// What is not seen waits until it is.
void Facets::make_columns() {
  const SnapshotPtr snapshot = document_.snapshot();
  is_stale_ = !isVisible();
  if (!snapshot || is_stale_) {
    return;
  }
  using Made = std::shared_ptr<const Columns>;
  const auto take = [this, snapshot](const Made& columns) {
    columns_ = columns;
    made_of_ = snapshot;
    current_ = {0, 0};
    shown_.clear();
    for (const FacetColumn& column : *columns_) {
      shown_.emplace_back(column.all.size(), 0);
    }
    updateGeometry();
    resize(width(), sizeHint().height());
    count_shown();
  };
  if (snapshot->overview.points.size() <= kCountedAtOnce) {
    take(facet_columns(*snapshot));
    return;
  }
  columns_job_.start<Made>([snapshot] { return facet_columns(*snapshot); }, take,
                           [](const QString&) {});
}

void Facets::count_shown() {
  is_stale_ = is_stale_ || !isVisible();
  if (!columns_ || made_of_ != document_.snapshot() || is_stale_) {
    return;
  }
  if (document_.mask().size() <= kCountedAtOnce) {
    take_counts(counts_of(*columns_, document_.mask()));
    return;
  }
  const std::shared_ptr<const Columns> columns = columns_;
  const std::vector<std::uint8_t> mask = document_.mask();
  count_job_.start<Counts>([columns, mask] { return counts_of(*columns, mask); },
                           [this, columns](const Counts& counts) {
                             if (columns == columns_) {
                               take_counts(counts);
                             }
                           },
                           [](const QString&) {});
}

void Facets::take_counts(const Counts& counts) {
  shown_ = counts;
  tell();
  update();
}

double Facets::top_of(int column) const {
  double top = 0.0;
  for (int before = 0; before < column; ++before) {
    const FacetColumn& of = this->column(before);
    top += kTitle + kGap + (of.axis.isText() ? kRow * bar_count(of) : kHistogram + kScale);
  }
  return top;
}

QSize Facets::sizeHint() const {
  return {210, static_cast<int>(top_of(columnCount())) + 4};
}

QRectF Facets::barRect(int index, int bar) const {
  const double top = top_of(index) + kTitle;
  if (column(index).axis.isText()) {
    return {0.0, top + kRow * bar, static_cast<double>(width()), kRow};
  }
  const double each = (width() - 2.0 * kSide) / bar_count(column(index));
  return {kSide + each * bar, top, each, kHistogram};
}

QVariant Facets::inputMethodQuery(Qt::InputMethodQuery query) const {
  return query == Qt::ImCursorRectangle && columnCount() > 0
             ? QVariant(barRect(current_.column, current_.bar).toAlignedRect())
             : QWidget::inputMethodQuery(query);
}

void Facets::paintEvent(QPaintEvent* event) {
  QPainter painter(this);
  painter.fillRect(rect(), theme::colors().panel);
  QFont small = font();
  small.setPixelSize(theme::kSmallPixels);
  for (int index = 0; index < columnCount(); ++index) {
    if (top_of(index) > event->rect().bottom() || top_of(index + 1) < event->rect().top()) {
      continue;
    }
    const PointColumn& of = point_columns()[static_cast<std::size_t>(column(index).axis.column())];
    const QString unit = QString::fromUtf8(of.unit);
    painter.setFont(font());
    painter.setPen(theme::colors().ink);
    painter.drawText(QRectF(kSide, top_of(index), width() - 2.0 * kSide, kTitle), Qt::AlignVCenter,
                     QString::fromUtf8(of.title) +
                         (unit.isEmpty() || of.counts_tokens ? QString() : ", " + unit));
    painter.setFont(small);
    if (column(index).axis.isText()) {
      draw_texts(painter, index);
    } else {
      draw_numbers(painter, index);
    }
  }
  if (hasFocus() && columnCount() > 0) {
    painter.setBrush(Qt::NoBrush);
    painter.setPen(QPen(theme::colors().accent, 1.6));
    painter.drawRect(barRect(current_.column, current_.bar).adjusted(1, 1, -1, -1));
  }
}

void Facets::draw_bar(QPainter& painter, const QRectF& whole, int index, int bar,
                      bool upright) const {
  const std::vector<int>& all = column(index).all;
  const double most = *std::max_element(all.begin(), all.end());
  const auto drawn = [&](int count, const QColor& color) {
    // What is there is seen, be it one of a million.
    const double share = count > 0 ? std::max(count / most, upright ? 0.03 : 0.01) : 0.0;
    painter.fillRect(upright
                         ? QRectF(whole.left(), whole.bottom() - share * whole.height(),
                                  whole.width(), share * whole.height())
                         : QRectF(whole.left(), whole.top(), share * whole.width(), whole.height()),
                     color);
  };
  drawn(all[static_cast<std::size_t>(bar)], theme::colors().grid);
  drawn(shownCount(index, bar), theme::colors().bar);
  const int hovered = document_.hovered();
  if (hovered >= 0 && made_of_ == document_.snapshot() &&
      column(index).bars[static_cast<std::size_t>(hovered)] == bar) {
    painter.fillRect(upright ? QRectF(whole.left(), whole.bottom(), whole.width(), 2.0)
                             : QRectF(0.0, whole.top(), 2.0, whole.height()),
                     theme::colors().warning);
  }
}

void Facets::draw_texts(QPainter& painter, int index) const {
  const QFontMetrics metrics(painter.font());
  const QStringList& names = column(index).axis.names();
  for (int bar = 0; bar < bar_count(column(index)); ++bar) {
    const QRectF row = barRect(index, bar);
    const double left = kSide + kNameShare * row.width();
    draw_bar(painter, {left, row.top() + 3, row.right() - kSide - left, row.height() - 6}, index,
             bar, false);
    const bool none = shownCount(index, bar) == 0;
    painter.setPen(none ? theme::colors().quiet_ink : theme::colors().ink);
    const QString name = names[bar].isEmpty() ? tr("none") : names[bar];
    painter.drawText(QRectF(kSide, row.top(), left - kSide - 4, row.height()), Qt::AlignVCenter,
                     metrics.elidedText(name, Qt::ElideRight, static_cast<int>(left - kSide - 4)));
    painter.drawText(QRectF(left + 4, row.top(), row.right() - kSide - left - 8, row.height()),
                     Qt::AlignVCenter | Qt::AlignRight,
                     fixed(static_cast<double>(shownCount(index, bar)), 0));
  }
}

void Facets::draw_numbers(QPainter& painter, int index) const {
  const int bars = bar_count(column(index));
  for (int bar = 0; bar < bars; ++bar) {
    draw_bar(painter, barRect(index, bar).adjusted(0, 0, -1, 0), index, bar, true);
  }
  const QRectF first = barRect(index, 0), last = barRect(index, bars - 1);
  const QRectF scale(first.left(), first.bottom() + 2, last.right() - first.left(), kScale - 2);
  painter.setPen(theme::colors().line);
  painter.drawLine(first.bottomLeft(), last.bottomRight());
  painter.setPen(theme::colors().quiet_ink);
  double free_from = scale.left();
  for (const ParallelAxis::Mark& mark : column(index).axis.marks(4)) {
    const double half = painter.fontMetrics().horizontalAdvance(mark.text) / 2.0;
    const double x = std::clamp(scale.left() + mark.place * scale.width(), scale.left() + half,
                                scale.right() - half);
    if (x - half >= free_from) {
      painter.drawText(QRectF(x - half - 2, scale.top(), 2 * half + 4, scale.height()),
                       Qt::AlignCenter, mark.text);
      free_from = x + half + 6;
    }
  }
}

Facets::Bar Facets::bar_at(const QPointF& place) const {
  for (int index = 0; index < columnCount(); ++index) {
    for (int bar = 0; bar < bar_count(column(index)); ++bar) {
      if (barRect(index, bar).contains(place)) {
        return {index, bar};
      }
    }
  }
  return {};
}

// Whether the filter leaves this bar of its column alone.
bool Facets::is_kept_alone(const Bar& bar) const {
  const std::vector<ParallelAxis::Brush> brushes =
      column(bar.column)
          .axis.brushesOf(*made_of_, PointFilter::parse(document_.filterError().isEmpty()
                                                            ? document_.filterText()
                                                            : QString()));
  const double bars = bar_count(column(bar.column));
  constexpr double kNear = 0.02;  // what the filter's four digits round
  return brushes.size() == 1 && std::fabs(brushes[0].low - bar.bar / bars) < kNear &&
         std::fabs(brushes[0].high - (bar.bar + 1) / bars) < kNear;
}

void Facets::keep(const Bar& from, const Bar& to, bool adds) {
  const FacetColumn& of = column(from.column);
  const QString& text = document_.filterText();
  const double bars = bar_count(of);
  if (adds && of.axis.isText()) {
    const PointFilter::Mask kept =
        PointFilter::parse(document_.filterError().isEmpty() ? text : QString())
            .placesKept(*made_of_, of.axis.column());
    const std::vector<QString>& texts = made_of_->values.texts(of.axis.column());
    QStringList names;
    for (std::size_t place = 0; place < kept.size(); ++place) {
      if (!texts[place].isNull() &&
          (kept[place] != 0) != (texts[place] == of.axis.names()[from.bar])) {
        names << texts[place];
      }
    }
    document_.setFilter(with_texts(text,
                                   point_columns()[static_cast<std::size_t>(of.axis.column())].key,
                                   names, of.axis.names()));
  } else if (from == to && is_kept_alone(from)) {
    document_.setFilter(of.axis.brushed(text, {}));
  } else {
    document_.setFilter(of.axis.brushed(
        text, {std::min(from.bar, to.bar) / bars, (std::max(from.bar, to.bar) + 1) / bars}));
  }
}

void Facets::mousePressEvent(QMouseEvent* event) {
  pressed_ = bar_at(event->position());
  if (pressed_.column >= 0) {
    current_ = pressed_;
    tell();
    update();
  }
}

void Facets::mouseMoveEvent(QMouseEvent* event) {
  const Bar here = bar_at(event->position());
  if (pressed_.column >= 0 && here.column == pressed_.column && !(here == current_) &&
      !column(here.column).axis.isText()) {
    current_ = here;
    keep(pressed_, here, false);
  }
}

void Facets::mouseReleaseEvent(QMouseEvent* event) {
  const Bar pressed = std::exchange(pressed_, {});
  if (pressed.column >= 0 && bar_at(event->position()) == pressed && current_ == pressed) {
    keep(pressed, pressed, event->modifiers().testFlag(Qt::ControlModifier));
  }
}

void Facets::go(int step, bool within) {
  const bool is_text = column(current_.column).axis.isText();
  const int bars = bar_count(column(current_.column));
  if (within || is_text) {
    const int bar = current_.bar + step;
    if (bar >= 0 && bar < bars) {
      current_.bar = bar;
    } else if (!within && current_.column + step >= 0 && current_.column + step < columnCount()) {
      current_.column += step;
      current_.bar = step > 0 ? 0 : bar_count(column(current_.column)) - 1;
    }
  } else if (current_.column + step >= 0 && current_.column + step < columnCount()) {
    current_.column += step;
    current_.bar = step > 0 || !column(current_.column).axis.isText()
                       ? 0
                       : bar_count(column(current_.column)) - 1;
  }
  for (QWidget* above = parentWidget(); above != nullptr; above = above->parentWidget()) {
    if (QScrollArea* area = qobject_cast<QScrollArea*>(above)) {
      const QPointF at = barRect(current_.column, current_.bar).center();
      area->ensureVisible(static_cast<int>(at.x()), static_cast<int>(at.y()), 0, 60);
    }
  }
  tell();
  update();
}

// What a screen reader says of the bar of the keys.
void Facets::tell() {
  if (columnCount() == 0) {
    return;
  }
  const FacetColumn& of = column(current_.column);
  const QString bar = of.axis.isText() ? of.axis.names()[current_.bar]
                                       : tr("part %1 of %2").arg(current_.bar + 1).arg(kParts);
  setAccessibleDescription(
      tr("%1, %2: %3 of %4 points")
          .arg(QString::fromUtf8(point_columns()[static_cast<std::size_t>(of.axis.column())].title),
               bar)
          .arg(shownCount(current_.column, current_.bar))
          .arg(of.all[static_cast<std::size_t>(current_.bar)]));
}

void Facets::keyPressEvent(QKeyEvent* event) {
  const int key = event->key();
  if (columnCount() == 0) {
    QWidget::keyPressEvent(event);
  } else if (key == Qt::Key_Up || key == Qt::Key_Down) {
    go(key == Qt::Key_Down ? 1 : -1, false);
  } else if (key == Qt::Key_Left || key == Qt::Key_Right) {
    go(key == Qt::Key_Right ? 1 : -1, true);
  } else if (key == Qt::Key_Space || key == Qt::Key_Return || key == Qt::Key_Enter) {
    keep(current_, current_, event->modifiers().testFlag(Qt::ControlModifier));
  } else {
    QWidget::keyPressEvent(event);
  }
}

}  // namespace versieve::gui
