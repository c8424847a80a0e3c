#include "model/words/machine_rates.h"

#include <array>
#include <cmath>

#include "model/words/formatted.h"
#include "model/words/hardware_limits.h"

namespace versieve {
namespace {

constexpr double kLeastShare = 0.1;   // of the data sheet's rate: less was no stream
constexpr double kMostShare = 1.02;   // clocks and rounding
constexpr double kMostL2Bytes = 256;  // a clock and SM, read and written: twice the widest L1 path
constexpr double kLeastLaunchUs = 0.05, kMostLaunchUs = 1000.0;

// Reads are R bytes/s, copies C of which half is written: 2 / C = 1 / R + 1 / W.
double written_time(double read, double copy) {
  return read > 0.0 && copy > 0.0 ? 2.0 * read / copy - 1.0 : 0.0;
}

double ratio(double here, double there) {
  return here > 0.0 && there > 0.0 ? here / there : 1.0;
}

double l2_clocks(const HardwareSpec& spec) {
  return spec[HardwareField::kSmCount] * spec.l2_clock_hz();
}

struct Range {
  const char* name;
  double low, high;
  const char* of;
};

std::array<Range, 6> ranges_of(const HardwareSpec& spec) {
  const double bus = spec[HardwareField::kRawBandwidthGbps];
  const double peak = spec[HardwareField::kBf16Tflops];
  constexpr const char* kBus = "of the memory bus";
  constexpr const char* kLaunch = "of a launch";
  return {{{"read_rate", kLeastShare * bus, kMostShare * bus, kBus},
           {"copy_rate", kLeastShare * bus, kMostShare * bus, kBus},
           {"l2_copy_rate", kLeastShare * bus, 1e-9 * kMostL2Bytes * l2_clocks(spec),
            "of the memory bus and of L2's paths"},
           {"gemm_rate", kLeastShare * peak, kMostShare * peak, "of the tensor peak"},
           {"graph_launch", kLeastLaunchUs, kMostLaunchUs, kLaunch},
           {"stream_launch", kLeastLaunchUs, kMostLaunchUs, kLaunch}}};
}

}  // namespace

std::optional<double> measured_figure(const HardwareSpec& spec, std::string_view name) {
  for (const MeasuredFigure& each : spec.measured) {
    if (each.name == name) {
      return each.figure.value;
    }
  }
  return {};
}

MachineShares machine_shares(const HardwareSpec& spec) {
  const auto figure = [&](const char* name) { return measured_figure(spec, name).value_or(0.0); };
  return {.read = 1e9 * figure("read_rate") / spec.raw_bandwidth(),
          .copy = 1e9 * figure("copy_rate") / spec.raw_bandwidth(),
          .l2 = 1e9 * figure("l2_copy_rate") / l2_clocks(spec),
          .products = 1e12 * figure("gemm_rate") / spec.fp32_flops(),
          .graph_launch = figure("graph_launch"),
          .stream_launch = figure("stream_launch")};
}

RateScale rate_scale(const HardwareSpec& machine, const MachineShares& fit) {
  const MachineShares own = machine_shares(machine);
  return {.read = ratio(own.read, fit.read),
          .written_time = ratio(written_time(own.read, own.copy), written_time(fit.read, fit.copy)),
          .l2 = ratio(own.l2, fit.l2),
          .products = ratio(own.products, fit.products),
          .graph_gap = ratio(own.graph_launch, fit.graph_launch),
          .stream_gap = ratio(own.stream_launch, fit.stream_launch)};
}

RateScale RateScale::times(const RateScale& further) const {
  return {.read = read * further.read,
          .written_time = written_time * further.written_time,
          .l2 = l2 * further.l2,
          .products = products * further.products,
          .graph_gap = graph_gap * further.graph_gap,
          .stream_gap = stream_gap * further.stream_gap};
}

bool is_calibrated(const HardwareSpec& machine, const MachineShares& fit) {
  const auto complete = [](const MachineShares& s) {
    return s.read > 0.0 && s.l2 > 0.0 && s.products > 0.0 && s.graph_launch > 0.0;
  };
  return complete(machine_shares(machine)) && complete(fit);
}

std::string impossible_because(const HardwareSpec& spec, const MeasuredFigure& figure) {
  for (const Range& range : ranges_of(spec)) {
    const double value = figure.figure.value;
    if (figure.name == range.name && !(value >= range.low && value <= range.high)) {
      return formatted(
                 "%s: %s was measured as %.4g %s, which cannot be: %.4g to %.4g is what the "
                 "limits %s leave",
                 spec.name.c_str(), range.name, value, unit_of_figure(range.name), range.low,
                 range.high, range.of) +
             meant_instead(unit_of_figure(range.name), value, range.low, range.high,
                           std::sqrt(range.low * range.high));
    }
  }
  return {};
}

std::string impossible_figure(const HardwareSpec& spec) {
  for (const MeasuredFigure& figure : spec.measured) {
    const std::string reason = impossible_because(spec, figure);
    if (!reason.empty()) {
      return reason;
    }
  }
  return {};
}

}  // namespace versieve
