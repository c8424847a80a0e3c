#include "gui/models/traced_launches.h"

#include <QStringList>
#include <algorithm>
#include <cmath>

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
    phase.us += 1e-3 * static_cast<double>(out.trace.launches[i].duration_ns);
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

void add_spans_and_gaps(TracedLaunches& out) {
  std::int64_t end = 0;
  for (std::size_t i = 0; i < out.trace.launches.size(); ++i) {
    const TracedLaunch& launch = out.trace.launches[i];
    const std::int64_t launch_end = launch.start_ns + launch.duration_ns;
    if (i > 0 && launch.start_ns > end) {
      out.gaps.push_back({end, launch.start_ns});
    }
    if (i > 0 && out.spans.back().phase == out.phase_of[i]) {
      out.spans.back().end_ns = std::max(out.spans.back().end_ns, launch_end);
    } else {
      out.spans.push_back({out.phase_of[i], launch.start_ns, launch_end});
    }
    end = std::max(end, launch_end);
  }
}

QString counted(std::size_t count, const char* one, const char* many) {
  return QString("%1 %2").arg(count).arg(count == 1 ? one : many);
}

QString evidence_text(RangeEvidence evidence) {
  switch (evidence) {
    case RangeEvidence::kLaunched:
      return "launched in this range";
    case RangeEvidence::kOrder:
      return "replayed from a graph; in this range where the step is launched one by one";
    case RangeEvidence::kName:
      return "replayed from a graph; this range alone launches the kernel";
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

std::int64_t TracedLaunches::start_of(int phase) const {
  const int first = phases[static_cast<std::size_t>(phase)].launches.front();
  return trace.launches[static_cast<std::size_t>(first)].start_ns;
}

TracedLaunches traced_launches(const StepTrace& trace, const std::vector<StepLaunch>& kinds,
                               const MachineRoofs& roofs) {
  TracedLaunches out{
      .trace = trace, .phases = {}, .phase_of = {}, .lane_of = {}, .spans = {}, .gaps = {}};
  add_phases(kinds, roofs, out);
  add_lanes(out);
  add_spans_and_gaps(out);
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
  const double us = 1e-3 * static_cast<double>(it.duration_ns);
  QStringList lines = {QString("%1: %2 from %3, %4 % of the step")
                           .arg(QString::fromStdString(it.kernel),
                                nanoseconds(static_cast<double>(it.duration_ns)),
                                nanoseconds(static_cast<double>(it.start_ns)),
                                fixed(100.0 * us / std::max(launches.length_us, 1e-9), 1))};
  if (it.blocks > 0) {
    lines[0] += QString::fromUtf8(", %1 × %2 threads, stream %3")
                    .arg(it.blocks)
                    .arg(it.threads)
                    .arg(it.stream);
  }
  lines << QString("phase %1 (%2): %3 take %4, %5 % of the step%6")
               .arg(phase.name, evidence_text(it.evidence),
                    counted(phase.launches.size(), "launch", "launches"),
                    nanoseconds(1e3 * phase.us),
                    fixed(100.0 * phase.us / std::max(launches.length_us, 1e-9), 0),
                    phase.priced_us
                        ? QString::fromUtf8("; priced %1, measured %2 × that")
                              .arg(nanoseconds(1e3 * *phase.priced_us),
                                   *phase.priced_us > 0.0 ? fixed(phase.us / *phase.priced_us, 2)
                                                          : QString(QChar(kAbsent)))
                        : QString());
  return lines.join('\n');
}

}  // namespace versieve::gui
