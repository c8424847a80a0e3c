#include "gui/views/tornado.h"

#include <QHelpEvent>
#include <QPainter>
#include <QToolTip>
#include <algorithm>
#include <cmath>

#include "gui/models/numbers.h"
#include "gui/models/plain_words.h"
#include "gui/views/theme.h"

namespace versieve::gui {
namespace {

constexpr int kTitle = 132;  // of a row
constexpr int kTop = 26;
constexpr int kRowHeight = 44;
constexpr int kBarHeight = 14;
constexpr int kMargin = 48;  // beside the longest bar, for its figure
constexpr double kLeastReach = 0.02;
constexpr double kStill = 0.005;  // of a rate: less is not seen in its figure

QString gain_text(double ratio) {
  return QString::fromUtf8("× ") + fixed(ratio, 2);
}

}  // namespace

Tornado::Tornado(QWidget* parent) : QWidget(parent) {
  setAccessibleName(tr("Effect of each knob on tokens a second"));
}

void Tornado::show_answer(const SensitivityPtr& answer) {
  answer_ = answer;
  reach_ = kLeastReach;
  QStringList said;
  for (int row = 0; answer && row < static_cast<int>(answer->tornado.size()); ++row) {
    const TornadoRow& r = answer->tornado[static_cast<std::size_t>(row)];
    for (const Winner& winner : {r.low, r.high}) {
      if (winner.strategy >= 0) {
        reach_ = std::max(reach_, std::fabs(std::log(winner.rate / answer->base())));
      }
    }
    said << row_text(row);
  }
  setAccessibleDescription(said.join(". "));
  setMinimumHeight(minimumSizeHint().height());
  update();
}

QSize Tornado::minimumSizeHint() const {
  return {380, kTop + kKnobCount * kRowHeight};
}

double Tornado::middle() const {
  return kTitle + 0.5 * (width() - kTitle);
}

// Where nothing wins there is no bar.
double Tornado::place_of(const Winner& winner) const {
  const double half = 0.5 * (width() - kTitle) - kMargin;
  return winner.strategy < 0 ? middle()
                             : middle() + half * std::log(winner.rate / answer_->base()) / reach_;
}

QRectF Tornado::row_rect(int row) const {
  return {0.0, static_cast<double>(kTop + row * kRowHeight), static_cast<double>(width()),
          static_cast<double>(kRowHeight)};
}

QRectF Tornado::barRect(int row) const {
  if (!answer_ || row < 0 || row >= static_cast<int>(answer_->tornado.size())) {
    return {};
  }
  const TornadoRow& r = answer_->tornado[static_cast<std::size_t>(row)];
  const double low = place_of(r.low);
  const double high = place_of(r.high);
  return {std::min(low, high), row_rect(row).top() + 6.0, std::fabs(high - low),
          static_cast<double>(kBarHeight)};
}

QString Tornado::row_text(int row) const {
  const TornadoRow& r = answer_->tornado[static_cast<std::size_t>(row)];
  const auto end = [&](const Winner& winner, double value) {
    return winner.strategy < 0
               ? knob_text(r.knob, value) + ": " + no_winner_text(*answer_)
               : tr("%1: %2 of this machine's tokens/s, %3")
                     .arg(knob_text(r.knob, value), gain_text(winner.rate / answer_->base()),
                          QString::fromStdString(
                              answer_->strategies[static_cast<std::size_t>(winner.strategy)]
                                  .text()));
  };
  const auto is_still = [&](const Winner& winner) {
    return std::fabs(winner.rate / answer_->base() - 1.0) < kStill;
  };
  return name_of(r.knob) + ". " + end(r.low, r.low_value) + ". " + end(r.high, r.high_value) +
         (is_still(r.low) && is_still(r.high)
              ? tr(". It changes nothing: no launch of these steps is bound by it")
              : QString());
}

QList<QStringList> Tornado::savedRows() const {
  if (!answer_) {
    return {};
  }
  QList<QStringList> rows = {{tr("Knob"), tr("Half"), tr("Twice"), tr("Unit"),
                              tr("Tokens a second at half"), tr("Winner at half"),
                              tr("Tokens a second at twice"), tr("Winner at twice")}};
  const auto name = [this](const Winner& winner) {
    return winner.strategy < 0
               ? QString()
               : QString::fromStdString(
                     answer_->strategies[static_cast<std::size_t>(winner.strategy)].text());
  };
  for (const TornadoRow& row : answer_->tornado) {
    rows << QStringList{name_of(row.knob),
                        QString::number(row.low_value),
                        QString::number(row.high_value),
                        unit_of(row.knob),
                        QString::number(row.low.rate),
                        name(row.low),
                        QString::number(row.high.rate),
                        name(row.high)};
  }
  return rows;
}

// Its part of the bar, its figure beside it and its value below. Two ends on one side of the middle
// have their figures on either.
void Tornado::draw_end(QPainter& painter, int row, const Winner& winner, double value,
                       bool is_left) const {
  const theme::Colors& colors = theme::colors();
  const TornadoRow& r = answer_->tornado[static_cast<std::size_t>(row)];
  const QRectF bar = barRect(row);
  const double middle = this->middle();
  const double at = place_of(winner);
  const bool changes = winner.strategy != answer_->own.strategy;
  painter.setPen(Qt::NoPen);
  painter.setBrush(theme::category(winner.strategy));
  painter.drawRect(QRectF(QPointF(std::min(at, middle), bar.top()),
                          QPointF(std::max(at, middle), bar.bottom())));
  QFont small = font();
  small.setPixelSize(theme::kSmallPixels);
  painter.setFont(small);
  painter.setPen(changes ? colors.ink : colors.quiet_ink);
  const double beside = is_left ? std::min(at, middle) - kMargin - 4 : std::max(at, middle) + 4;
  painter.drawText(QRectF(beside, bar.top(), kMargin, kBarHeight),
                   (is_left ? Qt::AlignRight : Qt::AlignLeft) | Qt::AlignVCenter,
                   winner.strategy < 0 ? tr("none") : gain_text(winner.rate / answer_->base()));
  painter.setPen(colors.quiet_ink);
  const double room = is_left ? middle - 4 : width() - middle - 8;
  const QString end = knob_text(r.knob, value) +
                      (changes && winner.strategy >= 0 ? tr(", another wins") : QString());
  painter.drawText(QRectF(is_left ? 0 : middle + 4, bar.bottom() + 2, room, 15),
                   (is_left ? Qt::AlignRight : Qt::AlignLeft) | Qt::AlignVCenter,
                   painter.fontMetrics().elidedText(end, Qt::ElideRight, static_cast<int>(room)));
}

void Tornado::paintEvent(QPaintEvent*) {
  QPainter painter(this);
  painter.setRenderHint(QPainter::Antialiasing);
  if (!answer_) {
    return;
  }
  const theme::Colors& colors = theme::colors();
  const double middle = this->middle();
  painter.setPen(colors.quiet_ink);
  painter.drawText(QRectF(0, 0, width(), kTop), Qt::AlignLeft | Qt::AlignVCenter,
                   tr("Half and twice of each knob alone"));
  for (int row = 0; row < static_cast<int>(answer_->tornado.size()); ++row) {
    const TornadoRow& r = answer_->tornado[static_cast<std::size_t>(row)];
    const QRectF bar = barRect(row);
    const QRectF line = row_rect(row);
    painter.setFont(font());
    painter.setPen(colors.ink);
    painter.drawText(QRectF(0, bar.top() - 3, kTitle, kBarHeight + 6),
                     Qt::AlignLeft | Qt::AlignVCenter, name_of(r.knob));
    const bool low_is_left = r.low.rate <= r.high.rate;
    draw_end(painter, row, low_is_left ? r.low : r.high, low_is_left ? r.low_value : r.high_value,
             true);
    draw_end(painter, row, low_is_left ? r.high : r.low, low_is_left ? r.high_value : r.low_value,
             false);
    painter.setPen(QPen(colors.ink, 1.2));
    painter.drawLine(QPointF(middle, line.top() + 2), QPointF(middle, bar.bottom() + 2));
  }
}

bool Tornado::event(QEvent* event) {
  if (event->type() != QEvent::ToolTip) {
    return QWidget::event(event);
  }
  const QHelpEvent& help = *static_cast<QHelpEvent*>(event);
  const int row = (help.pos().y() - kTop) / kRowHeight;
  const bool is_row =
      answer_ && help.pos().y() >= kTop && row < static_cast<int>(answer_->tornado.size());
  QToolTip::showText(help.globalPos(), is_row ? row_text(row).replace(". ", "\n") : QString(),
                     this);
  return true;
}

}  // namespace versieve::gui
