#include "model/cost/step_parts.h"

#include <algorithm>

namespace versieve {
namespace {

constexpr const char* kHostWaits = "host waits";

StepPart& part_of(const std::string& name, Phase phase, LayerKind layer,
                  std::vector<StepPart>& parts) {
  const auto found = std::find_if(parts.begin(), parts.end(), [&](const StepPart& p) {
    return p.name == name && p.phase == phase && p.layer == layer;
  });
  return found != parts.end()
             ? *found
             : parts.emplace_back(StepPart{.name = name, .phase = phase, .layer = layer});
}

}  // namespace

Bound bottleneck_of(const StepPart& part) {
  const auto most = std::max_element(part.bound_us.begin(), part.bound_us.end());
  return static_cast<Bound>(most - part.bound_us.begin());
}

const char* name_of(LayerKind layer) {
  switch (layer) {
    case LayerKind::kNone:
      return "";
    case LayerKind::kRefresh:
      return "refresh";
    case LayerKind::kReuse:
      return "reuse";
  }
  return "";
}

void add_parts(const StepWork& step, const HardwareSpec& hardware, const CostParameters& parameters,
               const RunConditions& fit_conditions, double weight, double factor,
               std::vector<StepPart>& parts) {
  const RunConditions conditions = conditions_of(step, fit_conditions);
  const double rate = cold_read_rate(hardware).value_or(hardware.raw_bandwidth());
  const L2Pressure pressure = l2_pressure(step, hardware, parameters, conditions);
  double device_us = 0.0;
  for (const LaunchWork& work : step) {
    const LaunchCost cost = cost_of(work, pressure, hardware, parameters, conditions);
    const double launches = weight * work.launches;
    const double time_us = launches * factor * cost.added_us();
    const double bytes = launches * (cost.read_bytes + cost.write_bytes);
    StepPart& part = part_of(name_of(work.kind), work.phase, work.layer, parts);
    part.bound_us[static_cast<std::size_t>(cost.bound)] +=
        launches * factor * (cost.time_us - cost.overlapped_us);
    part.bound_us[static_cast<std::size_t>(Bound::kLaunch)] += launches * factor * cost.gap_us;
    part.launches += launches;
    part.time_us += time_us;
    device_us += work.launches * cost.added_us();
    part.dram_bytes += bytes;
    part.floor_us += 1e6 * bytes / rate;
  }
  const double own = host_wait_us(step.host_trips, step.led_trips, parameters, conditions);
  const double waits = own + host_time_us(step, device_us + own);
  if (waits > 0.0) {
    StepPart& part = part_of(kHostWaits, Phase::kOther, LayerKind::kNone, parts);
    part.launches += weight * (step.led_trips +
                               (conditions.launch == LaunchMode::kStream ? step.host_trips : 0.0));
    part.time_us += weight * factor * waits;
    part.bound_us[static_cast<std::size_t>(Bound::kLaunch)] += weight * factor * waits;
  }
}

}  // namespace versieve
