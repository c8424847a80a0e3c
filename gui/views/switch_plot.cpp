#include "gui/views/switch_plot.h"

#include <QHelpEvent>
#include <QPainter>
#include <QToolTip>
#include <algorithm>
#include <cmath>

#include "gui/models/batch_text.h"
#include "gui/models/planner.h"
#include "gui/views/theme.h"

namespace versieve::gui {
namespace {

constexpr int kTop = 44;  // title and legend
constexpr int kBottom = 36;
constexpr int kTitle = 84;  // of a row
constexpr int kRight = 18;
constexpr int kLeastRow = 34, kMostRow = 56;
constexpr int kBar = 12;
constexpr DraftKind kKinds[] = {DraftKind::kTree, DraftKind::kChain, DraftKind::kPlain};

// From much drafting to none.
QColor color_of(DraftKind kind) {
  const theme::Colors& colors = theme::colors();
  if (kind == DraftKind::kPlain) {
    return colors.line;
  }
  QColor color = colors.accent;
  color.setAlphaF(kind == DraftKind::kTree ? 1.0F : 0.45F);
  return color;
}

QFont small_of(QFont font) {
  font.setPixelSize(theme::kSmallPixels);
  return font;
}

}  // namespace

SwitchPlot::SwitchPlot(QWidget* parent) : QWidget(parent) {
  setObjectName("switches");
  setAccessibleName(tr("Where a tree yields to a chain and a chain to plain decoding"));
}

void SwitchPlot::show_plan(const PlanPtr& plan, PrecisionClass precision, int bucket) {
  plan_ = plan && !plan->chosen.batched.empty() ? plan : nullptr;
  precision_ = precision;
  bucket_ = bucket;
  QStringList rows;
  for (int b = 0; plan_ && b < static_cast<int>(plan_->chosen.buckets.size()); ++b) {
    rows << row_text(b);
  }
  setAccessibleDescription(rows.join(". "));
  setMinimumHeight(minimumSizeHint().height());
  update();
}

QSize SwitchPlot::minimumSizeHint() const {
  const int rows = plan_ ? static_cast<int>(plan_->chosen.buckets.size()) : 1;
  return {240, kTop + rows * kLeastRow + kBottom};
}

double SwitchPlot::most() const {
  return static_cast<double>(by_concurrency(plan_->chosen).back()->concurrency);
}

double SwitchPlot::fitting(int bucket) const {
  const std::size_t at = static_cast<std::size_t>(bucket);
  const std::vector<MemoryNeed>& memory = plan_->chosen.memory;
  return at < memory.size() ? std::min(most(), static_cast<double>(memory[at].requests())) : most();
}

std::vector<const SwitchPoint*> SwitchPlot::switches(int bucket) const {
  std::vector<const SwitchPoint*> out;
  for (const SwitchPoint& point : plan_->chosen.switches) {
    if (point.bucket == bucket && point.precision == precision_) {
      out.push_back(&point);
    }
  }
  std::stable_sort(out.begin(), out.end(), [](const SwitchPoint* a, const SwitchPoint* b) {
    return a->requests < b->requests;
  });
  return out;
}

std::vector<SwitchPlot::Part> SwitchPlot::parts(int bucket) const {
  std::vector<Part> out;
  const PlanEntry* best = best_of(plan_->chosen, bucket, precision_);
  if (best == nullptr) {
    return out;
  }
  out.push_back({draft_kind_of(best->evaluation.strategy), 1.0, fitting(bucket)});
  for (const SwitchPoint* point : switches(bucket)) {
    const double at = static_cast<double>(point->requests);
    out.back().to = at;
    out.push_back({draft_kind_of(point->to), at, fitting(bucket)});
  }
  return out;
}

QRectF SwitchPlot::rowRect(int bucket) const {
  const int rows = plan_ ? static_cast<int>(plan_->chosen.buckets.size()) : 1;
  const double height = std::clamp(static_cast<double>(this->height() - kTop - kBottom) / rows,
                                   static_cast<double>(kLeastRow), static_cast<double>(kMostRow));
  return {0.0, kTop + bucket * height, static_cast<double>(width()), height};
}

double SwitchPlot::placeOf(double requests) const {
  const double across = most() > 1.0 ? std::log(std::max(1.0, requests)) / std::log(most()) : 0.0;
  return kTitle + across * (width() - kTitle - kRight);
}

QString SwitchPlot::row_text(int bucket) const {
  const QString range = bucket_text(plan_->chosen.buckets[static_cast<std::size_t>(bucket)]);
  const std::vector<Part> all = parts(bucket);
  if (all.empty()) {
    return range + ": " + unavailable_text(plan_->chosen, bucket, precision_);
  }
  QStringList texts;
  for (const SwitchPoint* point : switches(bucket)) {
    texts << switch_text(plan_->chosen, *point);
  }
  if (texts.isEmpty()) {
    texts << tr("%1 up to %2 at once").arg(name_of(all.front().kind)).arg(fitting(bucket));
  }
  return range + ": " + texts.join("; ");
}

QList<QStringList> SwitchPlot::savedRows() const {
  if (!plan_) {
    return {};
  }
  QList<QStringList> rows = {{tr("Context above"), tr("Context to"), tr("Class"), tr("From"),
                              tr("To"), tr("Requests at once"), tr("Low, 90 %"), tr("High, 90 %")}};
  for (const SwitchPoint& point : plan_->chosen.switches) {
    const ContextBucket& range = plan_->chosen.buckets[static_cast<std::size_t>(point.bucket)];
    rows << QStringList{QString::number(range.low),
                        QString::number(range.high),
                        QString(name_of(point.precision)),
                        QString::fromStdString(point.from.text()),
                        QString::fromStdString(point.to.text()),
                        QString::number(point.requests),
                        QString::number(point.low),
                        point.high > 0 ? QString::number(point.high) : QString()};
  }
  return rows;
}

void SwitchPlot::paintEvent(QPaintEvent*) {
  if (!plan_) {
    return;
  }
  QPainter painter(this);
  painter.setRenderHint(QPainter::Antialiasing);
  draw_axis(painter);
  for (int bucket = 0; bucket < static_cast<int>(plan_->chosen.buckets.size()); ++bucket) {
    draw_row(painter, bucket);
  }
}

void SwitchPlot::draw_axis(QPainter& painter) const {
  const theme::Colors& colors = theme::colors();
  painter.setFont(font());
  painter.setPen(colors.ink);
  painter.drawText(QRectF(0, 0, width(), 22), Qt::AlignLeft | Qt::AlignVCenter,
                   painter.fontMetrics().elidedText(
                       tr("%1: what wins by requests at once").arg(name_of(precision_)),
                       Qt::ElideRight, width()));
  const QFont small = small_of(font());
  painter.setFont(small);
  double x = 0.0;
  for (const DraftKind kind : kKinds) {
    painter.fillRect(QRectF(x, 28, 10, 10), color_of(kind));
    painter.setPen(colors.quiet_ink);
    const double wide = QFontMetricsF(small).horizontalAdvance(name_of(kind)) + 4;
    painter.drawText(QRectF(x + 14, 24, wide, 18), Qt::AlignLeft | Qt::AlignVCenter, name_of(kind));
    x += 14 + wide + 12;
  }
  const QRectF last = rowRect(static_cast<int>(plan_->chosen.buckets.size()) - 1);
  double free_from = 0.0;
  for (const PlanTable* of : by_concurrency(plan_->chosen)) {
    const double at = placeOf(static_cast<double>(of->concurrency));
    painter.setPen(QPen(colors.grid, 1.0));
    painter.drawLine(QPointF(at, kTop), QPointF(at, last.bottom()));
    if (at - 14 >= free_from) {
      painter.setPen(colors.quiet_ink);
      painter.drawText(QRectF(at - 20, last.bottom() + 2, 40, 14), Qt::AlignHCenter,
                       QString::number(of->concurrency));
      free_from = at + 14;
    }
  }
  painter.setPen(colors.quiet_ink);
  painter.drawText(QRectF(kTitle, last.bottom() + 17, width() - kTitle - kRight, 15),
                   Qt::AlignHCenter, tr("requests at once"));
}

void SwitchPlot::draw_row(QPainter& painter, int bucket) const {
  const theme::Colors& colors = theme::colors();
  const QRectF row = rowRect(bucket);
  const QRectF bar(0, row.top() + 3, 1, kBar);
  QFont title = small_of(font());
  title.setBold(bucket == bucket_);
  painter.setFont(title);
  painter.setPen(bucket == bucket_ ? colors.ink : colors.quiet_ink);
  painter.drawText(QRectF(0, bar.top() - 2, kTitle - 6, kBar + 4), Qt::AlignLeft | Qt::AlignVCenter,
                   bucket_text(plan_->chosen.buckets[static_cast<std::size_t>(bucket)]));
  for (const Part& part : parts(bucket)) {
    const double from = placeOf(part.from), to = placeOf(part.to);
    painter.fillRect(QRectF(from, bar.top(), std::max(2.0, to - from), kBar), color_of(part.kind));
  }
  if (const double fits = fitting(bucket); fits < most()) {
    painter.setFont(small_of(font()));
    painter.setPen(colors.warning);
    painter.drawText(QRectF(kTitle, bar.bottom() + 1, width() - kTitle - kRight, 14),
                     Qt::AlignRight | Qt::AlignVCenter, tr("%1 fit").arg(fits));
  }
  painter.setFont(small_of(font()));
  for (const SwitchPoint* point : switches(bucket)) {
    const double at = placeOf(static_cast<double>(point->requests));
    const double low = placeOf(static_cast<double>(point->low));
    const double high = placeOf(point->high > 0 ? static_cast<double>(point->high) : most());
    const double line = bar.bottom() + 3;
    painter.setPen(QPen(colors.ink, 1.2));
    painter.drawLine(QPointF(low, line), QPointF(high, line));
    painter.drawLine(QPointF(low, line - 2), QPointF(low, line + 2));
    if (point->high > 0) {
      painter.drawLine(QPointF(high, line - 2), QPointF(high, line + 2));
    }
    painter.drawLine(QPointF(at, bar.top() - 2), QPointF(at, line + 2));
    painter.drawText(QRectF(at - 20, line + 1, 40, 14), Qt::AlignHCenter | Qt::AlignTop,
                     QString::number(point->requests));
  }
}

QString SwitchPlot::helpAt(const QPoint& place) const {
  for (int bucket = 0; plan_ && bucket < static_cast<int>(plan_->chosen.buckets.size()); ++bucket) {
    if (rowRect(bucket).contains(place)) {
      QString text = row_text(bucket);
      for (const SwitchPoint* point : switches(bucket)) {
        text += "\n" + QString::fromStdString(point->from.text() + " to " + point->to.text());
      }
      return text;
    }
  }
  return plan_ ? batch_summary(plan_->chosen) : QString();
}

bool SwitchPlot::event(QEvent* event) {
  if (event->type() != QEvent::ToolTip) {
    return QWidget::event(event);
  }
  const QHelpEvent& help = *static_cast<QHelpEvent*>(event);
  QToolTip::showText(help.globalPos(), helpAt(help.pos()), this);
  return true;
}

}  // namespace versieve::gui
