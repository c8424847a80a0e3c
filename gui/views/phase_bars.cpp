#include "gui/views/phase_bars.h"

#include <QKeyEvent>
#include <QMouseEvent>
#include <QPainter>
#include <algorithm>
#include <cmath>

#include "gui/models/numbers.h"
#include "gui/views/theme.h"

namespace versieve::gui {
namespace {

constexpr double kTitleRoom = 24;
constexpr double kLeastRow = 13, kMostRow = 24;
constexpr double kNames = 128, kFigures = 250;  // their columns, left and right of the bars

// One unit in all rows: their decimal marks stand under each other.
QString us_text(double us) {
  return fixed(us, 2) + QString::fromUtf8(" µs");
}

QString signed_us(double us) {
  const QString size = us_text(std::fabs(us));
  const bool is_nothing = size == us_text(0.0);
  return (is_nothing ? QString() : us < 0.0 ? QString(QChar(0x2212)) : QString("+")) + size;
}

}  // namespace

PhaseBars::PhaseBars(QWidget* parent) : QWidget(parent) {
  setAccessibleName(tr("Phases of the step"));
  setFocusPolicy(Qt::StrongFocus);
}

void PhaseBars::show_view(const StepViewPtr& view) {
  view_ = view;
  rows_.clear();
  told_ = -1;
  if (is_pair()) {
    for (const PhaseDifference& d : phase_differences(*view_->first_trace, *view_->second_trace)) {
      rows_.push_back({.name = d.name,
                       .launches = d.first_launches,
                       .second_launches = d.second_launches,
                       .us = d.first_us,
                       .second_us = d.second_us,
                       .priced_us = {}});
    }
  } else if (view_ && view_->first_trace) {
    for (const TracedPhase& phase : view_->first_trace->phases) {
      rows_.push_back({.name = phase.name,
                       .launches = std::ssize(phase.launches),
                       .us = phase.us,
                       .priced_us = phase.priced_us});
    }
    std::stable_sort(rows_.begin(), rows_.end(),
                     [](const Row& a, const Row& b) { return a.us > b.us; });
    rows_.push_back({.name = "gaps",
                     .launches = std::ssize(view_->first_trace->gaps),
                     .us = view_->first_trace->gap_us(),
                     .priced_us = {}});
  }
  setAccessibleDescription({});
  update();
}

void PhaseBars::tell(const QString& phase) {
  const auto found =
      std::find_if(rows_.begin(), rows_.end(), [&](const Row& row) { return row.name == phase; });
  if (found != rows_.end()) {
    told_ = static_cast<int>(found - rows_.begin());
    setAccessibleDescription(row_text(*found));
    update();
  }
}

QString PhaseBars::told() const {
  return told_ < 0 ? QString() : rows_[static_cast<std::size_t>(told_)].name;
}

QRectF PhaseBars::rowRect(int row) const {
  const double room = (height() - kTitleRoom - 4.0) / std::max<double>(1.0, rows());
  const double each = std::clamp(room, kLeastRow, kMostRow);
  return {0.0, kTitleRoom + each * row, static_cast<double>(width()), each};
}

QString PhaseBars::row_text(const Row& row) const {
  if (is_pair()) {
    return tr("%1: %2 in %3, beside it %4 in %5: %6")
        .arg(row.name, us_text(row.us))
        .arg(row.launches)
        .arg(us_text(row.second_us))
        .arg(row.second_launches)
        .arg(signed_us(row.second_us - row.us));
  }
  return tr("%1: %2 in %3%4")
      .arg(row.name, us_text(row.us))
      .arg(row.launches)
      .arg(row.priced_us ? tr(", priced %1").arg(us_text(*row.priced_us)) : QString());
}

void PhaseBars::draw_row(QPainter& painter, int row, double most_us) const {
  const Row& it = rows_[static_cast<std::size_t>(row)];
  const QRectF at = rowRect(row);
  painter.setPen(row == told_ ? theme::colors().accent : theme::colors().ink);
  painter.drawText(QRectF(8, at.top(), kNames - 12, at.height()), Qt::AlignVCenter,
                   painter.fontMetrics().elidedText(it.name, Qt::ElideRight, kNames - 14));
  const double figures = std::min(kFigures, 0.5 * width());
  const double room = width() - kNames - figures - 8.0;
  const double thick = 0.6 * at.height();
  const double top = at.top() + 0.2 * at.height();
  if (is_pair()) {
    const double middle = kNames + room / 2.0;
    const double reach = (it.second_us - it.us) / most_us * room / 2.0;
    painter.fillRect(QRectF(std::min(middle, middle + reach), top, std::fabs(reach), thick),
                     reach > 0.0 ? theme::colors().warning : theme::colors().accent);
    painter.setPen(theme::colors().line);
    painter.drawLine(QPointF(middle, at.top()), QPointF(middle, at.bottom()));
  } else {
    painter.fillRect(QRectF(kNames, top, it.us / most_us * room, thick), theme::colors().accent);
    if (it.priced_us) {  // a mark where the price ends
      const double x = kNames + std::min(1.0, *it.priced_us / most_us) * room;
      painter.fillRect(QRectF(x - 1, at.top() + 1, 2, at.height() - 2), theme::colors().ink);
    }
  }
  const double x = width() - figures;
  const auto cell = [&](double from, double share, const QString& text) {
    painter.drawText(QRectF(x + from * figures, at.top(), share * figures - 4, at.height()),
                     Qt::AlignRight | Qt::AlignVCenter, text);
  };
  painter.setPen(theme::colors().quiet_ink);
  cell(0.0, 0.34, us_text(it.us));
  if (is_pair()) {
    cell(0.34, 0.32, us_text(it.second_us));
    painter.setPen(theme::colors().ink);
    cell(0.66, 0.32, signed_us(it.second_us - it.us));
  } else {
    cell(0.34, 0.32, it.priced_us ? us_text(*it.priced_us) : QString(QChar(kAbsent)));
    cell(0.66, 0.32, QString::number(it.launches));
  }
}

void PhaseBars::paintEvent(QPaintEvent*) {
  QPainter painter(this);
  painter.fillRect(rect(), theme::colors().panel);
  painter.setPen(theme::colors().ink);
  const double figures = std::min(kFigures, 0.5 * width());
  const QString title = is_pair() ? tr("Phases: the step beside it takes more (right) or less")
                                  : tr("Phases: measured (bar), priced (line)");
  painter.drawText(
      QRectF(8, 2, width() - figures - 12, kTitleRoom - 4), Qt::AlignVCenter,
      painter.fontMetrics().elidedText(rows_.empty() ? tr("Phases") : title, Qt::ElideRight,
                                       static_cast<int>(width() - figures - 14)));
  QFont small = painter.font();
  small.setPixelSize(theme::kSmallPixels);
  painter.setFont(small);
  if (rows_.empty()) {
    painter.setPen(theme::colors().quiet_ink);
    painter.drawText(rect().adjusted(12, 24, -12, -8), Qt::AlignCenter | Qt::TextWordWrap,
                     view_ ? missing_trace_text(*view_) : QString());
    return;
  }
  const QStringList heads = is_pair() ? QStringList{tr("first"), tr("beside it"), tr("difference")}
                                      : QStringList{tr("measured"), tr("priced"), tr("launches")};
  painter.setPen(theme::colors().quiet_ink);
  for (int i = 0; i < 3; ++i) {
    painter.drawText(QRectF(width() - figures + 0.33 * i * figures, 4, 0.33 * figures - 4, 16),
                     Qt::AlignRight | Qt::AlignVCenter, heads[i]);
  }
  double most = 1e-9;
  for (const Row& row : rows_) {
    most = std::max(most, is_pair() ? std::fabs(row.second_us - row.us) : row.us);
  }
  for (int row = 0; row < rows(); ++row) {
    draw_row(painter, row, most);
  }
  if (hasFocus()) {
    painter.setPen(QPen(theme::colors().accent, 1.6));
    painter.setBrush(Qt::NoBrush);
    painter.drawRect(rect().adjusted(1, 1, -1, -1));
  }
}

void PhaseBars::choose(int row) {
  if (row >= 0 && row < rows()) {
    tell(rows_[static_cast<std::size_t>(row)].name);
    Q_EMIT phaseTold(told());
  }
}

void PhaseBars::mousePressEvent(QMouseEvent* event) {
  for (int row = 0; row < rows(); ++row) {
    if (rowRect(row).contains(event->position())) {
      choose(row);
    }
  }
}

void PhaseBars::keyPressEvent(QKeyEvent* event) {
  const int by = (event->key() == Qt::Key_Down) - (event->key() == Qt::Key_Up);
  if (by == 0 || rows_.empty()) {
    QWidget::keyPressEvent(event);
    return;
  }
  choose(std::clamp(told_ + by, 0, rows() - 1));
}

QList<QStringList> PhaseBars::savedRows() const {
  QList<QStringList> rows =
      is_pair()
          ? QList<QStringList>{{tr("Phase"), tr("Launches"), tr("Measured, us"),
                                tr("Launches beside it"), tr("Measured beside it, us"),
                                tr("Difference, us")}}
          : QList<QStringList>{{tr("Phase"), tr("Launches"), tr("Measured, us"), tr("Priced, us")}};
  const auto us = [](double value) { return QString::number(value, 'f', 3); };
  for (const Row& row : rows_) {
    QStringList cells = {row.name, QString::number(row.launches), us(row.us)};
    if (is_pair()) {
      cells << QString::number(row.second_launches) << us(row.second_us)
            << us(row.second_us - row.us);
    } else {
      cells << (row.priced_us ? us(*row.priced_us) : QString());
    }
    rows << cells;
  }
  return rows;
}

}  // namespace versieve::gui
