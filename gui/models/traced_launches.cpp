#include "gui/models/traced_launches.h"

#include <QStringList>
#include <algorithm>
#include <cmath>
#include <numeric>

#include "engine/measure/sweep/own_times.h"
#include "gui/models/numbers.h"

namespace versieve::gui {
namespace {

QString phase_name(const TracedLaunch& launch) {
  return launch.range.empty() ? QString("outside every range")
                              : QString::fromStdString(launch.range);
}

// The longer of the two that a roof allows; none without either roof.
std::optional<double> priced(const std::vector<StepLaunch>& kinds, const QString& name,
                             const MachineRoofs& roofs) {
  const auto kind = std::find_if(kinds.begin(), kinds.end(),
                                 [&](const StepLaunch& launch) { return launch.name == name; });
  if (kind == kinds.end() || !roofs.dram) {
    return std::nullopt;
  }
  const double bytes_us = 1e6 * kind->floor_bytes / *roofs.dram;
  const double flops_us = roofs.tensor ? 1e6 * kind->flops / *roofs.tensor : 0.0;
  return std::max(bytes_us, flops_us);
}

void add_phases(const std::vector<StepLaunch>& kinds, const MachineRoofs& roofs,
                TracedLaunches& out) {
  for (std::size_t i = 0; i < out.trace.launches.size(); ++i) {
    const QString name = phase_name(out.trace.launches[i]);
    int at = out.phase(name);
    if (at < 0) {
      at = static_cast<int>(out.phases.size());
      out.phases.push_back({.name = name, .launches = {}, .priced_us = priced(kinds, name, roofs)});
    }
    TracedPhase& phase = out.phases[static_cast<std::size_t>(at)];
    phase.launches.push_back(static_cast<int>(i));
    phase.us += out.own_us[i];
    out.phase_of.push_back(at);
  }
}

void add_lanes(TracedLaunches& out) {
  std::vector<std::int64_t> streams;
  for (const TracedLaunch& launch : out.trace.launches) {
    const auto known = std::find(streams.begin(), streams.end(), launch.stream);
    out.lane_of.push_back(static_cast<int>(known - streams.begin()));
    if (known == streams.end()) {
      streams.push_back(launch.stream);
    }
  }
  out.lanes = static_cast<int>(streams.size());
}

std::int64_t end_of(const TracedLaunch& launch) {
  return launch.start_ns + launch.duration_ns;
}

// In the order in which launches end: so the GPU goes from one to the next.
void add_spans(TracedLaunches& out) {
  std::vector<int> order(out.trace.launches.size());
  std::iota(order.begin(), order.end(), 0);
  const auto end = [&](int launch) {
    return end_of(out.trace.launches[static_cast<std::size_t>(launch)]);
  };
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return end(a) < end(b); });
  for (const int launch : order) {
    const int phase = out.phase_of[static_cast<std::size_t>(launch)];
    if (!out.spans.empty() && out.spans.back().phase == phase) {
      out.spans.back().end_ns = end(launch);
    } else {
      out.spans.push_back({phase, out.own_start_ns(launch), end(launch)});
    }
  }
}

void add_gaps(TracedLaunches& out) {
  std::int64_t end = 0;
  for (const TracedLaunch& launch : out.trace.launches) {
    if (launch.start_ns > end) {
      out.gaps.push_back({end, launch.start_ns});
    }
    end = std::max(end, end_of(launch));
  }
}

QString counted(std::size_t count, const char* one, const char* many) {
  return QString("%1 %2").arg(count).arg(count == 1 ? one : many);
}

// A ratio says nothing of a phase of less than a megabyte.
constexpr double kLeastJudgedUs = 0.3;

QString priced_text(const TracedPhase& phase) {
  if (!phase.priced_us) {
    return {};
  }
  const QString text = QString("; priced %1").arg(nanoseconds(1e3 * *phase.priced_us));
  return *phase.priced_us < kLeastJudgedUs ? text
                                           : text + QString::fromUtf8(", measured %1 × that")
                                                        .arg(fixed(phase.us / *phase.priced_us, 2));
}

QString evidence_text(RangeEvidence evidence) {
  switch (evidence) {
    case RangeEvidence::kLaunched:
      return "launched in this range";
    case RangeEvidence::kOrder:
      return "replayed from a graph; its range by order";
    case RangeEvidence::kName:
      return "replayed from a graph; its range by the kernel, which no other launches";
    case RangeEvidence::kUnknown:
      return "launched outside of every range";
  }
  return {};
}

}  // namespace

double TracedLaunches::priced_us() const {
  double sum = 0.0;
  for (const TracedPhase& phase : phases) {
    sum += phase.priced_us.value_or(0.0);
  }
  return sum;
}

int TracedLaunches::phase(const QString& name) const {
  const auto found = std::find_if(phases.begin(), phases.end(),
                                  [&](const TracedPhase& phase) { return phase.name == name; });
  return found == phases.end() ? -1 : static_cast<int>(found - phases.begin());
}

std::int64_t TracedLaunches::own_start_ns(int launch) const {
  const std::size_t i = static_cast<std::size_t>(launch);
  return end_of(trace.launches[i]) - std::llround(1e3 * own_us[i]);
}

std::int64_t TracedLaunches::start_of(int phase) const {
  return own_start_ns(phases[static_cast<std::size_t>(phase)].launches.front());
}

TracedLaunches traced_launches(const StepTrace& trace, const std::vector<StepLaunch>& kinds,
                               const MachineRoofs& roofs) {
  TracedLaunches out{
      .trace = trace, .phases = {}, .phase_of = {}, .lane_of = {}, .spans = {}, .gaps = {}};
  for (const double ns : engine::own_times_ns(trace)) {
    out.own_us.push_back(1e-3 * ns);
  }
  add_phases(kinds, roofs, out);
  add_lanes(out);
  add_spans(out);
  add_gaps(out);
  out.length_us = 1e-3 * static_cast<double>(trace.length_ns());
  out.busy_us = 1e-3 * static_cast<double>(trace.busy_ns());
  return out;
}

std::vector<PhaseDifference> phase_differences(const TracedLaunches& first,
                                               const TracedLaunches& second) {
  std::vector<PhaseDifference> all;
  for (const TracedPhase& phase : first.phases) {
    PhaseDifference row{
        .name = phase.name, .first_launches = std::ssize(phase.launches), .first_us = phase.us};
    if (const int other = second.phase(phase.name); other >= 0) {
      const TracedPhase& its = second.phases[static_cast<std::size_t>(other)];
      row.second_launches = std::ssize(its.launches);
      row.second_us = its.us;
    }
    all.push_back(row);
  }
  for (const TracedPhase& phase : second.phases) {
    if (first.phase(phase.name) < 0) {
      all.push_back({.name = phase.name,
                     .second_launches = std::ssize(phase.launches),
                     .second_us = phase.us});
    }
  }
  std::stable_sort(all.begin(), all.end(), [](const PhaseDifference& a, const PhaseDifference& b) {
    return std::fabs(a.difference_us()) > std::fabs(b.difference_us());
  });
  all.push_back({.name = "gaps",
                 .first_launches = std::ssize(first.gaps),
                 .second_launches = std::ssize(second.gaps),
                 .first_us = first.gap_us(),
                 .second_us = second.gap_us()});
  return all;
}

QString trace_text(const TracedLaunches& launches, const std::optional<double>& timed_us) {
  QString text =
      QString("%1 in %2, running %3")
          .arg(counted(launches.trace.launches.size(), "launch", "launches"),
               nanoseconds(1e3 * launches.length_us), nanoseconds(1e3 * launches.busy_us));
  std::int64_t longest = 0;
  for (const Gap& gap : launches.gaps) {
    longest = std::max(longest, gap.end_ns - gap.start_ns);
  }
  text += launches.gaps.empty() ? QString("; no gaps")
                                : QString("; %1 together %2 (%3 %), the longest %4")
                                      .arg(counted(launches.gaps.size(), "gap", "gaps"),
                                           nanoseconds(1e3 * launches.gap_us()),
                                           fixed(100.0 * launches.gap_us() / launches.length_us, 0),
                                           nanoseconds(static_cast<double>(longest)));
  if (launches.priced_us() > 0.0) {
    text += "; priced " + nanoseconds(1e3 * launches.priced_us());
  }
  if (timed_us) {  // tracing itself takes time
    text += QString("; timed untraced %1").arg(nanoseconds(1e3 * *timed_us));
  }
  return text;
}

QString traced_launch_text(const TracedLaunches& launches, int launch) {
  const TracedLaunch& it = launches.trace.launches[static_cast<std::size_t>(launch)];
  const TracedPhase& phase =
      launches
          .phases[static_cast<std::size_t>(launches.phase_of[static_cast<std::size_t>(launch)])];
  const double own_us = launches.own_us[static_cast<std::size_t>(launch)];
  const double length_us = std::max(launches.length_us, 1e-9);
  QStringList lines = {QString("%1: %2 from %3")
                           .arg(QString::fromStdString(it.kernel),
                                nanoseconds(static_cast<double>(it.duration_ns)),
                                nanoseconds(static_cast<double>(it.start_ns)))};
  if (1e3 * own_us + 0.5 < static_cast<double>(it.duration_ns)) {
    lines[0] += QString(", %1 of it not behind another").arg(nanoseconds(1e3 * own_us));
  }
  lines[0] += QString(", %1 % of the step").arg(fixed(100.0 * own_us / length_us, 1));
  if (it.blocks > 0) {
    lines[0] += QString::fromUtf8(", %1 × %2 threads, stream %3")
                    .arg(it.blocks)
                    .arg(it.threads)
                    .arg(it.stream);
  }
  lines << QString("phase %1 (%2): %3 in %4, %5 % of the step%6")
               .arg(phase.name, evidence_text(it.evidence), nanoseconds(1e3 * phase.us),
                    counted(phase.launches.size(), "launch", "launches"),
                    fixed(100.0 * phase.us / length_us, 0), priced_text(phase));
  return lines.join('\n');
}

}  // namespace versieve::gui
