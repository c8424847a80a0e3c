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
    reach_ = std::max({reach_, std::fabs(std::log(r.low.rate / answer->own.rate)),
                       std::fabs(std::log(r.high.rate / answer->own.rate))});
    said << row_text(row);
  }
  setAccessibleDescription(said.join(". "));
  setMinimumHeight(minimumSizeHint().height());
  update();
}

QSize Tornado::minimumSizeHint() const {
  return {380, kTop + kKnobCount * kRowHeight};
}

double Tornado::place_of(double ratio) const {
  const double half = 0.5 * (width() - kTitle) - kMargin;
  return kTitle + 0.5 * (width() - kTitle) + half * std::log(ratio) / reach_;
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
  const double low = place_of(r.low.rate / answer_->own.rate);
  const double high = place_of(r.high.rate / answer_->own.rate);
  return {std::min(low, high), row_rect(row).top() + 6.0, std::fabs(high - low),
          static_cast<double>(kBarHeight)};
}

QString Tornado::row_text(int row) const {
  const TornadoRow& r = answer_->tornado[static_cast<std::size_t>(row)];
  const auto end = [&](const Winner& winner, double value) {
    return tr("%1: %2 of this machine's tokens/s, %3")
        .arg(knob_text(r.knob, value), gain_text(winner.rate / answer_->own.rate),
             QString::fromStdString(
                 answer_->strategies[static_cast<std::size_t>(winner.strategy)].text()));
  };
  return name_of(r.knob) + ". " + end(r.low, r.low_value) + ". " + end(r.high, r.high_value);
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

void Tornado::paintEvent(QPaintEvent*) {
  QPainter painter(this);
  painter.setRenderHint(QPainter::Antialiasing);
  if (!answer_) {
    return;
  }
  const theme::Colors& colors = theme::colors();
  QFont small = font();
  small.setPixelSize(theme::kSmallPixels);
  const double middle = place_of(1.0);
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
    for (const auto& [winner, value] :
         {std::pair{r.low, r.low_value}, std::pair{r.high, r.high_value}}) {
      const double at = place_of(winner.rate / answer_->own.rate);
      const bool is_left = at < middle;
      const bool changes = winner.strategy != answer_->own.strategy;
      painter.setPen(Qt::NoPen);
      painter.setBrush(theme::category(winner.strategy));
      painter.drawRect(QRectF(QPointF(std::min(at, middle), bar.top()),
                              QPointF(std::max(at, middle), bar.bottom())));
      painter.setFont(small);
      painter.setPen(changes ? colors.ink : colors.quiet_ink);
      const QRectF figure(is_left ? at - kMargin - 4 : at + 4, bar.top(), kMargin, kBarHeight);
      painter.drawText(figure, (is_left ? Qt::AlignRight : Qt::AlignLeft) | Qt::AlignVCenter,
                       gain_text(winner.rate / answer_->own.rate));
      painter.setPen(colors.quiet_ink);
      // Below its end of the bar.
      const bool is_low = (value == r.low_value) == (r.low.rate <= r.high.rate);
      const double room = is_low ? middle - 4 : width() - middle - 8;
      const QString end = knob_text(r.knob, value) + (changes ? tr(", another wins") : QString());
      painter.drawText(
          QRectF(is_low ? 0 : middle + 4, bar.bottom() + 2, room, 15),
          (is_low ? Qt::AlignRight : Qt::AlignLeft) | Qt::AlignVCenter,
          painter.fontMetrics().elidedText(end, Qt::ElideRight, static_cast<int>(room)));
    }
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
