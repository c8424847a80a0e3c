#include "model/words/hardware_limits.h"

#include <array>
#include <cmath>
#include <optional>
#include <vector>

#include "model/words/formatted.h"

namespace versieve {
namespace {

constexpr double kKibi = 1024.0, kMebi = kKibi * kKibi;

// One of `name` is `factor` of the unit that a field has.
struct OtherUnit {
  const char* of;
  const char* name;
  double factor;
};
constexpr OtherUnit kOtherUnits[] = {
    {"MHz", "GHz", 1e3},
    {"MHz", "kHz", 1e-3},
    {"MHz", "Hz", 1e-6},
    {"Tflop/s", "Pflop/s", 1e3},
    {"Tflop/s", "Gflop/s", 1e-3},
    {"Tflop/s", "Mflop/s", 1e-6},
    {"Tflop/s", "flop/s", 1e-12},
    {"MiB", "TiB", kMebi},
    {"MiB", "GiB", kKibi},
    {"MiB", "KiB", 1.0 / kKibi},
    {"MiB", "bytes", 1.0 / kMebi},
    {"KiB", "MiB", kKibi},
    {"KiB", "bytes", 1.0 / kKibi},
    {"bit", "bytes", 8.0},
    {"GB/s", "TB/s", 1e3},
    {"GB/s", "MB/s", 1e-3},
    {"GB/s", "bytes/s", 1e-9},
    {"W", "kW", 1e3},
    {"W", "mW", 1e-3},
    {"us", "s", 1e6},
    {"us", "ms", 1e3},
    {"us", "ns", 1e-3},
};
// Counts that are stated in multiples or parts of themselves.
constexpr OtherUnit kOtherCounts[] = {
    {"sm_count", "FP32 lanes", 1.0 / 128}, {"threads_per_sm", "warps", 32.0},
    {"registers_per_sm", "bytes", 0.25},   {"registers_per_sm", "thousands", 1024.0},
    {"registers_per_sm", "KiB", 256.0},
};

constexpr std::array<HardwareLimits, kHardwareFieldCount> kLimits = {{
    {1, 1024, true},       // sm_count
    {200, 6000},           // max_clock, MHz
    {200, 6000},           // tensor_clock, MHz
    {64, 131072, true},    // tensor_flop_per_clock_sm
    {16, 1024, true},      // fp32_lanes_per_sm
    {1, 50000},            // bf16_peak, Tflop/s
    {0.5, 5000},           // fp32_peak, Tflop/s
    {0.25, 1000},          // l2, MiB
    {1024, 4194304},       // memory, MiB
    {32, 65536, true},     // memory_bus, bit
    {100, 50000},          // memory_clock, MHz
    {20, 100000},          // raw_bandwidth, GB/s
    {8, 4096},             // shared_memory_per_sm, KiB
    {256, 8192, true},     // threads_per_sm
    {1, 256, true},        // blocks_per_sm
    {8192, 131072, true},  // registers_per_sm
    {10, 20000},           // power, W
}};

std::string number(double value) {
  return formatted("%.12g", value);
}

std::string with_unit(double value, std::string_view unit) {
  return formatted("%.6g", value) + (unit == "1" ? std::string() : " " + std::string(unit));
}

// What the catalogue's machines have of it, by ratio their middle.
double usual(HardwareField field) {
  double sum = 0.0;
  for (const HardwareSpec& spec : hardware_catalogue()) {
    sum += std::log(spec[field]);
  }
  return std::exp(sum / static_cast<double>(hardware_catalogue().size()));
}

std::vector<OtherUnit> others_of(std::string_view unit_or_field) {
  std::vector<OtherUnit> out;
  for (const OtherUnit& other : kOtherUnits) {
    if (unit_or_field == other.of) {
      out.push_back(other);
    }
  }
  for (const OtherUnit& other : kOtherCounts) {
    if (unit_or_field == other.of) {
      out.push_back(other);
    }
  }
  return out;
}

// What a number of a field may have been meant as is looked up by its unit, of a count by its name.
std::string_view dimension_of(HardwareField field) {
  const std::string_view unit = unit_of(field);
  return unit == "1" ? std::string_view(name_of(field)) : unit;
}

std::string meant(std::string_view dimension, std::string_view unit, double value,
                  const HardwareLimits& limits, double usual) {
  std::optional<OtherUnit> best;
  const auto distance = [&](double factor) { return std::abs(std::log(value * factor / usual)); };
  for (const OtherUnit& other : others_of(dimension)) {
    const double meant = value * other.factor;
    if (meant >= limits.low && meant <= limits.high &&
        (!best || distance(other.factor) < distance(best->factor))) {
      best = other;
    }
  }
  return best ? "; were " + with_unit(value * best->factor, unit) + " meant, written in " +
                    best->name + "?"
              : std::string();
}

}  // namespace

HardwareLimits limits_of(HardwareField field) {
  return kLimits[static_cast<std::size_t>(field)];
}

std::string implausible_because(HardwareField field, double value) {
  const HardwareLimits limits = limits_of(field);
  const std::string name = name_of(field);
  const std::string_view unit = unit_of(field);
  const std::string stated =
      name + ": " + number(value) + (unit == "1" ? "" : " " + std::string(unit));
  if (!(value >= limits.low && value <= limits.high)) {
    return stated + " cannot be (" + number(limits.low) + " to " + number(limits.high) + ")" +
           (value > 0.0 ? meant(dimension_of(field), unit, value, limits, usual(field)) : "");
  }
  return limits.whole && value != std::floor(value) ? stated + " is no whole number"
                                                    : std::string();
}

std::string implausible_field(const HardwareSpec& spec) {
  for (std::size_t i = 0; i < kHardwareFieldCount; ++i) {
    const HardwareField field = static_cast<HardwareField>(i);
    if (std::string reason = implausible_because(field, spec[field]); !reason.empty()) {
      return reason;
    }
  }
  return {};
}

std::string wrong_unit_because(HardwareField field, double value, std::string_view unit) {
  const std::string_view right = unit_of(field);
  if (unit == right) {
    return {};
  }
  std::string sentence = std::string(name_of(field)) + ": the unit is " +
                         (right == "1" ? "1, a count" : std::string(right)) + ", not '" +
                         std::string(unit) + "'";
  for (const OtherUnit& other : others_of(dimension_of(field))) {
    if (unit == other.name) {
      sentence += "; " + number(value) + " " + other.name + " are " +
                  with_unit(value * other.factor, right);
    }
  }
  return sentence;
}

std::string meant_instead(std::string_view unit, double value, double low, double high,
                          double usual) {
  return value > 0.0 ? meant(unit, unit, value, {low, high}, usual) : std::string();
}

}  // namespace versieve
