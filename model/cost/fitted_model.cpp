#include "model/cost/fitted_model.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "model/launches/decode_layers.h"
#include "model/words/assert.h"

namespace versieve {
namespace {

// Added to the half-width of log latency when a fit is used on another machine, known by its data
// sheet alone, and where its rates were measured too (sweep calibrate).
struct CarriedWidth {
  double by_sheet;
  double by_rates;
};
// Of another chip: assumptions. The published cross-machine errors of a comparable model are 13 to
// 16 %; measured rates leave latencies and L2's behaviour, half of it.
constexpr CarriedWidth kOtherChip = {0.30, 0.15};
// Of the same SMs with another memory, as far apart as an H100 and an H200 are. Between these two,
// both ways, 0.02 and 0.01 would have held 90 % of 1,757 and 1,647 points, and the steps that a
// plan is made of were 7.6 and 3.9 % off in the 90th percentile (engine/analyse/fit/MEASURED.md).
// That they grow in proportion to the distance is an assumption.
constexpr CarriedWidth kOtherMemory = {0.05, 0.02};
// The same of the other systems: 0.048 and 0.030 would have held 90 % of an H100's 160 points,
// 0.038 and 0.024 of as many of an H200.
constexpr CarriedWidth kOtherMemorySystems = {0.10, 0.06};
// The same of steps of many requests: by the sheet 0.060 would have held 90 % of an H200's 123 and
// 0.001 of an H100's 143, by rates 0.046 and 0.002.
constexpr CarriedWidth kOtherMemoryBatches = {0.07, 0.05};
constexpr const char* kFartherKey = "h200-sxm";
constexpr const char* kNearerKey = "h100-sxm";

constexpr std::array kChipFields = {
    HardwareField::kSmCount,        HardwareField::kMaxClockMhz,
    HardwareField::kTensorClockMhz, HardwareField::kTensorFlopPerClockSm,
    HardwareField::kFp32LanesPerSm, HardwareField::kSharedMemoryKibPerSm,
    HardwareField::kThreadsPerSm,   HardwareField::kBlocksPerSm,
    HardwareField::kRegistersPerSm};

bool same_chip(const HardwareSpec& a, const HardwareSpec& b) {
  return std::all_of(kChipFields.begin(), kChipFields.end(),
                     [&](HardwareField field) { return a[field] == b[field]; });
}

double apart(const HardwareSpec& a, const HardwareSpec& b, HardwareField field) {
  return std::abs(std::log(a[field] / b[field]));
}

// How far apart two memories are, in units of how far those of the measured pair are.
double memory_distance(const HardwareSpec& a, const HardwareSpec& b) {
  const HardwareSpec& farther = hardware_by_key(kFartherKey);
  const HardwareSpec& nearer = hardware_by_key(kNearerKey);
  double most = 0.0;
  for (const HardwareField field : {HardwareField::kRawBandwidthGbps, HardwareField::kL2Mib}) {
    most = std::max(most, apart(a, b, field) / apart(farther, nearer, field));
  }
  return most;
}

double added_half_width(const FittedModel& fit, const HardwareSpec& hardware,
                        const CarriedWidth& other_memory) {
  if (hardware.key == fit.hardware_key) {
    return 0.0;
  }
  const auto known = [&](const CarriedWidth& width) {
    return is_calibrated(hardware, fit.machine) ? width.by_rates : width.by_sheet;
  };
  const std::span<const HardwareSpec> machines = hardware_catalogue();
  const auto own = std::find_if(machines.begin(), machines.end(), [&](const HardwareSpec& spec) {
    return spec.key == fit.hardware_key;
  });
  if (own == machines.end() || !same_chip(*own, hardware)) {
    return known(kOtherChip);
  }
  return std::min(known(kOtherChip),
                  known(other_memory) * std::max(1.0, memory_distance(*own, hardware)));
}

double log_ratio(std::int64_t a, std::int64_t b) {
  return std::abs(std::log(static_cast<double>(std::max<std::int64_t>(1, a)) /
                           static_cast<double>(std::max<std::int64_t>(1, b))));
}

}  // namespace

std::int64_t FittedModel::steps_of(std::string_view target) const {
  return std::count_if(steps.begin(), steps.end(),
                       [target](const MeasuredStep& m) { return m.geometry == target; });
}

CostParameters FittedModel::parameters() const {
  VERSIEVE_ASSERT(estimates.size() == kParameterCount, "one estimate a parameter");
  CostParameters values;
  for (std::size_t i = 0; i < kParameterCount; ++i) {
    values[i] = estimates[i].value;
  }
  return values;
}

HardwareSpec FittedModel::priced_on(const HardwareSpec& hardware) const {
  HardwareSpec priced = hardware;
  if (hardware.key != hardware_key) {
    priced.scale = rate_scale(hardware, machine).times(hardware.scale);
  }
  if (prior) {
    priced.scale = priced.scale.times(prior->scale);
  }
  return priced;
}

double FittedModel::carried_half_width(const HardwareSpec& hardware) const {
  return added_half_width(*this, hardware, kOtherMemory);
}

double FittedModel::carried_system_half_width(const HardwareSpec& hardware) const {
  return added_half_width(*this, hardware, kOtherMemorySystems);
}

double FittedModel::carried_batch_half_width(const HardwareSpec& hardware) const {
  return added_half_width(*this, hardware, kOtherMemoryBatches);
}

bool FittedModel::informs(LaunchKind kind) const {
  VERSIEVE_ASSERT(estimates.size() == kParameterCount, "one estimate a parameter");
  const auto first = estimates.begin() +
                     static_cast<std::ptrdiff_t>(index_of(kind, static_cast<KindParameter>(0)));
  return std::any_of(first, first + static_cast<std::ptrdiff_t>(kKindParameterCount),
                     [](const ParameterEstimate& e) { return e.informed; });
}

std::string MeasuredRegime::text() const {
  return workload + " of " + geometry + " at L " + std::to_string(context_len) + ", N " +
         std::to_string(num_queries) + " (" + std::to_string(points) +
         (points == 1 ? " point)" : " points)");
}

std::string FittedModel::outside_because(std::int64_t context_len, std::int64_t num_queries) const {
  bool shorter = false, longer = false, fewer = false, more = false;
  for (const MeasuredRegime& r : regimes) {
    shorter = shorter || r.context_len <= context_len;
    longer = longer || r.context_len >= context_len;
    fewer = fewer || r.num_queries <= num_queries;
    more = more || r.num_queries >= num_queries;
  }
  if (regimes.empty() || (shorter && longer && fewer && more)) {
    return {};
  }
  const auto apart = [&](const MeasuredRegime& r) {
    return log_ratio(r.context_len, context_len) + log_ratio(r.num_queries, num_queries);
  };
  std::vector<MeasuredRegime> near = regimes;
  std::sort(near.begin(), near.end(),
            [&](const MeasuredRegime& a, const MeasuredRegime& b) { return apart(a) < apart(b); });
  std::string text = "L " + std::to_string(context_len) + ", N " + std::to_string(num_queries) +
                     " lies outside the measured regimes; the nearest are ";
  for (std::size_t i = 0; i < std::min<std::size_t>(3, near.size()); ++i) {
    text += (i == 0 ? "" : "; ") + near[i].text();
  }
  return text;
}

std::int64_t FittedModel::shortest_context() const {
  std::int64_t shortest = 0;
  for (const MeasuredRegime& r : regimes) {
    shortest = shortest == 0 ? r.context_len : std::min(shortest, r.context_len);
  }
  return std::max<std::int64_t>(1, shortest);
}

double FittedModel::half_width(std::int64_t low, std::int64_t high) const {
  const bool measured = std::any_of(regimes.begin(), regimes.end(), [&](const MeasuredRegime& r) {
    return in_range(r.context_len, low, high);
  });
  double width = 0.0;
  double widest = 0.0;
  for (const ErrorQuantile& q : errors) {
    const double left_out = std::max(q.log_latency, q.log_latency_left_out);
    widest = std::max(widest, left_out);
    if (q.context_low < high && low < q.context_high) {
      width = std::max(width, measured || regimes.empty() ? q.log_latency : left_out);
    }
  }
  return width > 0.0 ? width : 2.0 * widest;
}

const SystemQuantile* FittedModel::system(std::string_view name) const {
  const auto found = std::find_if(systems.begin(), systems.end(),
                                  [&](const SystemQuantile& s) { return s.name == name; });
  return found == systems.end() ? nullptr : &*found;
}

bool FittedModel::prices_one_launch(const Strategy& s, const LlmShape& target,
                                    std::int64_t context_len) const {
  return s.attention == AttentionMethod::kNsa && !s.draft.speculates() && dtype == Dtype::kBf16 &&
         priced_form() == NsaForm::kFused && informs(LaunchKind::kDecodeLayers) &&
         decodes_in_one_launch(target, context_len);
}

NsaForm FittedModel::priced_form() const {
  const bool fused = informs(LaunchKind::kNsaRoute) && informs(LaunchKind::kNsaAttend) &&
                     informs(LaunchKind::kNsaReuse);
  return fused ? NsaForm::kFused : NsaForm::kVanilla;
}

}  // namespace versieve
