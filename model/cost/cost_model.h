// Bytes and time of a launch and of a step on a machine: per launch the soft maximum of DRAM
// bytes / bandwidth, L2 bytes / L2 bandwidth, flop / peak and latency floor, + launch gap; a step
// is the sum of its launches less what dependent ones hide behind those before them. Pure
// arithmetic on fixed stores: nothing is allocated by an evaluation.
#pragma once

#include <span>

#include "model/cost/cost_parameters.h"
#include "model/launches/launch_work.h"
#include "model/words/evaluation.h"
#include "model/words/hardware.h"
#include "model/words/point_words.h"

namespace versieve {

struct RunConditions {
  bool warm = false;  // L2 holds what the run before it read
  LaunchMode launch = LaunchMode::kStream;
};

// What L2 does to a launch by what all launches of a point move between two runs of it.
struct L2Pressure {
  double warm_miss = 0.0;      // of bytes that the run before read
  double written_share = 0.0;  // of written bytes that reach DRAM
  // Of one layer alone: written bytes that reach DRAM for a byte moved, whoever wrote them; they
  // leave L2 when later bytes push them out. 0: each launch's own, as in steps, whose weights pass
  // between any two of them.
  double pushed = 0.0;
  // Of a step whose weights stream by: the share of what it reads of the cache that L2 still holds
  // when the next step reads the same.
  double kept = 0.0;
};

struct LaunchCost {
  double read_bytes = 0.0;     // DRAM
  double write_bytes = 0.0;    // DRAM
  double time_us = 0.0;        // standing alone, without the gap
  double overlapped_us = 0.0;  // of it, beside the launch before; less than time_us
  double gap_us = 0.0;

  // What the launch adds to a step.
  double added_us() const { return time_us - overlapped_us + gap_us; }
  Bound bound = Bound::kLaunch;
  std::array<double, kTrafficTermCount> term_bytes{};
};

// `step`: all launches of a point, as a StepWork or kept closer together.
L2Pressure l2_pressure(std::span<const LaunchWork> step, const HardwareSpec& hardware,
                       const CostParameters& parameters, const RunConditions& conditions);
// The two halves of cost_of: bytes, which no parameter of time moves, and what time they take.
LaunchCost bytes_of(const LaunchWork& work, const L2Pressure& pressure,
                    const HardwareSpec& hardware, const CostParameters& parameters);
void add_time(const LaunchWork& work, const HardwareSpec& hardware,
              const CostParameters& parameters, const RunConditions& conditions, LaunchCost& cost);
// Of one launch among those of its point; multiply by work.launches.
LaunchCost cost_of(const LaunchWork& work, const L2Pressure& pressure, const HardwareSpec& hardware,
                   const CostParameters& parameters, const RunConditions& conditions);
// Of one launch that is the whole point.
LaunchCost cost_of(const LaunchWork& work, const HardwareSpec& hardware,
                   const CostParameters& parameters, const RunConditions& conditions);
// Time in which a step waits for the host: `host_trips` times where it leads the step, `led_trips`
// times in any case.
double host_wait_us(double host_trips, double led_trips, const CostParameters& parameters,
                    const RunConditions& conditions);
// What the host adds to a step whose launches take that long: a soft maximum of both, as of a
// launch's limits, and what it does while the device waits. 0 of a step of one request.
double host_time_us(const StepWork& step, double device_us);
// How that step is enqueued among others that are enqueued so.
RunConditions conditions_of(const StepWork& step, RunConditions conditions);
StepCost cost_of(const StepWork& step, const HardwareSpec& hardware,
                 const CostParameters& parameters, const RunConditions& conditions);

}  // namespace versieve
