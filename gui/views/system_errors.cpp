#include "gui/views/system_errors.h"

#include <QPainter>
#include <algorithm>
#include <cmath>

#include "gui/models/numbers.h"
#include "gui/models/plain_words.h"
#include "gui/views/theme.h"

namespace versieve::gui {
namespace {

constexpr int kTop = 58;
constexpr int kRowHeight = 27;
constexpr int kScaleHeight = 24;
constexpr int kNames = 252;
constexpr int kFigures = 104;
constexpr double kWidest = 0.6;  // larger errors end at the edge

const QColor& time_color() {
  return theme::colors().accent;
}

const QColor& bytes_color() {
  return theme::colors().warning;
}

QString figures(const engine::ErrorSummary& e) {
  if (!e.median_ape || !e.p90_ape) {
    return QString(QChar(kAbsent));
  }
  return fixed(100.0 * *e.median_ape, 1) + " / " + fixed(100.0 * *e.p90_ape, 1) + " %";
}

}  // namespace

SystemErrors::SystemErrors(QWidget* parent) : QWidget(parent) {
  setAccessibleName(tr("Errors of unseen points by system"));
  setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Fixed);
}

void SystemErrors::show_fit(const std::shared_ptr<const engine::FitReport>& fit) {
  rows_ = {{tr("NSA: attention and steps"), fit->latency, fit->dram_bytes}};
  for (const engine::SystemError& e : fit->systems) {
    rows_.push_back({fitted_in_words(e.name), e.latency, e.dram_bytes});
  }
  double widest = 0.1;
  for (const Row& row : rows_) {
    widest = std::max({widest, row.time.p90_ape.value_or(0.0), row.bytes.p90_ape.value_or(0.0)});
  }
  limit_ = std::min(kWidest, std::ceil(widest * 10.0) / 10.0);
  updateGeometry();
  update();
}

QSize SystemErrors::sizeHint() const {
  return {760, kTop + rowCount() * kRowHeight + kScaleHeight + 4};
}

double SystemErrors::x_of(double error) const {
  const double left = kNames;
  const double right = width() - kFigures - 8;
  return left + std::min(1.0, error / limit_) * (right - left);
}

QList<QStringList> SystemErrors::savedRows() const {
  QList<QStringList> rows = {{tr("System"), tr("Points with a time"), tr("Median error of time"),
                              tr("90 % stay under"), tr("Points with bytes"),
                              tr("Median error of DRAM bytes"), tr("90 % stay under")}};
  const auto text = [](const std::optional<double>& value) {
    return value ? QString::number(*value) : QString();
  };
  for (const Row& row : rows_) {
    rows << QStringList{row.name,
                        QString::number(row.time.points),
                        text(row.time.median_ape),
                        text(row.time.p90_ape),
                        QString::number(row.bytes.points),
                        text(row.bytes.median_ape),
                        text(row.bytes.p90_ape)};
  }
  return rows;
}

void SystemErrors::paintEvent(QPaintEvent*) {
  QPainter painter(this);
  painter.setRenderHint(QPainter::Antialiasing);
  painter.fillRect(rect(), theme::colors().panel);
  draw_legend(painter);
  draw_scale(painter);
  int top = kTop;
  for (const Row& row : rows_) {
    draw_row(painter, row, top);
    top += kRowHeight;
  }
}

void SystemErrors::draw_legend(QPainter& painter) const {
  painter.setPen(theme::colors().ink);
  painter.drawText(QRect(8, 6, width() - 16, 20), Qt::AlignVCenter,
                   rowCount() > 1 ? tr("By system: errors of points that the fit had not seen")
                                  : tr("By system: this database holds points of NSA alone"));
  QFont small = font();
  small.setPixelSize(theme::kSmallPixels);
  painter.setFont(small);
  double x = 8.0;
  for (const auto& [color, text] :
       {std::pair{time_color(), tr("time")}, std::pair{bytes_color(), tr("DRAM bytes")}}) {
    painter.setPen(Qt::NoPen);
    painter.setBrush(color);
    painter.drawEllipse(QPointF(x + 4, 39), 3.5, 3.5);
    painter.setPen(theme::colors().quiet_ink);
    painter.drawText(QPointF(x + 13, 43), text);
    x += 28 + QFontMetrics(small).horizontalAdvance(text);
  }
  painter.drawText(QRect(static_cast<int>(x), 30, width() - static_cast<int>(x) - 8, 18),
                   Qt::AlignVCenter | Qt::AlignRight,
                   tr("dot: median   bar's end: 90 % of points"));
}

void SystemErrors::draw_scale(QPainter& painter) const {
  constexpr double kLabel = 44.0;  // pixels that a label and its neighbour need
  const double step = 0.05 / limit_ * (x_of(limit_) - x_of(0.0)) > kLabel ? 0.05 : 0.1;
  const int bottom = kTop + rowCount() * kRowHeight;
  for (double error = 0.0; error <= limit_ + 1e-9; error += step) {
    const double x = x_of(error);
    painter.setPen(theme::colors().grid);
    painter.drawLine(QPointF(x, kTop), QPointF(x, bottom));
    painter.setPen(theme::colors().quiet_ink);
    painter.drawText(QRectF(x - 30, bottom + 3, 60, 16), Qt::AlignHCenter,
                     fixed(100.0 * error, 0) + " %");
  }
}

void SystemErrors::draw_row(QPainter& painter, const Row& row, int top) const {
  painter.setPen(theme::colors().ink);
  painter.drawText(
      QRect(8, top, kNames - 16, kRowHeight), Qt::AlignVCenter,
      painter.fontMetrics().elidedText(tr("%1 (%2 points)").arg(row.name).arg(row.time.points),
                                       Qt::ElideRight, kNames - 16));
  int line = 0;
  for (const auto& [error, color] :
       {std::pair{&row.time, time_color()}, std::pair{&row.bytes, bytes_color()}}) {
    const double y = top + 8.0 + 12.0 * line;
    painter.setPen(color);
    painter.drawText(QRectF(width() - kFigures, y - 7, kFigures - 6, 14),
                     Qt::AlignRight | Qt::AlignVCenter, figures(*error));
    if (error->median_ape && error->p90_ape) {
      QColor pale = color;
      pale.setAlphaF(0.5F);
      painter.setPen(QPen(pale, 3.0, Qt::SolidLine, Qt::RoundCap));
      painter.drawLine(QPointF(x_of(0.0), y), QPointF(x_of(*error->p90_ape), y));
      painter.setPen(Qt::NoPen);
      painter.setBrush(color);
      painter.drawEllipse(QPointF(x_of(*error->median_ape), y), 3.5, 3.5);
    }
    ++line;
  }
}

}  // namespace versieve::gui
