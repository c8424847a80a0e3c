#include "gui/views/trace_timeline.h"

#include <QPainter>
#include <algorithm>

#include "gui/models/numbers.h"
#include "gui/views/axis.h"
#include "gui/views/contrast.h"
#include "gui/views/theme.h"

namespace versieve::gui {
namespace {

constexpr double kTitleRoom = 22, kAxisRoom = 20;
constexpr double kGutter = 66, kSide = 10;  // left of the lanes, right of them
constexpr double kHeader = 16, kPhases = 17, kLane = 18, kGaps = 6, kPriced = 14, kBetween = 6;
constexpr double kWaits = 3;       // below a launch: while it waits for one before it

void write_small(QPainter& painter) {
  QFont small = painter.font();
  small.setPixelSize(theme::kSmallPixels);
  painter.setFont(small);
}

void draw_inside(QPainter& painter, const QRectF& bar, const QColor& ground, const QString& text) {
  if (painter.fontMetrics().horizontalAdvance(text) + 6 < bar.width()) {
    painter.setPen(theme::ink_on(ground));
    painter.drawText(bar, Qt::AlignCenter, text);
  }
}

}  // namespace

TraceTimeline::TraceTimeline(QWidget* parent) : QWidget(parent) {
  setAccessibleName(tr("Trace of the step"));
  setFocusPolicy(Qt::StrongFocus);
  setMouseTracking(true);
  setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Fixed);
}

void TraceTimeline::show_view(const StepViewPtr& view) {
  view_ = view;
  told_step_ = 0;
  told_ = -1;
  if (step(0) == nullptr && step(1) != nullptr) {
    told_step_ = 1;
  }
  setAccessibleDescription({});
  updateGeometry();
  fit();
}

void TraceTimeline::align(const QString& phase) {
  aligned_ = phase;
  fit();
}

const TracedLaunches* TraceTimeline::step(int step) const {
  if (!view_) {
    return nullptr;
  }
  const std::optional<TracedLaunches>& trace = step == 0 ? view_->first_trace : view_->second_trace;
  return trace ? &*trace : nullptr;
}

int TraceTimeline::steps() const {
  return (step(0) != nullptr) + (step(1) != nullptr);
}

double TraceTimeline::shift_us(int of) const {
  const TracedLaunches* first = step(0);
  const TracedLaunches* second = step(1);
  if (of == 0 || aligned_.isEmpty() || first == nullptr || second == nullptr ||
      first->phase(aligned_) < 0 || second->phase(aligned_) < 0) {
    return 0.0;
  }
  return 1e-3 * static_cast<double>(first->start_of(first->phase(aligned_)) -
                                    second->start_of(second->phase(aligned_)));
}

double TraceTimeline::x_of(double us) const {
  return kGutter + (us - from_us_) / (to_us_ - from_us_) * (width() - kGutter - kSide);
}

double TraceTimeline::us_at(double x) const {
  return from_us_ + (x - kGutter) / (width() - kGutter - kSide) * (to_us_ - from_us_);
}

double TraceTimeline::height_of(int of) const {
  const TracedLaunches* it = step(of);
  return it == nullptr ? 0.0 : kHeader + kPhases + kLane * it->lanes + kGaps + kPriced + kBetween;
}

double TraceTimeline::top_of(int of) const {
  return kTitleRoom + (of == 1 ? height_of(0) : 0.0);
}

double TraceTimeline::lanes_top(int of) const {
  return top_of(of) + kHeader + kPhases + 2;
}

QSize TraceTimeline::minimumSizeHint() const {
  const double height = kTitleRoom + height_of(0) + height_of(1) + kAxisRoom;
  return {300, static_cast<int>(height)};
}

QRectF TraceTimeline::bar(int of, double start_ns, double end_ns, double top, double height) const {
  const double from = x_of(shift_us(of) + 1e-3 * start_ns);
  const double to = x_of(shift_us(of) + 1e-3 * end_ns);
  return {from, top, std::max(to - from, 0.6), height};
}

// From where it has the GPU.
QRectF TraceTimeline::barOf(int of, int launch) const {
  const TracedLaunches& it = *step(of);
  const TracedLaunch& l = it.trace.launches[static_cast<std::size_t>(launch)];
  return bar(of, static_cast<double>(it.own_start_ns(launch)),
             static_cast<double>(l.start_ns + l.duration_ns),
             lanes_top(of) + kLane * it.lane_of[static_cast<std::size_t>(launch)],
             kLane - 2 - kWaits);
}

// From where it began to where it has the GPU.
QRectF TraceTimeline::wait_of(int of, int launch) const {
  const TracedLaunches& it = *step(of);
  const TracedLaunch& l = it.trace.launches[static_cast<std::size_t>(launch)];
  return bar(
      of, static_cast<double>(l.start_ns), static_cast<double>(it.own_start_ns(launch)),
      lanes_top(of) + kLane * it.lane_of[static_cast<std::size_t>(launch)] + kLane - 2 - kWaits,
      kWaits);
}

// A phase has one colour in both steps.
QColor TraceTimeline::color_of(const QString& phase) const {
  int index = 0;
  for (const int of : {0, 1}) {
    const TracedLaunches* it = step(of);
    if (it == nullptr) {
      continue;
    }
    for (const TracedPhase& candidate : it->phases) {
      if (of == 1 && step(0) != nullptr && step(0)->phase(candidate.name) >= 0) {
        continue;
      }
      if (candidate.name == phase) {
        return theme::category(index % theme::kCategoryCount);
      }
      ++index;
    }
  }
  return theme::colors().faint;
}

double TraceTimeline::longest_us() const {
  double longest = 1.0;
  for (const int of : {0, 1}) {
    if (const TracedLaunches* it = step(of)) {
      longest = std::max({longest, shift_us(of) + it->length_us, shift_us(of) + it->priced_us()});
    }
  }
  return longest;
}

void TraceTimeline::draw_names(QPainter& painter, int of) const {
  const TracedLaunches& it = *step(of);
  painter.setPen(theme::colors().quiet_ink);
  const auto name = [&](const QString& text, double top, double height) {
    painter.drawText(QRectF(2, top, kGutter - 8, height), Qt::AlignRight | Qt::AlignVCenter, text);
  };
  name(tr("NVTX"), top_of(of) + kHeader, kPhases);
  for (int lane = 0; lane < it.lanes; ++lane) {
    std::int64_t stream = 0;
    for (std::size_t i = 0; i < it.lane_of.size(); ++i) {
      stream = it.lane_of[i] == lane ? it.trace.launches[i].stream : stream;
    }
    name(tr("stream %1").arg(stream), lanes_top(of) + kLane * lane, kLane);
  }
  const double below = lanes_top(of) + kLane * it.lanes;
  name(tr("priced"), below + kGaps, kPriced);
  const MeasuredStep& measured = of == 0 ? *view_->first : *view_->second;
  painter.setPen(theme::colors().ink);
  const QString text = step_title(measured.key) + ": " + trace_text(it, measured.us);
  painter.drawText(QRectF(8, top_of(of), width() - 14, kHeader), Qt::AlignVCenter,
                   painter.fontMetrics().elidedText(text, Qt::ElideRight, width() - 16));
}

void TraceTimeline::draw_phases(QPainter& painter, int of) const {
  const TracedLaunches& it = *step(of);
  for (const PhaseSpan& span : it.spans) {
    const QString& name = it.phases[static_cast<std::size_t>(span.phase)].name;
    const QRectF at = bar(of, static_cast<double>(span.start_ns), static_cast<double>(span.end_ns),
                          top_of(of) + kHeader, kPhases - 1);
    const QColor color = color_of(name);
    painter.fillRect(at, color);
    draw_inside(painter, at, color, name);
  }
}

void TraceTimeline::draw_launches(QPainter& painter, int of) const {
  const TracedLaunches& it = *step(of);
  for (int i = 0; i < static_cast<int>(it.trace.launches.size()); ++i) {
    const std::size_t phase = static_cast<std::size_t>(it.phase_of[static_cast<std::size_t>(i)]);
    const QRectF at = barOf(of, i);
    const QColor color = color_of(it.phases[phase].name);
    painter.fillRect(at.width() > 3.0 ? at.adjusted(0, 0, -0.6, 0) : at, color);
    const std::string& kernel = it.trace.launches[static_cast<std::size_t>(i)].kernel;
    draw_inside(painter, at, color, QString::fromStdString(kernel.substr(0, kernel.find('<'))));
    if (it.own_start_ns(i) > it.trace.launches[static_cast<std::size_t>(i)].start_ns) {
      QColor pale = color;
      pale.setAlpha(110);
      painter.fillRect(wait_of(of, i), pale);
    }
  }
  const double below = lanes_top(of) + kLane * it.lanes;
  for (const Gap& gap : it.gaps) {
    painter.fillRect(bar(of, static_cast<double>(gap.start_ns), static_cast<double>(gap.end_ns),
                         below, kGaps - 2),
                     theme::colors().warning);
  }
}

// The phases' prices one behind another, in the step's order.
void TraceTimeline::draw_priced(QPainter& painter, int of) const {
  const TracedLaunches& it = *step(of);
  const double top = lanes_top(of) + kLane * it.lanes + kGaps;
  double from_ns = 0.0;
  for (const TracedPhase& phase : it.phases) {
    if (phase.priced_us && *phase.priced_us > 0.0) {
      const double to_ns = from_ns + 1e3 * *phase.priced_us;
      const QRectF at = bar(of, from_ns, to_ns, top, kPriced - 2);
      QColor color = color_of(phase.name);
      painter.setPen(QPen(color, 1));
      color.setAlpha(70);
      painter.setBrush(color);
      painter.drawRect(at.adjusted(0.5, 0.5, -0.5, -0.5));
      if (painter.fontMetrics().horizontalAdvance(phase.name) + 6 < at.width()) {
        painter.setPen(theme::colors().ink);
        painter.drawText(at, Qt::AlignCenter, phase.name);
      }
      from_ns = to_ns;
    }
  }
}

void TraceTimeline::draw_step(QPainter& painter, int of) const {
  draw_names(painter, of);
  painter.save();
  painter.setRenderHint(QPainter::Antialiasing, false);
  painter.setClipRect(QRectF(kGutter, top_of(of), width() - kGutter - kSide, height_of(of)));
  draw_phases(painter, of);
  draw_launches(painter, of);
  draw_priced(painter, of);
  if (told_step_ == of && told_ >= 0) {
    painter.setPen(QPen(theme::colors().ink, 2));
    painter.setBrush(Qt::NoBrush);
    painter.drawRect(barOf(of, told_).adjusted(-1, -1, 1, 1));
    painter.fillRect(wait_of(of, told_), theme::colors().ink);
  }
  painter.restore();
}

void TraceTimeline::draw_axis(QPainter& painter) const {
  const double bottom = kTitleRoom + height_of(0) + height_of(1);
  const Axis axis = Axis::between(from_us_, to_us_, false, false);
  for (const Tick& tick : axis.ticks(8)) {
    if (tick.value < from_us_ || tick.value > to_us_) {
      continue;
    }
    const double x = x_of(tick.value);
    painter.setPen(theme::colors().line);
    painter.drawLine(QPointF(x, bottom - 3), QPointF(x, bottom + 1));
    painter.setPen(theme::colors().quiet_ink);
    painter.drawText(QRectF(x - 40, bottom + 2, 80, 15), Qt::AlignHCenter, tick.text);
  }
  painter.setPen(theme::colors().quiet_ink);
  painter.drawText(QRectF(2, bottom + 2, kGutter - 8, 15), Qt::AlignRight, with_micro("us"));
}

void TraceTimeline::paintEvent(QPaintEvent*) {
  QPainter painter(this);
  painter.fillRect(rect(), theme::colors().panel);
  painter.setRenderHint(QPainter::Antialiasing);
  if (steps() == 0) {
    return;
  }
  painter.setPen(theme::colors().ink);
  const TracedLaunches& shown = *step(step(0) != nullptr ? 0 : 1);
  const QString how = shown.trace.replayed ? tr("One measured step, replayed from its graph")
                                           : tr("One measured step, led by the host");
  painter.drawText(QRectF(8, 2, width() - 12, kTitleRoom - 4), Qt::AlignVCenter,
                   painter.fontMetrics().elidedText(
                       how + tr(": NVTX ranges, launches, gaps and what their bytes alone need"),
                       Qt::ElideRight, width() - 14));
  write_small(painter);
  for (const int of : {0, 1}) {
    if (step(of) != nullptr) {
      draw_step(painter, of);
    }
  }
  draw_axis(painter);
  if (hasFocus()) {
    painter.setPen(QPen(theme::colors().accent, 1.6));
    painter.setBrush(Qt::NoBrush);
    painter.drawRect(rect().adjusted(1, 1, -1, -1));
  }
}

QList<QStringList> TraceTimeline::savedRows() const {
  QList<QStringList> rows = {{tr("Step"), tr("Launch"), tr("Kernel"), tr("Phase"), tr("Known by"),
                              tr("Start, us"), tr("Duration, us"), tr("Its own, us"), tr("Stream"),
                              tr("Blocks"), tr("Threads"), tr("Phase, us"),
                              tr("Phase priced, us")}};
  for (const int of : {0, 1}) {
    const TracedLaunches* it = step(of);
    for (std::size_t i = 0; it != nullptr && i < it->trace.launches.size(); ++i) {
      const TracedLaunch& launch = it->trace.launches[i];
      const TracedPhase& phase = it->phases[static_cast<std::size_t>(it->phase_of[i])];
      rows << QStringList{step_title((of == 0 ? *view_->first : *view_->second).key),
                          QString::number(i),
                          QString::fromStdString(launch.kernel),
                          phase.name,
                          QString(name_of(launch.evidence)),
                          QString::number(1e-3 * static_cast<double>(launch.start_ns), 'f', 3),
                          QString::number(1e-3 * static_cast<double>(launch.duration_ns), 'f', 3),
                          QString::number(it->own_us[i], 'f', 3),
                          QString::number(launch.stream),
                          QString::number(launch.blocks),
                          QString::number(launch.threads),
                          QString::number(phase.us, 'f', 3),
                          phase.priced_us ? QString::number(*phase.priced_us, 'f', 3) : QString()};
    }
  }
  return rows;
}

}  // namespace versieve::gui
