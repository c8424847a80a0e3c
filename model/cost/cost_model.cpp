#include "model/cost/cost_model.h"

#include <algorithm>
#include <cmath>

#include "model/cost/host_time.h"

namespace versieve {
namespace {

double value(const CostParameters& p, SharedParameter parameter) {
  return p[index_of(parameter)];
}

// Written by a launch shortly before: a read finds it in L2 unless it was pushed out.
constexpr bool handed_over(TrafficTerm term) {
  switch (term) {
    case TrafficTerm::kTreeBuffer:
    case TrafficTerm::kQueryOutput:
    case TrafficTerm::kScores:
    case TrafficTerm::kLogits:
    case TrafficTerm::kKvAppend:
    case TrafficTerm::kActivations:
      return true;
    case TrafficTerm::kCompressedCache:
    case TrafficTerm::kSelectedBlocks:
    case TrafficTerm::kWindow:
    case TrafficTerm::kWeights:
    case TrafficTerm::kDraft:
      return false;
  }
  return false;
}

// Probability that a byte is gone from L2 when `moved` bytes passed since it was there.
double miss_probability(double moved, double capacity, double knee) {
  const double filled = std::pow(std::max(0.0, moved) / capacity, knee);
  return filled / (1.0 + filled);
}

double miss_probability(double moved, const HardwareSpec& hardware, const CostParameters& p,
                        SharedParameter capacity, SharedParameter knee) {
  return miss_probability(moved, value(p, capacity) * hardware.l2_bytes(), value(p, knee));
}

// Cached and handed-over bytes that a launch reads, before L2 is asked.
struct ReadBytes {
  double cached = 0.0;
  double handed_over = 0.0;
};

ReadBytes reads_of(const LaunchWork& work) {
  ReadBytes out;
  for (std::size_t i = 0; i < kTrafficTermCount; ++i) {
    (handed_over(static_cast<TrafficTerm>(i)) ? out.handed_over : out.cached) +=
        work.unique.read_bytes[i];
  }
  return out;
}

// Of a launch with phases, once.
double fixed_read(const LaunchWork& work, const CostParameters& p) {
  return work.is_phase ? 0.0 : p[index_of(work.kind, KindParameter::kFixedRead)];
}

double written_of(const LaunchWork& work, const CostParameters& p) {
  return work.unique.total_write() * p[index_of(work.kind, KindParameter::kWriteShare)];
}

// Share of handed-over bytes that are read from DRAM.
double handover_miss(const LaunchWork& work, const HardwareSpec& hardware,
                     const CostParameters& p) {
  const double fits = value(p, SharedParameter::kHandoverMiss);
  if (work.handover_distance <= 0.0) {
    return fits;
  }
  return fits + (1.0 - fits) * miss_probability(work.handover_distance, hardware, p,
                                                SharedParameter::kHandoverL2,
                                                SharedParameter::kHandoverKnee);
}

// Of them again, once for each pass after the first, as a share of one pass.
double repeated_miss(const LaunchWork& work, const HardwareSpec& hardware,
                     const CostParameters& p) {
  return work.passes > 1.0 ? (work.passes - 1.0) * miss_probability(work.working_set, hardware, p,
                                                                    SharedParameter::kHandoverL2,
                                                                    SharedParameter::kHandoverKnee)
                           : 0.0;
}

constexpr bool is_cache(TrafficTerm term) {
  return term == TrafficTerm::kCompressedCache || term == TrafficTerm::kSelectedBlocks ||
         term == TrafficTerm::kWindow;
}

// Of the cache, that a step reads again and again.
double repeated_cache(const LaunchWork& work) {
  double bytes = 0.0;
  for (std::size_t i = 0; i < kTrafficTermCount; ++i) {
    bytes += is_cache(static_cast<TrafficTerm>(i)) ? work.unique.read_bytes[i] : 0.0;
  }
  return work.launches * bytes;
}

// DRAM bytes read by term: unique bytes of cached terms with their over-fetch, reloads that L2 does
// not serve, hand-over that it pushed out.
void add_reads(const LaunchWork& work, const L2Pressure& pressure, double handed_over_miss,
               const HardwareSpec& hardware, const CostParameters& p, LaunchCost& cost) {
  const double first_read = pressure.warm_miss;
  const double fresh = 1.0 - pressure.kept * work.repeated;
  const double handover = handed_over_miss + repeated_miss(work, hardware, p);
  const double repeats = work.loaded - work.reused;
  const double reload =
      work.reused > 0.0 && repeats > 0.0
          ? repeats / work.reused * value(p, SharedParameter::kReloadMiss) *
                miss_probability(work.reuse_distance, hardware, p, SharedParameter::kEffectiveL2,
                                 SharedParameter::kL2Knee)
          : 0.0;
  const double sparse = first_read * value(p, SharedParameter::kOverfetchSparse) + reload;
  const double stream = first_read * value(p, SharedParameter::kOverfetchStream) + reload;
  for (std::size_t i = 0; i < kTrafficTermCount; ++i) {
    const TrafficTerm term = static_cast<TrafficTerm>(i);
    const double share = handed_over(term)                      ? handover
                         : term == TrafficTerm::kSelectedBlocks ? sparse
                                                                : stream;
    cost.term_bytes[i] = work.unique.read_bytes[i] * share * (is_cache(term) ? fresh : 1.0);
    cost.read_bytes += cost.term_bytes[i];
  }
  cost.read_bytes += fixed_read(work, p);
}

// Bytes that a launch brings into L2: first reads, hand-over that was pushed out, writes.
double moved_by(const LaunchWork& work, const ReadBytes& read, double warm_miss,
                double handed_over_miss, const CostParameters& p) {
  return read.cached * warm_miss + read.handed_over * handed_over_miss + fixed_read(work, p) +
         written_of(work, p);
}

// Written bytes that reach DRAM while the launch runs. Terms are charged for their own bytes.
void add_writes(const LaunchWork& work, const L2Pressure& pressure, double handed_over_miss,
                const CostParameters& p, LaunchCost& cost) {
  const double share = pressure.written_share * p[index_of(work.kind, KindParameter::kWriteShare)];
  for (std::size_t i = 0; i < kTrafficTermCount; ++i) {
    const double write = work.unique.write_bytes[i] * share;
    cost.term_bytes[i] += write;
    cost.write_bytes += write;
  }
  if (pressure.pushed > 0.0) {
    cost.write_bytes =
        pressure.pushed * moved_by(work, reads_of(work), pressure.warm_miss, handed_over_miss, p);
  }
  cost.write_bytes += work.is_phase ? 0.0 : value(p, SharedParameter::kFixedWrite);
}

// A soft maximum of the limits, (sum t^4)^(1/4): work that two limits share overlaps imperfectly,
// and every limit keeps a say, so that a fit can learn it.
class Limits {
 public:
  void add(double seconds, Bound bound) {
    const double square = seconds * seconds;
    fourth_powers_ += square * square;
    if (seconds > greatest_) {
      greatest_ = seconds;
      bound_ = bound;
    }
  }
  double seconds() const { return std::sqrt(std::sqrt(fourth_powers_)); }
  Bound bound() const { return bound_; }

 private:
  double fourth_powers_ = 0.0;
  double greatest_ = 0.0;
  Bound bound_ = Bound::kLatency;
};

// Of the launch's latency, what its flow does not hide.
double on_top_of_flow(const LaunchWork& work, double start, double steps) {
  if (work.streams || work.order == LatencyOrder::kBefore) {
    return start + steps;
  }
  return work.order == LatencyOrder::kInTurn ? start : 0.0;
}

void add_own_time(const LaunchWork& work, const HardwareSpec& hardware, const CostParameters& p,
                  LaunchCost& cost) {
  const double sms = hardware[HardwareField::kSmCount];
  const double l2_bytes = work.loaded - work.reused + work.passes * work.unique.total_read() +
                          work.unique.total_write();
  const double waves =
      std::max(1.0, work.blocks / (sms * p[index_of(work.kind, KindParameter::kResident)]));
  const double start = 1e-6 * p[index_of(work.kind, KindParameter::kBaseUs)] +
                       work.rounds * 1e-6 * p[index_of(work.kind, KindParameter::kRoundUs)];
  const double steps = waves * work.steps * 1e-9 * p[index_of(work.kind, KindParameter::kStepNs)];
  const double l2_rate =
      value(p, work.streams ? SharedParameter::kStreamL2 : SharedParameter::kL2BytesPerClockSm) *
      hardware.scale.l2 * sms * hardware.l2_clock_hz();
  const double dram_bytes =
      work.scattered * (cost.read_bytes + cost.write_bytes * hardware.scale.written_time);
  const double dram = std::max(0.0, dram_bytes - work.ahead) /
                      (hardware.bandwidth() * value(p, SharedParameter::kDramEfficiency));
  const double l2 = std::max(0.0, l2_bytes - work.ahead) / l2_rate;
  Limits limits;
  if (work.streams) {
    limits.add(std::max(dram, l2), dram > l2 ? Bound::kDram : Bound::kL2);
  } else {
    limits.add(dram, Bound::kDram);
    limits.add(l2, Bound::kL2);
  }
  if (!work.streams && work.order == LatencyOrder::kBeside) {
    limits.add(start + steps, Bound::kLatency);
  }
  if (work.ahead <= 0.0) {  // else products are part of a step
    const double products = uses_tensor_cores(work.kind) ? hardware.scale.products : 1.0;
    limits.add((work.order == LatencyOrder::kInTurn ? steps : 0.0) +
                   work.unique.flops / (hardware.fp32_flops() * products * work.product_rate *
                                        p[index_of(work.kind, KindParameter::kComputeShare)]),
               Bound::kCompute);
  }
  const double seconds = limits.seconds();
  const double on_top = on_top_of_flow(work, start, steps);
  cost.time_us = (seconds + on_top) * 1e6 * work.time_factor;
  cost.bound = on_top > seconds ? Bound::kLatency : limits.bound();
}

// What of a launch runs beside the one before it: a share of its time; of a ring of weights, whose
// flow takes the chip, of its start and end.
double overlapped_us(const LaunchWork& work, double time_us, const CostParameters& p) {
  if (!work.dependent) {
    return 0.0;
  }
  return work.streams ? value(p, SharedParameter::kStartOverlap) * work.time_factor *
                            p[index_of(work.kind, KindParameter::kBaseUs)]
                      : value(p, SharedParameter::kOverlap) * time_us;
}

bool streams_weights(std::span<const LaunchWork> step) {
  return std::any_of(step.begin(), step.end(),
                     [](const LaunchWork& work) { return work.kind == LaunchKind::kLinear; });
}

}  // namespace

L2Pressure l2_pressure(std::span<const LaunchWork> step, const HardwareSpec& hardware,
                       const CostParameters& p, const RunConditions& conditions) {
  double cached = 0.0;
  double written = 0.0;
  for (const LaunchWork& work : step) {
    cached += work.launches * reads_of(work).cached;
    written += work.launches * written_of(work, p);
  }
  const double all_written = written;
  written *= value(p, SharedParameter::kWriteFill);
  L2Pressure out;
  out.warm_miss = conditions.warm
                      ? miss_probability(cached + written, hardware, p,
                                         SharedParameter::kEffectiveL2, SharedParameter::kL2Knee)
                      : 1.0;
  // What stays in L2 from run to run takes its room too, so that dirty lines leave by the whole
  // footprint.
  double footprint = cached;
  double moved = 0.0;
  for (const LaunchWork& work : step) {
    const ReadBytes read = reads_of(work);
    const double miss = handover_miss(work, hardware, p);
    footprint += work.launches * (read.handed_over * miss + fixed_read(work, p));
    moved += work.launches * moved_by(work, read, out.warm_miss, miss, p);
  }
  const double least = value(p, SharedParameter::kWriteBack);
  out.written_share = least + (1.0 - least) * miss_probability(footprint + written, hardware, p,
                                                               SharedParameter::kWriteL2,
                                                               SharedParameter::kWriteKnee);
  if (!streams_weights(step)) {
    out.pushed = moved > 0.0 ? out.written_share * all_written / moved : 0.0;
  } else if (!conditions.warm) {
    double cache = 0.0;
    for (const LaunchWork& work : step) {
      cache += repeated_cache(work);
    }
    out.kept = 1.0 - miss_probability(cache, hardware, p, SharedParameter::kKeptL2,
                                      SharedParameter::kKeptKnee);
  }
  return out;
}

LaunchCost bytes_of(const LaunchWork& work, const L2Pressure& pressure,
                    const HardwareSpec& hardware, const CostParameters& parameters) {
  LaunchCost cost;
  const double miss = handover_miss(work, hardware, parameters);
  add_reads(work, pressure, miss, hardware, parameters, cost);
  add_writes(work, pressure, miss, parameters, cost);
  return cost;
}

void add_time(const LaunchWork& work, const HardwareSpec& hardware,
              const CostParameters& parameters, const RunConditions& conditions, LaunchCost& cost) {
  add_own_time(work, hardware, parameters, cost);
  cost.overlapped_us = overlapped_us(work, cost.time_us, parameters);
  if (work.is_phase) {
    return;
  }
  cost.gap_us = conditions.launch == LaunchMode::kStream || work.led
                    ? value(parameters, SharedParameter::kStreamGapUs) * hardware.scale.stream_gap
                    : value(parameters, SharedParameter::kGraphGapUs) * hardware.scale.graph_gap;
}

LaunchCost cost_of(const LaunchWork& work, const L2Pressure& pressure, const HardwareSpec& hardware,
                   const CostParameters& parameters, const RunConditions& conditions) {
  LaunchCost cost = bytes_of(work, pressure, hardware, parameters);
  add_time(work, hardware, parameters, conditions, cost);
  return cost;
}

LaunchCost cost_of(const LaunchWork& work, const HardwareSpec& hardware,
                   const CostParameters& parameters, const RunConditions& conditions) {
  StepWork alone;
  alone.add(work);
  return cost_of(work, l2_pressure(alone, hardware, parameters, conditions), hardware, parameters,
                 conditions);
}

// A step that is one graph asks the host nothing before it ends, and the next is already enqueued.
double host_wait_us(double host_trips, double led_trips, const CostParameters& parameters,
                    const RunConditions& conditions) {
  const double trips = led_trips + (conditions.launch == LaunchMode::kStream ? host_trips : 0.0);
  return trips * value(parameters, SharedParameter::kHostTripUs);
}

double host_beside_us(double enqueue_us, double host_us, double device_us) {
  if (enqueue_us <= 0.0) {
    return host_us;
  }
  Limits limits;
  limits.add(device_us, Bound::kDram);
  limits.add(enqueue_us, Bound::kLaunch);
  return limits.seconds() - device_us + host_us;
}

double host_time_us(const StepWork& step, double device_us) {
  return host_beside_us(step.enqueue_us, step.host_us, device_us);
}

RunConditions conditions_of(const StepWork& step, RunConditions conditions) {
  // What the host enqueues ahead follows one another as a graph's nodes do.
  conditions.launch = step.enqueue_us > 0.0 ? LaunchMode::kGraph
                      : step.led_by_host    ? LaunchMode::kStream
                                            : conditions.launch;
  return conditions;
}

StepCost cost_of(const StepWork& step, const HardwareSpec& hardware,
                 const CostParameters& parameters, const RunConditions& fit_conditions) {
  const RunConditions conditions = conditions_of(step, fit_conditions);
  StepCost total;
  const double waits = host_wait_us(step.host_trips, step.led_trips, parameters, conditions);
  total.time_us = waits;
  total.phase_us[static_cast<std::size_t>(Phase::kOther)] = waits;
  total.bound_us[static_cast<std::size_t>(Bound::kLaunch)] = waits;
  const L2Pressure pressure = l2_pressure(step, hardware, parameters, conditions);
  for (const LaunchWork& work : step) {
    const LaunchCost cost = cost_of(work, pressure, hardware, parameters, conditions);
    total.time_us += work.launches * cost.added_us();
    total.dram_bytes += work.launches * (cost.read_bytes + cost.write_bytes);
    total.flops += work.launches * work.unique.flops;
    total.launches += work.is_phase ? 0.0 : work.launches;
    total.phase_us[static_cast<std::size_t>(work.phase)] += work.launches * cost.added_us();
    total.bound_us[static_cast<std::size_t>(cost.bound)] +=
        work.launches * (cost.time_us - cost.overlapped_us);
    total.bound_us[static_cast<std::size_t>(Bound::kLaunch)] += work.launches * cost.gap_us;
    for (std::size_t i = 0; i < kTrafficTermCount; ++i) {
      total.term_bytes[i] += work.launches * cost.term_bytes[i];
    }
  }
  const double host = host_time_us(step, total.time_us);
  total.time_us += host;
  total.phase_us[static_cast<std::size_t>(Phase::kOther)] += host;
  total.bound_us[static_cast<std::size_t>(Bound::kLaunch)] += host;
  return total;
}

}  // namespace versieve
