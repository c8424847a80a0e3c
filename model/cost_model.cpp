#include "model/cost_model.h"

#include <algorithm>
#include <cmath>

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

// Probability that a byte is gone from L2 when it is wanted again.
double miss_probability(double working_set, double capacity, double knee) {
  const double filled = std::pow(working_set / capacity, knee);
  return filled / (1.0 + filled);
}

// DRAM bytes by term: unique bytes of cached terms with their over-fetch, reloads that L2 does not
// serve, hand-over that it pushed out, writes that it let go.
void add_bytes(const LaunchWork& work, const HardwareSpec& hardware, const CostParameters& p,
               CacheState cache, LaunchCost& cost) {
  const double capacity = value(p, SharedParameter::kEffectiveL2) * hardware.l2_bytes();
  const double knee = value(p, SharedParameter::kL2Knee);
  const double miss = miss_probability(work.working_set, capacity, knee);
  const double reload_miss = miss_probability(work.reuse_distance, capacity, knee);
  const double first_read = cache == CacheState::kWarm ? miss : 1.0;
  const auto fitting_or_missed = [miss](double fits) { return fits + (1.0 - fits) * miss; };
  const double handover = fitting_or_missed(value(p, SharedParameter::kHandoverMiss));
  const double written = fitting_or_missed(value(p, SharedParameter::kWriteBack));
  const double reload =
      (work.loaded - work.reused) * reload_miss * value(p, SharedParameter::kReloadMiss);
  for (std::size_t i = 0; i < kTrafficTermCount; ++i) {
    const TrafficTerm term = static_cast<TrafficTerm>(i);
    const double overfetch =
        value(p, term == TrafficTerm::kSelectedBlocks ? SharedParameter::kOverfetchSparse
                                                      : SharedParameter::kOverfetchStream);
    double read =
        work.unique.read_bytes[i] * (handed_over(term) ? handover : first_read * overfetch);
    if (work.reused > 0.0 && !handed_over(term)) {
      read += reload * work.unique.read_bytes[i] / work.reused;
    }
    const double write = work.unique.write_bytes[i] * written;
    cost.term_bytes[i] = read + write;
    cost.read_bytes += read;
    cost.write_bytes += write;
  }
  cost.read_bytes += value(p, SharedParameter::kFixedBytes);
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

void add_time(const LaunchWork& work, const HardwareSpec& hardware, const CostParameters& p,
              LaunchCost& cost) {
  const double sms = hardware[HardwareField::kSmCount];
  const double l2_bytes =
      work.loaded - work.reused + work.unique.total_read() + work.unique.total_write();
  const double waves =
      std::max(1.0, work.blocks / (sms * p[index_of(work.kind, KindParameter::kResident)]));
  Limits limits;
  limits.add(1e-6 * p[index_of(work.kind, KindParameter::kBaseUs)] +
                 waves * work.steps * 1e-9 * p[index_of(work.kind, KindParameter::kStepNs)],
             Bound::kLatency);
  limits.add((cost.read_bytes + cost.write_bytes) /
                 (hardware.raw_bandwidth() * value(p, SharedParameter::kDramEfficiency)),
             Bound::kDram);
  limits.add(
      l2_bytes / (value(p, SharedParameter::kL2BytesPerClockSm) * sms * hardware.l2_clock_hz()),
      Bound::kL2);
  limits.add(work.unique.flops /
                 (hardware.fp32_flops() * p[index_of(work.kind, KindParameter::kComputeShare)]),
             Bound::kCompute);
  cost.time_us = limits.seconds() * 1e6;
  cost.bound = limits.bound();
}

}  // namespace

LaunchCost cost_of(const LaunchWork& work, const HardwareSpec& hardware,
                   const CostParameters& parameters, const RunConditions& conditions) {
  LaunchCost cost;
  add_bytes(work, hardware, parameters, conditions.cache, cost);
  add_time(work, hardware, parameters, cost);
  cost.overlapped_us =
      work.dependent ? value(parameters, SharedParameter::kOverlap) * cost.time_us : 0.0;
  cost.gap_us =
      value(parameters, conditions.launch == LaunchMode::kStream ? SharedParameter::kStreamGapUs
                                                                 : SharedParameter::kGraphGapUs);
  return cost;
}

StepCost cost_of(const StepWork& step, const HardwareSpec& hardware,
                 const CostParameters& parameters, const RunConditions& conditions) {
  StepCost total;
  // A step that is one graph asks the host nothing before it ends, and the next is already
  // enqueued.
  const double waits = conditions.launch == LaunchMode::kStream
                           ? step.host_trips * value(parameters, SharedParameter::kHostTripUs)
                           : 0.0;
  total.time_us = waits;
  total.phase_us[static_cast<std::size_t>(Phase::kOther)] = waits;
  total.bound_us[static_cast<std::size_t>(Bound::kLaunch)] = waits;
  for (const LaunchWork& work : step) {
    const LaunchCost cost = cost_of(work, hardware, parameters, conditions);
    total.time_us += work.launches * cost.added_us();
    total.dram_bytes += work.launches * (cost.read_bytes + cost.write_bytes);
    total.flops += work.launches * work.unique.flops;
    total.launches += work.launches;
    total.phase_us[static_cast<std::size_t>(work.phase)] += work.launches * cost.added_us();
    total.bound_us[static_cast<std::size_t>(cost.bound)] +=
        work.launches * (cost.time_us - cost.overlapped_us);
    total.bound_us[static_cast<std::size_t>(Bound::kLaunch)] += work.launches * cost.gap_us;
    for (std::size_t i = 0; i < kTrafficTermCount; ++i) {
      total.term_bytes[i] += work.launches * cost.term_bytes[i];
    }
  }
  return total;
}

}  // namespace versieve
