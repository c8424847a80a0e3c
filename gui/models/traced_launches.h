// One measured step along time: its launches in lanes by stream, the NVTX ranges that they lie in
// as phases, the gaps between them, and what each phase's bytes and arithmetic alone need. Never
// changed after it was made.
#pragma once

#include <QString>
#include <cstdint>
#include <optional>
#include <vector>

#include "gui/models/step_launch.h"
#include "model/words/step_trace.h"

namespace versieve::gui {

// All launches of one NVTX range, in the order in which ranges are first launched; the last one may
// be what lies in no known range.
struct TracedPhase {
  QString name;                     // of the range; "outside every range"
  std::vector<int> launches;        // by start
  double us = 0.0;                  // of their own, summed (TracedLaunches::own_us)
  std::optional<double> priced_us;  // its bytes at the measured read rate or its flops at that of
                                    // products, whichever is more; none: no roof or no prediction
};

// Neighbours of one phase, by what they have of the GPU: a bar of the NVTX row.
struct PhaseSpan {
  int phase = 0;
  std::int64_t start_ns = 0, end_ns = 0;
};

struct Gap {
  std::int64_t start_ns = 0, end_ns = 0;  // no launch runs
};

struct TracedLaunches {
  StepTrace trace;
  std::vector<TracedPhase> phases;
  // [launch]: its duration less what it shares with a launch that ends before it and that it mostly
  // waits for; they sum to busy_us.
  std::vector<double> own_us;
  std::vector<int> phase_of;  // [launch]
  std::vector<int> lane_of;   // [launch], of streams by first launch
  int lanes = 0;
  std::vector<PhaseSpan> spans;
  std::vector<Gap> gaps;
  double length_us = 0.0, busy_us = 0.0;

  double gap_us() const { return length_us - busy_us; }
  double priced_us() const;  // of all phases that have such a figure
  // Index of the phase of that name, or -1.
  int phase(const QString& name) const;
  // Since the step's start: when a launch has the GPU, and when the first of a phase has.
  std::int64_t own_start_ns(int launch) const;
  std::int64_t start_of(int phase) const;
};

TracedLaunches traced_launches(const StepTrace& trace, const std::vector<StepLaunch>& kinds,
                               const MachineRoofs& roofs);

// One phase in two steps, matched by name.
struct PhaseDifference {
  QString name;
  std::int64_t first_launches = 0, second_launches = 0;
  double first_us = 0.0, second_us = 0.0;

  double difference_us() const { return second_us - first_us; }
};
// Every phase of either and, last, the gaps; the greatest difference first.
std::vector<PhaseDifference> phase_differences(const TracedLaunches& first,
                                               const TracedLaunches& second);

// "traced 1.92 ms: launches run 1.71 ms, gaps 210 µs (11 %) in 143, …"
QString trace_text(const TracedLaunches& launches, const std::optional<double>& timed_us);
// Kernel, start, duration, phase and how that is known, share of the step, measured and priced.
QString traced_launch_text(const TracedLaunches& launches, int launch);

}  // namespace versieve::gui
