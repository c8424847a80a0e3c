#include "gui/views/plan_grid.h"

#include <QHelpEvent>
#include <QKeyEvent>
#include <QMouseEvent>
#include <QPainter>
#include <QToolTip>
#include <algorithm>

#include "gui/models/numbers.h"
#include "gui/models/plain_words.h"
#include "gui/views/theme.h"
#include "model/plan/guarded_plan.h"

namespace versieve::gui {
namespace {

constexpr int kRowTitle = 200;
constexpr int kColumnTitle = 26;
constexpr int kGap = 5;
constexpr int kInset = 9;
constexpr int kMark = 10;  // the class's colour

QFont sized(QFont font, int pixels, bool is_bold) {
  font.setPixelSize(pixels);
  font.setBold(is_bold);
  return font;
}

QString strategy_of(const PlanEntry& entry) {
  return QString::fromStdString(entry.evaluation.strategy.text());
}

// Writes lines under each other as long as a cell has room for them; after the first that has none
// come no others.
class Lines {
 public:
  Lines(QPainter& painter, const QRect& cell) : painter_(painter), left_(cell) {}

  // One text, and perhaps another at the right end, that has less of a claim.
  void write(const QFont& font, const QColor& color, const QString& text,
             const QFont& right_font = {}, const QColor& right_color = {},
             const QString& right = {}) {
    const QFontMetrics metrics(font);
    if (left_.height() < metrics.height() - 2) {
      left_.setHeight(0);
      return;
    }
    const QRect line(left_.left(), left_.top(), left_.width(), metrics.height());
    const QString shown = metrics.elidedText(text, Qt::ElideRight, line.width());
    painter_.setFont(font);
    painter_.setPen(color);
    painter_.drawText(line, Qt::AlignLeft | Qt::AlignVCenter, shown);
    const QRect rest = line.adjusted(metrics.horizontalAdvance(shown) + 8, 0, 0, 0);
    if (!right.isEmpty()) {
      painter_.setFont(right_font);
      painter_.setPen(right_color);
      painter_.drawText(rest, Qt::AlignRight | Qt::AlignVCenter,
                        QFontMetrics(right_font).elidedText(right, Qt::ElideRight, rest.width()));
    }
    left_.setTop(line.bottom() + 2);
  }

  bool hasRoomFor(const QFont& first, const QFont& second) const {
    return left_.height() >= QFontMetrics(first).height() + 1 + QFontMetrics(second).height() - 2;
  }

 private:
  QPainter& painter_;
  QRect left_;
};

}  // namespace

PlanGrid::PlanGrid(QWidget* parent) : QWidget(parent) {
  setFocusPolicy(Qt::StrongFocus);
  setAccessibleName(tr("Best strategy by context length and precision class"));
}

void PlanGrid::show_plan(const PlanPtr& plan, const std::vector<PrecisionClass>& classes) {
  plan_ = plan;
  classes_ = classes;
  bucket_ = std::clamp(bucket_, 0, std::max(0, bucket_count() - 1));
  row_ = std::clamp(row_, 0, std::max(0, row_count() - 1));
  update();
}

void PlanGrid::select(int bucket, int row) {
  if (bucket < 0 || row < 0 || bucket >= bucket_count() || row >= row_count()) {
    return;
  }
  bucket_ = bucket;
  row_ = row;
  setAccessibleDescription(help_text(bucket, row));
  update();
  Q_EMIT cellSelected(bucket, row);
}

std::vector<PrecisionClass> PlanGrid::selectedClasses() const {
  const std::optional<PrecisionClass> one = class_of(row_);
  return one ? std::vector<PrecisionClass>{*one} : compared_classes();
}

std::vector<PrecisionClass> PlanGrid::compared_classes() const {
  std::vector<PrecisionClass> compared = classes_;
  std::erase(compared, PrecisionClass::kApproxSampling);
  return compared.empty() ? classes_ : compared;
}

std::optional<PrecisionClass> PlanGrid::class_of(int row) const {
  return row < 1 || row >= row_count()
             ? std::nullopt
             : std::optional<PrecisionClass>(classes_[static_cast<std::size_t>(row - 1)]);
}

int PlanGrid::bucket_count() const {
  return plan_ ? static_cast<int>(plan_->chosen.buckets.size()) : 0;
}

QRect PlanGrid::cellRect(int bucket, int row) const {
  const int cell_width = (width() - kRowTitle) / std::max(1, bucket_count());
  const int cell_height = (height() - kColumnTitle) / std::max(1, row_count());
  return QRect(kRowTitle + bucket * cell_width, kColumnTitle + row * cell_height, cell_width - kGap,
               cell_height - kGap);
}

// A row of one class shows what the class adds; a baseline that is ahead of it is named beside.
PlanGrid::Found PlanGrid::found(const PlanTable& table, int bucket, int row) const {
  const std::optional<PrecisionClass> precision = class_of(row);
  if (!precision) {
    const std::vector<const PlanEntry*> all = entries_of(table, bucket, compared_classes());
    return {.entry = all.empty() ? nullptr : all.front()};
  }
  const PlanEntry* first = best_entry(table, bucket, *precision);
  const PlanEntry* own = best_of_its_own(table, bucket, *precision);
  return own == nullptr ? Found{.entry = first}
                        : Found{.entry = own, .baseline = first == own ? nullptr : first};
}

void PlanGrid::paintEvent(QPaintEvent*) {
  QPainter painter(this);
  painter.setRenderHint(QPainter::Antialiasing);
  if (!plan_) {
    return;
  }
  draw_headers(painter);
  for (int row = 0; row < row_count(); ++row) {
    for (int bucket = 0; bucket < bucket_count(); ++bucket) {
      draw_cell(painter, bucket, row);
    }
  }
}

void PlanGrid::draw_headers(QPainter& painter) const {
  painter.setPen(theme::colors().quiet_ink);
  painter.setFont(font());
  painter.drawText(QRect(0, 0, kRowTitle, kColumnTitle), Qt::AlignVCenter, tr("Context, tokens"));
  for (int bucket = 0; bucket < bucket_count(); ++bucket) {
    const QRect cell = cellRect(bucket, 0);
    painter.drawText(QRect(cell.left() + kInset, 0, cell.width(), kColumnTitle), Qt::AlignVCenter,
                     bucket_text(plan_->chosen.buckets[static_cast<std::size_t>(bucket)]));
  }
  for (int row = 0; row < row_count(); ++row) {
    const QRect cell = cellRect(0, row);
    const std::optional<PrecisionClass> precision = class_of(row);
    Lines lines(painter, QRect(kMark + 8, cell.top() + 5, kRowTitle - kMark - 12, cell.height()));
    if (precision) {
      painter.fillRect(QRect(0, cell.top() + 8, kMark, kMark),
                       theme::category(static_cast<int>(*precision)));
    }
    lines.write(sized(font(), theme::kTextPixels, !precision), theme::colors().ink,
                precision ? QString(name_of(*precision)) : tr("Best of the shown"));
    lines.write(sized(font(), theme::kSmallPixels, false), theme::colors().quiet_ink,
                precision ? promise_of(*precision)
                : compared_classes().size() < classes_.size()
                    ? tr("all but %1").arg(name_of(PrecisionClass::kApproxSampling))
                    : tr("whatever its class"));
  }
}

void PlanGrid::draw_cell(QPainter& painter, int bucket, int row) const {
  const QRect cell = cellRect(bucket, row);
  const Found best = found(plan_->chosen, bucket, row);
  const bool is_selected = bucket == bucket_ && row == row_;
  painter.setPen(is_selected ? QPen(theme::colors().accent, hasFocus() ? 2.6 : 1.6)
                             : QPen(theme::colors().line, 1.0));
  painter.setBrush(best.entry == nullptr ? theme::colors().page
                   : is_selected         ? theme::colors().accent_tint
                                         : theme::colors().panel);
  painter.drawRoundedRect(QRectF(cell).adjusted(1, 1, -1, -1), 3, 3);
  if (best.entry != nullptr) {
    draw_entry(painter, cell, bucket, row, best);
    return;
  }
  painter.setPen(theme::colors().quiet_ink);
  painter.setFont(sized(font(), theme::kSmallPixels, false));
  painter.drawText(cell.adjusted(kInset, 2, -kInset, -2),
                   Qt::AlignLeft | Qt::AlignVCenter | Qt::TextWordWrap,
                   classes_.empty() ? tr("no class is shown") : help_text(bucket, row));
}

void PlanGrid::draw_entry(QPainter& painter, const QRect& cell, int bucket, int row,
                          const Found& best) const {
  const PlanEntry& entry = *best.entry;
  const Evaluation& evaluation = entry.evaluation;
  const QFont small = sized(font(), theme::kSmallPixels, false);
  const Found own = found(plan_->own, bucket, row);
  const bool is_new =
      own.entry != nullptr && !(own.entry->evaluation.strategy == evaluation.strategy);
  const QString interval = tr("90 %: %1 – %2")
                               .arg(fixed(evaluation.throughput_interval.low, 0),
                                    fixed(evaluation.throughput_interval.high, 0));
  const QString gain = tr("%1× baseline").arg(fixed(entry.gain_over_baseline, 2));
  const QFont bold = sized(font(), theme::kTextPixels, true);
  const QFont plain = sized(font(), theme::kTextPixels, false);
  const theme::Colors& colors = theme::colors();
  const QColor mark = best.baseline != nullptr || is_new ? colors.warning : colors.quiet_ink;
  const QString marked = best.baseline != nullptr ? tr("below a baseline")
                         : is_new                 ? tr("changed")
                                                  : interval;
  Lines lines(painter, cell.adjusted(kInset, 3, -kInset, -3));
  if (lines.hasRoomFor(bold, plain)) {
    lines.write(bold, colors.ink, strategy_of(entry));
    lines.write(plain, colors.accent, fixed(evaluation.throughput, 0) + tr(" tokens/s"), small,
                mark, marked);
  } else {  // what it yields before what it is called
    const QFont small_bold = sized(font(), theme::kSmallPixels, true);
    lines.write(small_bold, colors.ink, strategy_of(entry));
    lines.write(small, colors.accent, fixed(evaluation.throughput, 0) + tr(" tokens/s"), small,
                mark, marked == interval ? gain : marked);
  }
  if (best.baseline != nullptr) {
    lines.write(small, theme::colors().warning,
                tr("the %1 baseline is faster: %2")
                    .arg(QString::fromStdString(best.baseline->baseline),
                         fixed(best.baseline->evaluation.throughput, 0)));
  } else if (is_new) {
    lines.write(small, theme::colors().warning, tr("was %1").arg(strategy_of(*own.entry)));
  }
  if (entry.lossy) {
    lines.write(small, colors.quiet_ink, tr("loss: %1").arg(price_text(entry)));
  }
  lines.write(small, colors.quiet_ink, reason_text(entry));
  lines.write(small, colors.quiet_ink,
              tr("%1× autoregressive, %2; %3")
                  .arg(fixed(entry.gain_over_ar, 2), gain, name_of(evaluation.source)));
  if (marked != interval) {
    lines.write(small, colors.quiet_ink, interval);
  }
}

QString PlanGrid::help_text(int bucket, int row) const {
  const Found best = found(plan_->chosen, bucket, row);
  const std::optional<PrecisionClass> precision = class_of(row);
  if (best.entry != nullptr) {
    const Found own = found(plan_->own, bucket, row);
    const QString condition = QString::fromStdString(
        precision ? run_condition(plan_->chosen, bucket, *precision) : std::string());
    const bool is_new = own.entry != nullptr &&
                        !(own.entry->evaluation.strategy == best.entry->evaluation.strategy);
    return strategy_of(*best.entry) + ": " + text_in_words(best.entry->evaluation.strategy.text()) +
           ".\n" + fixed(best.entry->evaluation.throughput, 0) + tr(" tokens/s: ") +
           reason_text(*best.entry) + tr(".\nLoss: %1.").arg(price_text(*best.entry)) +
           (best.baseline != nullptr ? tr("\nThe %1 baseline is faster.")
                                           .arg(QString::fromStdString(best.baseline->baseline))
                                     : QString()) +
           (is_new ? tr("\nAs measured it is %1.").arg(strategy_of(*own.entry)) : QString()) +
           (condition.isEmpty() ? QString() : "\n" + condition);
  }
  return precision ? unavailable_text(plan_->chosen, bucket, *precision) : QString();
}

std::pair<int, int> PlanGrid::cell_at(const QPoint& place) const {
  for (int row = 0; row < row_count(); ++row) {
    for (int bucket = 0; bucket < bucket_count(); ++bucket) {
      if (cellRect(bucket, row).contains(place)) {
        return {bucket, row};
      }
    }
  }
  return {-1, -1};
}

bool PlanGrid::event(QEvent* event) {
  if (event->type() != QEvent::ToolTip) {
    return QWidget::event(event);
  }
  const QHelpEvent* help = static_cast<QHelpEvent*>(event);
  const auto [bucket, row] = cell_at(help->pos());
  QToolTip::showText(help->globalPos(), row < 0 ? QString() : help_text(bucket, row), this);
  return true;
}

void PlanGrid::mousePressEvent(QMouseEvent* event) {
  const auto [bucket, row] = cell_at(event->position().toPoint());
  select(bucket, row);
}

void PlanGrid::keyPressEvent(QKeyEvent* event) {
  switch (event->key()) {
    case Qt::Key_Left:
      select(bucket_ - 1, row_);
      break;
    case Qt::Key_Right:
      select(bucket_ + 1, row_);
      break;
    case Qt::Key_Up:
      select(bucket_, row_ - 1);
      break;
    case Qt::Key_Down:
      select(bucket_, row_ + 1);
      break;
    default:
      QWidget::keyPressEvent(event);
  }
}

}  // namespace versieve::gui
