#include "gui/views/winner_map.h"

#include <QKeyEvent>
#include <QMouseEvent>
#include <QPainter>
#include <algorithm>
#include <cmath>
#include <utility>

#include "gui/models/plain_words.h"
#include "gui/views/theme.h"

namespace versieve::gui {
namespace {

constexpr int kLeft = 84, kTop = 22, kRight = 16, kBottom = 42;
constexpr int kLegendRow = 17;
constexpr int kMostNamed = theme::kCategoryCount;  // the others share a colour
constexpr int kTicks = 5;
constexpr double kMarkRadius = 4.0;

constexpr double kNamePadding = 6.0, kNameHeight = 16.0;

// Where the name beside a mark may stand, the best first: right, left, above, below, then right and
// left shifted up and down.
std::vector<QRectF> places_of_name(const QPointF& mark, double width) {
  constexpr double kGap = 7.0;
  const double x = mark.x(), middle = mark.y() - kNameHeight / 2;
  const double right = x + kGap, left = x - kGap - width, centre = x - width / 2;
  std::vector<QRectF> out;
  const auto add = [&](double at_x, double at_y) {
    out.emplace_back(at_x, at_y, width, kNameHeight);
  };
  add(right, middle);
  add(left, middle);
  add(centre, mark.y() - kGap - kNameHeight);
  add(centre, mark.y() + kGap);
  for (const double shift : {4.0, 8.0, 12.0}) {
    for (const double at_x : {right, left}) {
      add(at_x, middle + shift);
      add(at_x, middle - shift);
    }
  }
  return out;
}

}  // namespace

WinnerMap::WinnerMap(QWidget* parent) : QWidget(parent) {
  setAccessibleName(tr("Winner over two knobs"));
  setFocusPolicy(Qt::StrongFocus);
  setMouseTracking(true);
}

void WinnerMap::show_answer(const SensitivityPtr& answer) {
  answer_ = answer;
  update();
  if (answer_) {
    if (std::exchange(asked_, std::pair(answer_->question.x, answer_->question.y)) !=
        std::pair(answer_->question.x, answer_->question.y)) {
      column_ = own_place(answer_->question.x, answer_->situation);
      row_ = own_place(answer_->question.y, answer_->situation);
    }
    tell(column_, row_);
  }
}

int WinnerMap::legend_height() const {
  const int named =
      answer_ ? std::min<int>(static_cast<int>(answer_->strategies.size()), kMostNamed + 1) : 0;
  return kLegendRow * named + 6;
}

QRectF WinnerMap::area() const {
  return QRectF(rect().adjusted(kLeft, kTop, -kRight, -kBottom - legend_height()));
}

QRectF WinnerMap::cellRect(int column, int row) const {
  const QRectF in = area();
  const double width = in.width() / kMapSide;
  const double height = in.height() / kMapSide;
  return {in.left() + column * width, in.bottom() - (row + 1) * height, width, height};
}

double WinnerMap::along(double value, const std::vector<double>& values) {
  const double step = std::log(values.back() / values.front()) / (kMapSide - 1);
  return (std::log(value / values.front()) / step + 0.5) / kMapSide;
}

std::vector<WinnerMap::Mark> WinnerMap::marks() const {
  std::vector<Mark> out;
  if (!answer_) {
    return out;
  }
  const QRectF in = area();
  for (const HardwareSpec& machine : hardware_catalogue()) {
    Situation at = answer_->situation;
    at.machine = machine;
    const double x = along(value_of(answer_->question.x, at), answer_->x);
    const double y = along(value_of(answer_->question.y, at), answer_->y);
    if (x >= 0.0 && x <= 1.0 && y >= 0.0 && y <= 1.0) {
      out.push_back({QString::fromStdString(machine.key),
                     {in.left() + x * in.width(), in.bottom() - y * in.height()}});
    }
  }
  return out;
}

QStringList WinnerMap::machinesShown() const {
  QStringList keys;
  for (const Mark& mark : marks()) {
    keys << mark.key;
  }
  return keys;
}

void WinnerMap::tell(int column, int row) {
  column_ = std::clamp(column, 0, kMapSide - 1);
  row_ = std::clamp(row, 0, kMapSide - 1);
  const QString text = cell_text(*answer_, column_, row_);
  setAccessibleDescription(text);
  update();
  Q_EMIT cellTold(text);
}

void WinnerMap::tell_at(const QPointF& place) {
  const QRectF in = area();
  if (answer_ && in.contains(place)) {
    tell(static_cast<int>((place.x() - in.left()) / in.width() * kMapSide),
         static_cast<int>((in.bottom() - place.y()) / in.height() * kMapSide));
  }
}

void WinnerMap::mouseMoveEvent(QMouseEvent* event) {
  tell_at(event->position());
}

void WinnerMap::mousePressEvent(QMouseEvent* event) {
  tell_at(event->position());
}

void WinnerMap::keyPressEvent(QKeyEvent* event) {
  const bool is_arrow = event->key() == Qt::Key_Left || event->key() == Qt::Key_Right ||
                        event->key() == Qt::Key_Up || event->key() == Qt::Key_Down;
  if (!answer_ || !is_arrow) {
    QWidget::keyPressEvent(event);
    return;
  }
  tell(column_ + (event->key() == Qt::Key_Right) - (event->key() == Qt::Key_Left),
       row_ + (event->key() == Qt::Key_Up) - (event->key() == Qt::Key_Down));
}

QList<QStringList> WinnerMap::savedRows() const {
  if (!answer_) {
    return {};
  }
  const auto title = [](Knob knob) {
    return unit_of(knob).isEmpty() ? name_of(knob) : name_of(knob) + ", " + unit_of(knob);
  };
  QList<QStringList> rows = {{title(answer_->question.x), title(answer_->question.y), tr("Winner"),
                              tr("Tokens a second"), tr("90 % from"), tr("90 % to")}};
  for (std::size_t y = 0; y < answer_->y.size(); ++y) {
    for (std::size_t x = 0; x < answer_->x.size(); ++x) {
      const Winner& winner = answer_->at(static_cast<int>(x), static_cast<int>(y));
      const QString name =
          winner.strategy < 0
              ? QString()
              : QString::fromStdString(
                    answer_->strategies[static_cast<std::size_t>(winner.strategy)].text());
      rows << QStringList{QString::number(answer_->x[x]),
                          QString::number(answer_->y[y]),
                          name,
                          QString::number(winner.rate),
                          QString::number(winner.interval.low),
                          QString::number(winner.interval.high)};
    }
  }
  return rows;
}

void WinnerMap::paintEvent(QPaintEvent*) {
  QPainter painter(this);
  painter.setRenderHint(QPainter::Antialiasing);
  if (!answer_) {
    return;
  }
  draw_cells(painter);
  draw_axes(painter);
  draw_marks(painter);
  draw_legend(painter);
}

void WinnerMap::draw_cells(QPainter& painter) const {
  painter.setRenderHint(QPainter::Antialiasing, false);
  for (int row = 0; row < kMapSide; ++row) {
    for (int column = 0; column < kMapSide; ++column) {
      const int winner = answer_->at(column, row).strategy;
      painter.fillRect(cellRect(column, row).adjusted(0, 0, 1, 1),
                       winner < 0 ? theme::colors().page : theme::category(winner));
    }
  }
  painter.setRenderHint(QPainter::Antialiasing);
  painter.setPen(QPen(theme::colors().panel, 1.6));
  for (int row = 0; row < kMapSide; ++row) {
    for (int column = 0; column < kMapSide; ++column) {
      const QRectF cell = cellRect(column, row);
      const int winner = answer_->at(column, row).strategy;
      if (column > 0 && answer_->at(column - 1, row).strategy != winner) {
        painter.drawLine(cell.topLeft(), cell.bottomLeft());
      }
      if (row > 0 && answer_->at(column, row - 1).strategy != winner) {
        painter.drawLine(cell.bottomLeft(), cell.bottomRight());
      }
    }
  }
  painter.setBrush(Qt::NoBrush);
  painter.setPen(QPen(theme::colors().ink, hasFocus() ? 2.4 : 1.4));
  painter.drawRect(cellRect(column_, row_));
}

void WinnerMap::draw_axes(QPainter& painter) const {
  const QRectF in = area();
  QFont small = font();
  small.setPixelSize(theme::kSmallPixels);
  painter.setFont(small);
  painter.setPen(theme::colors().quiet_ink);
  const auto number = [](Knob knob, double value) {
    return knob_text(knob, value).remove(" " + unit_of(knob));
  };
  for (int i = 0; i < kTicks; ++i) {
    const int place = i * (kMapSide - 1) / (kTicks - 1);
    const std::size_t at = static_cast<std::size_t>(place);
    const QPointF x = cellRect(place, 0).center();
    const QPointF y = cellRect(0, place).center();
    painter.drawText(QRectF(x.x() - 40, in.bottom() + 3, 80, 15), Qt::AlignHCenter,
                     number(answer_->question.x, answer_->x[at]));
    painter.drawText(QRectF(0, y.y() - 8, kLeft - 8, 16), Qt::AlignRight | Qt::AlignVCenter,
                     number(answer_->question.y, answer_->y[at]));
  }
  const auto title = [](Knob knob) {
    return unit_of(knob).isEmpty() ? name_of(knob) : name_of(knob) + ", " + unit_of(knob);
  };
  painter.setFont(font());
  painter.setPen(theme::colors().ink);
  painter.drawText(QRectF(in.left(), in.bottom() + 20, in.width(), 18), Qt::AlignCenter,
                   title(answer_->question.x));
  painter.drawText(QRectF(4, 0, width() - 8, kTop), Qt::AlignLeft | Qt::AlignVCenter,
                   title(answer_->question.y));
}

// A name that would lie over another, or leave the map, is left to the tool tip of the eye: the
// mark stays.
void WinnerMap::draw_marks(QPainter& painter) const {
  QFont small = font();
  small.setPixelSize(theme::kSmallPixels);
  painter.setFont(small);
  const QFontMetrics metrics(small);
  std::vector<QRectF> taken;
  const std::vector<Mark> all = marks();
  for (const Mark& mark : all) {
    painter.setPen(QPen(theme::colors().panel, 1.4));
    painter.setBrush(theme::colors().ink);
    painter.drawEllipse(mark.place, kMarkRadius, kMarkRadius);
    const QPointF reach(kMarkRadius, kMarkRadius);
    taken.emplace_back(mark.place - reach, mark.place + reach);
  }
  for (const Mark& mark : all) {
    for (const QRectF& box :
         places_of_name(mark.place, metrics.horizontalAdvance(mark.key) + kNamePadding)) {
      const bool is_free = area().contains(box) &&
                           std::none_of(taken.begin(), taken.end(),
                                        [&](const QRectF& other) { return other.intersects(box); });
      if (!is_free) {
        continue;
      }
      QColor back = theme::colors().panel;
      back.setAlphaF(0.8F);
      painter.setPen(Qt::NoPen);
      painter.setBrush(back);
      painter.drawRoundedRect(box, 2, 2);
      painter.setPen(theme::colors().ink);
      painter.drawText(box, Qt::AlignCenter, mark.key);
      taken.push_back(box);
      break;
    }
  }
}

void WinnerMap::draw_legend(QPainter& painter) const {
  QFont small = font();
  small.setPixelSize(theme::kSmallPixels);
  painter.setFont(small);
  double top = height() - legend_height() + 2.0;
  const int count = static_cast<int>(answer_->strategies.size());
  for (int i = 0; i < std::min(count, kMostNamed + 1); ++i) {
    painter.fillRect(QRectF(kLeft, top + 3, 10, 10), theme::category(i));
    painter.setPen(theme::colors().ink);
    const QString name =
        compact(QString::fromStdString(answer_->strategies[static_cast<std::size_t>(i)].text()));
    painter.drawText(
        QRectF(kLeft + 16, top, width() - kLeft - 20, kLegendRow), Qt::AlignVCenter,
        i < kMostNamed
            ? name + (i == answer_->own.strategy ? tr("  – on the machine itself") : QString())
            : tr("%1 others").arg(count - kMostNamed));
    top += kLegendRow;
  }
}

}  // namespace versieve::gui
