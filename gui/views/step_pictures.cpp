#include "gui/views/step_pictures.h"

#include <QKeyEvent>
#include <QMouseEvent>
#include <QPainter>
#include <algorithm>
#include <cmath>
#include <numeric>

#include "gui/models/numbers.h"
#include "gui/views/contrast.h"
#include "gui/views/theme.h"

namespace versieve::gui {
namespace {

constexpr double kReach = 9.0;     // of the pointer around a mark
constexpr double kTitleRoom = 24;  // above a picture
constexpr double kLegendRow = 15;
constexpr double kRoofGap = 4;  // beside a roof, to its name

void write_small(QPainter& painter) {
  QFont small = painter.font();
  small.setPixelSize(theme::kSmallPixels);
  painter.setFont(small);
}

// The first of the texts that fits, the longest first; the last is cut where it does not.
QString fitting(const QFontMetrics& metrics, const QStringList& texts, double width) {
  for (const QString& text : texts) {
    if (metrics.horizontalAdvance(text) <= width) {
      return text;
    }
  }
  return metrics.elidedText(texts.back(), Qt::ElideRight, static_cast<int>(width));
}

}  // namespace

void StepPicture::draw_title(QPainter& painter, const QStringList& texts) const {
  painter.setFont(font());
  painter.setPen(theme::colors().ink);
  painter.drawText(QRectF(8, 2, width() - 12, kTitleRoom - 4), Qt::AlignVCenter,
                   fitting(painter.fontMetrics(), texts, width() - 14));
  write_small(painter);
}

void StepPicture::draw_axis_title(QPainter& painter, double top, const QStringList& texts) const {
  painter.setPen(theme::colors().ink);
  painter.drawText(QRectF(4, top, width() - 8, 16), Qt::AlignCenter,
                   fitting(painter.fontMetrics(), texts, width() - 10));
}

StepPicture::StepPicture(const QString& name, QWidget* parent) : QWidget(parent) {
  setAccessibleName(name);
  setFocusPolicy(Qt::StrongFocus);
  setMouseTracking(true);
}

void StepPicture::show_view(const StepViewPtr& view) {
  view_ = view;
  told_ = -1;
  update();
}

void StepPicture::tell(int launch) {
  if (view_ && launch >= 0) {
    told_ = launch;
    setAccessibleDescription(
        launch_text(view_->first->launches[static_cast<std::size_t>(launch)], view_->roofs));
    update();
  }
}

QList<QStringList> StepPicture::savedRows() const {
  if (!view_) {
    return {};
  }
  QList<QStringList> rows = {{tr("Step"), tr("Kind of launch"), tr("Launches"), tr("Time, us"),
                              tr("Flops"), tr("DRAM bytes, counted"), tr("L2 bytes, counted"),
                              tr("DRAM bytes, each once")}};
  for (std::size_t term = 0; term < kTrafficTermCount; ++term) {
    rows.first() << tr("%1, bytes").arg(name_of(static_cast<TrafficTerm>(term)));
  }
  const auto text = [](const std::optional<double>& value) {
    return value ? QString::number(*value) : QString();
  };
  for (const std::optional<MeasuredStep>* step : {&view_->first, &view_->second}) {
    if (!*step) {
      continue;
    }
    for (const StepLaunch& launch : (*step)->launches) {
      QStringList row = {step_title((*step)->key),
                         launch.name,
                         QString::number(launch.launches),
                         text(launch.us),
                         QString::number(launch.flops),
                         text(launch.dram_bytes),
                         text(launch.l2_bytes),
                         QString::number(launch.floor_bytes)};
      for (const double bytes : launch.term_bytes) {
        row << QString::number(bytes);
      }
      rows << row;
    }
  }
  return rows;
}

void StepPicture::paintEvent(QPaintEvent*) {
  QPainter painter(this);
  painter.fillRect(rect(), theme::colors().panel);
  painter.setRenderHint(QPainter::Antialiasing);
  if (view_) {
    draw(painter);
  }
  if (hasFocus()) {
    painter.setPen(QPen(theme::colors().accent, 1.6));
    painter.setBrush(Qt::NoBrush);
    painter.drawRect(rect().adjusted(1, 1, -1, -1));
  }
}

void StepPicture::mouseMoveEvent(QMouseEvent* event) {
  const int launch = view_ ? launch_at(event->position()) : -1;
  if (launch >= 0 && launch != told_) {
    Q_EMIT launchTold(launch);
  }
}

void StepPicture::mousePressEvent(QMouseEvent* event) {
  mouseMoveEvent(event);
}

void StepPicture::keyPressEvent(QKeyEvent* event) {
  const int step = (event->key() == Qt::Key_Right) - (event->key() == Qt::Key_Left);
  if (!view_ || step == 0) {
    QWidget::keyPressEvent(event);
    return;
  }
  const int count = static_cast<int>(view_->first->launches.size());
  Q_EMIT launchTold(std::clamp(told_ + step, 0, count - 1));
}

// --- launches along time

namespace {

constexpr double kRowTop = 44, kRowHeight = 26, kRowStride = 46;
constexpr double kSide = 10;

}  // namespace

StepTimeline::StepTimeline(QWidget* parent) : StepPicture(tr("Launches along time"), parent) {}

const MeasuredStep* StepTimeline::step(int row) const {
  const std::optional<MeasuredStep>& step = row == 0 ? view_->first : view_->second;
  return step ? &*step : nullptr;
}

double StepTimeline::longest_us() const {
  double longest = 1.0;
  for (const int row : {0, 1}) {
    if (const MeasuredStep* s = step(row)) {
      longest = std::max({longest, s->us.value_or(0.0), s->launches_us()});
    }
  }
  return longest;
}

QRectF StepTimeline::barOf(int row, int launch) const {
  const MeasuredStep& s = *step(row);
  double before = 0.0;
  for (int i = 0; i < launch; ++i) {
    before += s.launches[static_cast<std::size_t>(i)].us.value_or(0.0);
  }
  const double scale = (width() - 2.0 * kSide) / longest_us();
  return {kSide + before * scale, kRowTop + row * kRowStride,
          s.launches[static_cast<std::size_t>(launch)].us.value_or(0.0) * scale, kRowHeight};
}

int StepTimeline::launch_at(const QPointF& place) const {
  for (int i = 0; i < static_cast<int>(view_->first->launches.size()); ++i) {
    if (barOf(0, i).contains(place)) {
      return i;
    }
  }
  return -1;
}

// A kind of launch has one colour in both rows.
int StepTimeline::color_of(const QString& name) const {
  QStringList names;
  for (const int row : {0, 1}) {
    if (const MeasuredStep* s = step(row)) {
      for (const StepLaunch& launch : s->launches) {
        if (!names.contains(launch.name)) {
          names << launch.name;
        }
      }
    }
  }
  return static_cast<int>(names.indexOf(name)) % theme::kCategoryCount;
}

void StepTimeline::draw_row(QPainter& painter, int row) const {
  const MeasuredStep& s = *step(row);
  const double scale = (width() - 2.0 * kSide) / longest_us();
  const double top = kRowTop + row * kRowStride;
  if (s.us) {
    painter.setPen(QPen(theme::colors().line, 1));
    painter.setBrush(theme::colors().page);
    painter.drawRect(QRectF(kSide, top, *s.us * scale, kRowHeight));
  }
  painter.setPen(theme::colors().quiet_ink);
  painter.drawText(QRectF(kSide, top - 17, width() - 2 * kSide, 16), Qt::AlignVCenter,
                   step_title(s.key) + (s.us ? "   " + nanoseconds(1e3 * *s.us) : QString()));
  for (int i = 0; i < static_cast<int>(s.launches.size()); ++i) {
    const QRectF bar = barOf(row, i);
    painter.setPen(QPen(theme::colors().panel, 0.8));
    const QString& name = s.launches[static_cast<std::size_t>(i)].name;
    painter.setBrush(theme::category(color_of(name)));
    painter.drawRect(bar);
    if (painter.fontMetrics().horizontalAdvance(name) + 6 < bar.width()) {
      painter.setPen(theme::ink_on(painter.brush().color()));
      painter.drawText(bar, Qt::AlignCenter, name);
    }
    if (row == 0 && i == told_) {
      painter.setPen(QPen(theme::colors().ink, 2));
      painter.setBrush(Qt::NoBrush);
      painter.drawRect(bar.adjusted(0, -2, 0, 2));
    }
  }
  const double end = kSide + s.launches_us() * scale;
  const double idle = s.us ? (*s.us - s.launches_us()) * scale : 0.0;
  const QString between = tr("between launches");
  if (painter.fontMetrics().horizontalAdvance(between) + 6 < idle) {
    painter.setPen(theme::colors().quiet_ink);
    painter.drawText(QRectF(end, top, idle, kRowHeight), Qt::AlignCenter, between);
  }
}

void StepTimeline::draw(QPainter& painter) {
  draw_title(painter,
             {view_->first->is_counted_time
                  ? tr("Launches, timed one by one under the counters; those of a kind together")
                  : tr("Launches by kind in the step's order (no trace of single ones is stored)"),
              tr("Launches by kind")});
  draw_row(painter, 0);
  if (view_->second) {
    draw_row(painter, 1);
  }
}

// --- under the roofs

Roofline::Roofline(QWidget* parent) : StepPicture(tr("Roofline"), parent) {}

QRectF Roofline::area() const {
  return QRectF(rect().adjusted(58, 28, -12, -38));
}

QPointF Roofline::place(double intensity, double rate) const {
  const QRectF in = area();
  return {in.left() + intensity_.place(intensity) * in.width(),
          in.bottom() - rate_.place(rate) * in.height()};
}

QPointF Roofline::placeOf(int launch) const {
  const StepLaunch& l = view_->first->launches[static_cast<std::size_t>(launch)];
  if (!l.us || *l.us <= 0.0 || !l.intensity()) {
    return {};
  }
  return place(*l.intensity(), 1e6 * l.flops / *l.us);
}

void Roofline::set_axes() {
  std::vector<double> intensities;
  std::vector<double> rates;
  for (const StepLaunch& l : view_->first->launches) {
    if (l.us && *l.us > 0.0 && l.intensity()) {
      intensities.push_back(*l.intensity());
      rates.push_back(1e6 * l.flops / *l.us);
    }
  }
  const MachineRoofs& roofs = view_->roofs;
  if (roofs.tensor) {
    rates.push_back(1.3 * *roofs.tensor);
  }
  if (roofs.tensor && roofs.dram) {
    intensities.push_back(3.0 * *roofs.tensor / *roofs.dram);
  }
  intensity_ = Axis::around(intensities, true, false);
  rate_ = Axis::around(rates, true, false);
}

int Roofline::launch_at(const QPointF& at) const {
  for (int i = 0; i < static_cast<int>(view_->first->launches.size()); ++i) {
    const QPointF away = placeOf(i) - at;
    if (!placeOf(i).isNull() && std::hypot(away.x(), away.y()) < kReach) {
      return i;
    }
  }
  return -1;
}

void Roofline::draw_roofs(QPainter& painter) const {
  const MachineRoofs& roofs = view_->roofs;
  const double low = intensity_.value_at(0.0);
  const double high = intensity_.value_at(1.0);
  const double top = roofs.tensor.value_or(rate_.value_at(1.0));
  const auto slope = [&](const std::optional<double>& bandwidth, const QString& name,
                         Qt::PenStyle style) {
    if (!bandwidth) {
      return;
    }
    const double corner = std::clamp(top / *bandwidth, low, high);
    painter.setPen(QPen(theme::colors().ink, 1.3, style));
    painter.drawLine(place(low, low * *bandwidth), place(corner, corner * *bandwidth));
    painter.setPen(theme::colors().quiet_ink);
    const bool is_below = style == Qt::SolidLine;  // so that the two names keep apart
    const double at = std::sqrt(low * corner);
    const QPointF on_line = place(at, at * *bandwidth);
    const QString text = name + tr(" %1 TB/s").arg(fixed(*bandwidth / 1e12, 2));
    const double wide = painter.fontMetrics().horizontalAdvance(text) + 2.0;
    // Beside the line's upper left or lower right: it rises, and neither it nor the other is
    // crossed.
    painter.drawText(QRectF(is_below ? on_line.x() + kRoofGap : on_line.x() - kRoofGap - wide,
                            is_below ? on_line.y() + 2 : on_line.y() - 17, wide, 15),
                     Qt::AlignCenter, text);
  };
  slope(roofs.dram, tr("DRAM"), Qt::SolidLine);
  slope(roofs.l2, tr("L2"), Qt::DashLine);
  if (roofs.tensor) {
    painter.setPen(QPen(theme::colors().ink, 1.3));
    const double from = roofs.dram ? std::clamp(top / *roofs.dram, low, high) : low;
    const double begin = roofs.l2 ? std::min(from, std::clamp(top / *roofs.l2, low, high)) : from;
    painter.drawLine(place(begin, top), place(high, top));
    painter.setPen(theme::colors().quiet_ink);
    const QPointF end = place(high, top);
    painter.drawText(QRectF(end.x() - 190, end.y() - 17, 188, 15), Qt::AlignRight,
                     tr("matrix products %1 Tflop/s").arg(fixed(top / 1e12, 0)));
  }
}

void Roofline::draw(QPainter& painter) {
  set_axes();
  draw_title(painter,
             {tr("Roofline, rates measured on %1").arg(view_->roofs.machine), tr("Roofline")});
  const QRectF in = area();
  for (const Tick& tick : rate_.ticks(5)) {
    const double y = in.bottom() - rate_.place(tick.value) * in.height();
    painter.setPen(theme::colors().grid);
    painter.drawLine(QPointF(in.left(), y), QPointF(in.right(), y));
    painter.setPen(theme::colors().quiet_ink);
    painter.drawText(QRectF(0, y - 8, in.left() - 6, 16), Qt::AlignRight | Qt::AlignVCenter,
                     QString::number(tick.value / 1e12, 'g', 4));
  }
  for (const Tick& tick : intensity_.ticks(5)) {
    const double x = in.left() + intensity_.place(tick.value) * in.width();
    painter.setPen(theme::colors().grid);
    painter.drawLine(QPointF(x, in.top()), QPointF(x, in.bottom()));
    painter.setPen(theme::colors().quiet_ink);
    const double wide = painter.fontMetrics().horizontalAdvance(tick.text) + 2.0;
    painter.drawText(QRectF(std::min(x - wide / 2, width() - wide), in.bottom() + 2, wide, 15),
                     Qt::AlignHCenter, tick.text);
  }
  draw_axis_title(
      painter, in.bottom() + 18,
      {tr("flop a DRAM byte (hollow: not counted, of the floor); upwards Tflop/s"),
       tr("flop a DRAM byte, hollow: of the floor; Tflop/s"), tr("flop a DRAM byte; Tflop/s")});
  painter.save();
  painter.setClipRect(in.adjusted(-1, -18, 1, 1));
  draw_roofs(painter);
  painter.restore();
  draw_marks(painter);
  draw_names(painter);
}

// --- bytes by term

TermBars::TermBars(QWidget* parent) : StepPicture(tr("Bytes by term"), parent) {}

double TermBars::row_height() const {
  const double room = height() - kTitleRoom - 4.0 * kLegendRow;
  const double rows = static_cast<double>(std::max<std::size_t>(view_->first->launches.size(), 1));
  return std::clamp(room / rows, 14.0, 40.0);
}

int TermBars::launch_at(const QPointF& place) const {
  const int row = static_cast<int>((place.y() - kTitleRoom) / row_height());
  return place.y() >= kTitleRoom && row < static_cast<int>(view_->first->launches.size()) ? row
                                                                                          : -1;
}

void TermBars::draw(QPainter& painter) {
  draw_title(painter, {tr("DRAM bytes: floor by term (coloured), counted (line)"),
                       tr("DRAM bytes: floor, counted (line)"), tr("DRAM bytes")});
  const MeasuredStep& step = *view_->first;
  std::array<double, kTrafficTermCount> total{};
  double most = 1.0;
  for (const StepLaunch& l : step.launches) {
    most = std::max({most, l.floor_bytes, l.dram_bytes.value_or(0.0)});
    for (std::size_t t = 0; t < kTrafficTermCount; ++t) {
      total[t] += l.term_bytes[t];
    }
  }
  std::vector<std::size_t> terms(kTrafficTermCount);
  std::iota(terms.begin(), terms.end(), 0U);
  std::stable_sort(terms.begin(), terms.end(),
                   [&](std::size_t a, std::size_t b) { return total[a] > total[b]; });
  const double left = 96;
  const double scale = (width() - left - 104.0) / most;
  double y = kTitleRoom;
  for (int i = 0; i < static_cast<int>(step.launches.size()); ++i) {
    const StepLaunch& l = step.launches[static_cast<std::size_t>(i)];
    const double h = row_height();
    painter.setPen(i == told_ ? theme::colors().accent : theme::colors().ink);
    painter.drawText(
        QRectF(6, y, left - 10, h), Qt::AlignVCenter,
        painter.fontMetrics().elidedText(l.name, Qt::ElideRight, static_cast<int>(left) - 12));
    double x = left;
    for (std::size_t place = 0; place < terms.size(); ++place) {
      const double w = l.term_bytes[terms[place]] * scale;
      painter.fillRect(QRectF(x, y + 2, w, h * 0.55), theme::category(static_cast<int>(place)));
      x += w;
    }
    if (l.dram_bytes) {
      painter.fillRect(QRectF(left, y + 3 + h * 0.55, *l.dram_bytes * scale, 3),
                       theme::colors().ink);
      x = std::max(x, left + *l.dram_bytes * scale);
    }
    painter.setPen(theme::colors().quiet_ink);
    const double ratio = l.dram_bytes && l.floor_bytes > 0.0 ? *l.dram_bytes / l.floor_bytes : NAN;
    painter.drawText(QRectF(x + 5, y, 110, h), Qt::AlignVCenter,
                     bytes(l.floor_bytes) + (std::isnan(ratio) ? QString()
                                             : l.floor_bytes >= kLeastJudgedBytes
                                                 ? QString::fromUtf8(" × ") + fixed(ratio, 2)
                                                 : QString()));
    y += h;
  }
  double x = 8;
  y = height() - 3.0 * kLegendRow - 2;
  for (std::size_t place = 0; place < terms.size(); ++place) {
    if (total[terms[place]] <= 0.0) {
      continue;
    }
    const QString name = QString(name_of(static_cast<TrafficTerm>(terms[place])));
    const double w = painter.fontMetrics().horizontalAdvance(name) + 24.0;
    if (x + w > width()) {
      x = 8;
      y += kLegendRow;
    }
    painter.fillRect(QRectF(x, y + 3, 9, 9), theme::category(static_cast<int>(place)));
    painter.setPen(theme::colors().ink);
    painter.drawText(QPointF(x + 13, y + 12), name);
    x += w;
  }
}

}  // namespace versieve::gui
