#include "gui/views/plan_grid.h"

#include <QHelpEvent>
#include <QKeyEvent>
#include <QMouseEvent>
#include <QPainter>
#include <QToolTip>
#include <algorithm>

#include "gui/models/batch_text.h"
#include "gui/models/numbers.h"
#include "gui/models/plain_words.h"
#include "gui/views/theme.h"
#include "model/plan/guarded_plan.h"

namespace versieve::gui {
namespace {

constexpr int kWideTitle = 200, kNarrowTitle = 176;  // of rows
constexpr int kNarrow = 1100;                        // of the whole
constexpr int kLeastCell = 64;                       // three lines and a half
constexpr int kLeastColumn = 196;                    // of many columns
constexpr int kColumnTitle = 26;
constexpr int kGap = 5;
constexpr int kInset = 9;
constexpr int kBetween = 16;  // two texts of a line
constexpr int kMark = 10;     // the class's colour

QFont sized(QFont font, int pixels, bool is_bold) {
  font.setPixelSize(pixels);
  font.setBold(is_bold);
  return font;
}

QString strategy_of(const PlanEntry& entry) {
  return QString::fromStdString(entry.evaluation.strategy.text());
}

// The first of the fonts in which the text fits; the last if it fits in none.
QFont fitting(const std::vector<QFont>& fonts, const QString& text, int width) {
  for (const QFont& font : fonts) {
    if (QFontMetrics(font).horizontalAdvance(text) <= width) {
      return font;
    }
  }
  return fonts.back();
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

// In as many words as there is room for: figures before what they are, thousands before nothing.
QString interval_text(const Interval& interval, const QFontMetrics& metrics, int room) {
  const QString figures = fixed(interval.low, 0) + " – " + fixed(interval.high, 0);
  for (const QString& text : {PlanGrid::tr("90 %: %1").arg(figures), figures}) {
    if (metrics.horizontalAdvance(text) <= room) {
      return text;
    }
  }
  return fixed(1e-3 * interval.low, 0) + "k – " + fixed(1e-3 * interval.high, 0) + "k";
}

QStringList saved_row(const PlanTable& table, const PlanEntry& entry) {
  const ContextBucket& range = table.buckets[static_cast<std::size_t>(entry.bucket)];
  const Evaluation& e = entry.evaluation;
  const std::optional<Speculation> s = speculation_of_entry(table, entry);
  return {QString::number(range.low),
          QString::number(range.high),
          QString(name_of(entry.precision)),
          QString::number(entry.rank),
          QString::fromStdString(e.strategy.text()),
          QString::number(e.throughput),
          QString::number(e.throughput_interval.low),
          QString::number(e.throughput_interval.high),
          QString::number(e.expected_accepted),
          e.cost ? QString::number(e.cost->time_us) : QString(),
          QString::number(table.concurrency),
          s ? QString::number(s->break_even) : QString(),
          s ? QString::number(s->loses) : QString()};
}

}  // namespace

PlanGrid::PlanGrid(QWidget* parent) : QWidget(parent) {
  setFocusPolicy(Qt::StrongFocus);
  setAccessibleName(tr("Best strategy by context length and precision class"));
}

void PlanGrid::show_plan(const PlanPtr& plan, const std::vector<PrecisionClass>& classes,
                         const PlanSlice& slice) {
  const PlanPlace before = place();
  const bool turns = plan_ && slice.by_requests != slice_.by_requests;
  plan_ = plan;
  classes_ = classes;
  slice_ = plan ? within(plan->chosen, slice) : slice;
  setMinimumSize(minimumSizeHint());
  updateGeometry();
  column_ = turns ? (slice_.by_requests ? before.level : before.bucket) : column_;
  column_ = std::clamp(column_, 0, std::max(0, columns() - 1));
  row_ = std::clamp(row_, 0, std::max(0, row_count() - 1));
  update();
}

void PlanGrid::select(int column, int row) {
  if (column < 0 || row < 0 || column >= columns() || row >= row_count()) {
    return;
  }
  column_ = column;
  row_ = row;
  setAccessibleDescription(help_text(column, row));
  update();
  Q_EMIT cellSelected(column, row);
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

int PlanGrid::row_title() const {
  return width() < kNarrow ? kNarrowTitle : kWideTitle;
}

QSize PlanGrid::minimumSizeHint() const {
  return {std::max(600, kNarrowTitle + columns() * kLeastColumn),
          kColumnTitle + std::max(1, row_count()) * kLeastCell};
}

int PlanGrid::left() const {
  return std::max(0, -x());
}

QRect PlanGrid::cellRect(int column, int row) const {
  const int cell_width = (width() - row_title()) / std::max(1, columns());
  const int cell_height = (height() - kColumnTitle) / std::max(1, row_count());
  return QRect(row_title() + column * cell_width, kColumnTitle + row * cell_height,
               cell_width - kGap, cell_height - kGap);
}

// A row of one class shows what the class adds; a baseline that is ahead of it is named beside.
ClassChoice PlanGrid::found(const PlanTable& plan, int column, int row) const {
  const PlanTable& table = table_at(plan, column);
  const int bucket = place_of(slice_, column).bucket;
  if (const std::optional<PrecisionClass> precision = class_of(row)) {
    return class_choice(table, bucket, *precision);
  }
  const std::vector<const PlanEntry*> all = entries_of(table, bucket, compared_classes());
  return {.best = all.empty() ? nullptr : all.front()};
}

QList<QStringList> PlanGrid::savedRows() const {
  if (!plan_) {
    return {};
  }
  QList<QStringList> rows = {{tr("Context above"), tr("Context to"), tr("Class"), tr("Rank"),
                              tr("Strategy"), tr("Tokens a second"), tr("Low, 90 %"),
                              tr("High, 90 %"), tr("Tokens a step"), tr("Step, us"),
                              tr("Requests at once"), tr("Even at, tokens a step"), tr("p loses")}};
  for (int level = 0; level < level_count(plan_->chosen); ++level) {
    const PlanTable& table = table_of(plan_->chosen, level);
    for (const PlanEntry& entry : table.entries) {
      if (std::find(classes_.begin(), classes_.end(), entry.precision) != classes_.end()) {
        rows << saved_row(table, entry);
      }
    }
  }
  return rows;
}

QVariant PlanGrid::inputMethodQuery(Qt::InputMethodQuery query) const {
  return query == Qt::ImCursorRectangle && plan_ ? QVariant(cellRect(column_, row_))
                                                 : QWidget::inputMethodQuery(query);
}

void PlanGrid::paintEvent(QPaintEvent*) {
  QPainter painter(this);
  painter.setRenderHint(QPainter::Antialiasing);
  if (!plan_) {
    return;
  }
  draw_columns(painter);
  for (int row = 0; row < row_count(); ++row) {
    for (int column = 0; column < columns(); ++column) {
      draw_cell(painter, column, row);
    }
  }
  draw_rows(painter);
}

// And of several requests at once how many fit into memory.
void PlanGrid::draw_columns(QPainter& painter) const {
  const QFont small = sized(font(), theme::kSmallPixels, false);
  for (int column = 0; column < columns(); ++column) {
    const QRect cell = cellRect(column, 0);
    const QRect title(cell.left() + kInset, 0, cell.width() - 2 * kInset, kColumnTitle);
    const QString text = column_text(plan_->chosen, slice_, column);
    painter.setPen(theme::colors().quiet_ink);
    painter.setFont(font());
    painter.drawText(title, Qt::AlignVCenter, text);
    const QString fits = slice_.by_requests && column > 0
                             ? QString()
                             : memory_text(plan_->chosen, place_of(slice_, column).bucket);
    const int used = QFontMetrics(font()).horizontalAdvance(text) + kBetween;
    painter.setFont(small);
    if (used + QFontMetrics(small).horizontalAdvance(fits) <= title.width()) {
      painter.drawText(title, Qt::AlignVCenter | Qt::AlignRight, fits);
    }
  }
}

// Over what is seen of the cells, wherever they were moved to.
void PlanGrid::draw_rows(QPainter& painter) const {
  painter.translate(left(), 0);
  if (left() > 0) {
    painter.fillRect(0, 0, row_title() - kGap, height(), palette().window());
  }
  painter.setPen(theme::colors().quiet_ink);
  painter.setFont(font());
  painter.drawText(
      QRect(0, 0, row_title(), kColumnTitle), Qt::AlignVCenter,
      slice_.by_requests
          ? tr("Requests, %1")
                .arg(bucket_text(plan_->chosen.buckets[static_cast<std::size_t>(slice_.fixed)]))
          : tr("Context, tokens"));
  for (int row = 0; row < row_count(); ++row) {
    const QRect cell = cellRect(0, row);
    const std::optional<PrecisionClass> precision = class_of(row);
    Lines lines(painter, QRect(kMark + 8, cell.top() + 5, row_title() - kMark - 12, cell.height()));
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

void PlanGrid::draw_cell(QPainter& painter, int column, int row) const {
  const QRect cell = cellRect(column, row);
  const ClassChoice best = found(plan_->chosen, column, row);
  const bool is_selected = column == column_ && row == row_;
  painter.setPen(is_selected ? QPen(theme::colors().accent, hasFocus() ? 2.6 : 1.6)
                             : QPen(theme::colors().line, 1.0));
  painter.setBrush(best.best == nullptr ? theme::colors().page
                   : is_selected        ? theme::colors().accent_tint
                                        : theme::colors().panel);
  painter.drawRoundedRect(QRectF(cell).adjusted(1, 1, -1, -1), 3, 3);
  if (best.best != nullptr) {
    draw_entry(painter, cell, column, row, best);
    return;
  }
  painter.setPen(theme::colors().quiet_ink);
  painter.setFont(sized(font(), theme::kSmallPixels, false));
  painter.drawText(cell.adjusted(kInset, 2, -kInset, -2),
                   Qt::AlignLeft | Qt::AlignVCenter | Qt::TextWordWrap,
                   classes_.empty() ? tr("no class is shown") : help_text(column, row));
}

void PlanGrid::draw_entry(QPainter& painter, const QRect& cell, int column, int row,
                          const ClassChoice& best) const {
  const PlanEntry& entry = *best.best;
  const Evaluation& evaluation = entry.evaluation;
  const QFont small = sized(font(), theme::kSmallPixels, false);
  const ClassChoice own = found(plan_->own, column, row);
  const bool is_new =
      own.best != nullptr && !(own.best->evaluation.strategy == evaluation.strategy);
  const QString rate = fixed(evaluation.throughput, 0) + tr(" tokens/s");
  const int room = cell.width() - 2 * kInset - kBetween;
  const QString interval = interval_text(
      evaluation.throughput_interval, QFontMetrics(small),
      room - QFontMetrics(sized(font(), theme::kTextPixels, false)).horizontalAdvance(rate));
  const QFont bold = sized(font(), theme::kTextPixels, true);
  const QFont small_bold = sized(font(), theme::kSmallPixels, true);
  const QFont plain = sized(font(), theme::kTextPixels, false);
  const theme::Colors& colors = theme::colors();
  const QString name = compact(strategy_of(entry));
  Lines lines(painter, cell.adjusted(kInset, 3, -kInset, -3));
  if (lines.hasRoomFor(bold, plain)) {
    lines.write(fitting({bold, small_bold, small}, name, cell.width() - 2 * kInset), colors.ink,
                name);
    lines.write(plain, colors.accent, rate, small, colors.quiet_ink, interval);
  } else {  // what it yields before what it is called
    lines.write(fitting({small_bold, small}, name, cell.width() - 2 * kInset), colors.ink, name);
    lines.write(small, colors.accent, rate, small, colors.quiet_ink, interval);
  }
  if (best.ahead != nullptr) {
    lines.write(small, colors.warning, QString::fromStdString(below_text(*best.ahead)));
  } else if (is_new) {
    lines.write(small, colors.warning, tr("was %1").arg(compact(strategy_of(*own.best))));
  }
  const PlanTable& table = table_at(plan_->chosen, column);
  if (!plan_->chosen.batched.empty()) {
    const QString even = even_text(table, entry);
    lines.write(small, colors.quiet_ink, even.isEmpty() ? tr("plain decoding") : even, small,
                colors.accent,
                is_operating_point(plan_->chosen, table, entry) ? tr("most tokens/s") : QString());
  }
  const QString reason = reason_text(entry);
  const QString loss = entry.lossy ? tr("loss: %1").arg(price_text(entry)) : QString();
  const QFontMetrics metrics(small);
  if (loss.isEmpty() ||
      metrics.horizontalAdvance(reason) + metrics.horizontalAdvance(loss) + kBetween <=
          cell.width() - 2 * kInset) {
    lines.write(small, colors.quiet_ink, reason, small, colors.quiet_ink, loss);
  } else {  // what it costs before why
    lines.write(small, colors.quiet_ink, loss);
    lines.write(small, colors.quiet_ink, reason);
  }
  lines.write(small, colors.quiet_ink,
              tr("%1× autoregressive, %2× baseline; %3")
                  .arg(fixed(entry.gain_over_ar, 2), fixed(entry.gain_over_baseline, 2),
                       name_of(evaluation.source)));
  if (const int ties = tie_count(column, row, entry); ties > 0) {
    lines.write(small, colors.quiet_ink,
                tr("≈ %1 more within its interval, not decided").arg(ties));
  }
}

// Ranked behind it, with intervals that overlap its own.
int PlanGrid::tie_count(int column, int row, const PlanEntry& entry) const {
  const std::optional<PrecisionClass> precision = class_of(row);
  const std::vector<const PlanEntry*> all =
      entries_of(table_at(plan_->chosen, column), place_of(slice_, column).bucket,
                 precision ? std::vector{*precision} : compared_classes());
  return static_cast<int>(std::count_if(all.begin(), all.end(), [&](const PlanEntry* other) {
    return other != &entry && other->evaluation.throughput <= entry.evaluation.throughput &&
           overlaps(*other, entry);
  }));
}

QString PlanGrid::help_text(int column, int row) const {
  const PlanTable& table = table_at(plan_->chosen, column);
  const int bucket = place_of(slice_, column).bucket;
  const ClassChoice best = found(plan_->chosen, column, row);
  const std::optional<PrecisionClass> precision = class_of(row);
  if (best.best != nullptr) {
    const ClassChoice own = found(plan_->own, column, row);
    const QString even = even_text(table, *best.best);
    const QString condition = QString::fromStdString(
        precision ? run_condition(table, bucket, *precision) : std::string());
    const int ties = tie_count(column, row, *best.best);
    const bool is_new =
        own.best != nullptr && !(own.best->evaluation.strategy == best.best->evaluation.strategy);
    return strategy_of(*best.best) + ": " + text_in_words(best.best->evaluation.strategy.text()) +
           ".\n" + fixed(best.best->evaluation.throughput, 0) +
           tr(" tokens/s (90 %: %1 – %2): ")
               .arg(fixed(best.best->evaluation.throughput_interval.low, 0),
                    fixed(best.best->evaluation.throughput_interval.high, 0)) +
           reason_text(*best.best) + tr(".\nLoss: %1.").arg(price_text(*best.best)) +
           (even.isEmpty() ? QString() : "\n" + even + ".") +
           (best.ahead != nullptr
                ? "\nIt is " + QString::fromStdString(below_text(*best.ahead)) + "."
                : QString()) +
           (ties > 0 ? tr("\n%1 more have intervals that overlap its own: which is faster is not "
                          "decided.")
                           .arg(ties)
                     : QString()) +
           (is_new ? tr("\nAs measured it is %1.").arg(strategy_of(*own.best)) : QString()) +
           (condition.isEmpty() ? QString() : "\n" + condition);
  }
  return precision ? unavailable_text(table, bucket, *precision) : QString();
}

// Of a cell its entry, of a row's title what the class promises.
QString PlanGrid::helpAt(const QPoint& place) const {
  if (const auto [column, row] = cell_at(place); row >= 0) {
    return help_text(column, row);
  }
  for (int row = 0; row < row_count() && place.x() < left() + row_title(); ++row) {
    const QRect cell = cellRect(0, row);
    if (place.y() >= cell.top() && place.y() <= cell.bottom()) {
      const std::optional<PrecisionClass> precision = class_of(row);
      return precision ? class_in_words(*precision)
                       : tr("The fastest of the classes that are compared");
    }
  }
  return {};
}

std::pair<int, int> PlanGrid::cell_at(const QPoint& place) const {
  for (int row = 0; row < row_count() && place.x() >= left() + row_title(); ++row) {
    for (int column = 0; column < columns(); ++column) {
      if (cellRect(column, row).contains(place)) {
        return {column, row};
      }
    }
  }
  return {-1, -1};
}

// What was seen of the titles moves with the cells.
void PlanGrid::moveEvent(QMoveEvent*) {
  update();
}

bool PlanGrid::event(QEvent* event) {
  if (event->type() != QEvent::ToolTip) {
    return QWidget::event(event);
  }
  const QHelpEvent* help = static_cast<QHelpEvent*>(event);
  QToolTip::showText(help->globalPos(), helpAt(help->pos()), this);
  return true;
}

void PlanGrid::mousePressEvent(QMouseEvent* event) {
  const auto [column, row] = cell_at(event->position().toPoint());
  select(column, row);
}

void PlanGrid::keyPressEvent(QKeyEvent* event) {
  switch (event->key()) {
    case Qt::Key_Left:
      select(column_ - 1, row_);
      break;
    case Qt::Key_Right:
      select(column_ + 1, row_);
      break;
    case Qt::Key_Up:
      select(column_, row_ - 1);
      break;
    case Qt::Key_Down:
      select(column_, row_ + 1);
      break;
    default:
      QWidget::keyPressEvent(event);
  }
}

}  // namespace versieve::gui
