#include "engine/measure/sweep/machine_figures.h"

#include <algorithm>
#include <cctype>
#include <optional>

#include "model/words/kernel_case.h"
#include "profiler/sample_statistics.h"

namespace versieve::engine {
namespace {

std::string source_of(const PointKey& key, const std::string& where_and_when) {
  return "measured, " + where_and_when + ": " + key.strategy + ", length " +
         std::to_string(key.context_len) + ", rows " + std::to_string(key.num_queries) + ", " +
         name_of(key.cache_state);
}

class Best {
 public:
  void take(const std::string& name, double value, bool greatest, const std::string& source) {
    const auto found = std::find_if(figures_.begin(), figures_.end(),
                                    [&](const MeasuredFigure& f) { return f.name == name; });
    if (found == figures_.end()) {
      figures_.push_back({name, {value, source, true}});
    } else if (greatest ? value > found->figure.value : value < found->figure.value) {
      found->figure = {value, source, true};
    }
  }
  std::vector<MeasuredFigure> figures_;
};

double element_bytes(const PointKey& key) {
  return static_cast<double>(bytes_of(key.dtype));
}

void take_point(const PointMeasurement& point, const std::string& source, Best& best) {
  const MachineCase c = MachineCase::parse(point.key.strategy);
  const double ns = profiler::median_of(point.time_ns);
  const bool cold = point.key.cache_state == CacheState::kColdRotate;
  switch (c.work) {
    case MachineWork::kCopy: {
      const double bytes = 2.0 * 1024.0 * static_cast<double>(point.key.context_len);
      best.take(cold ? "copy_rate" : "l2_copy_rate", bytes / ns, true, source);
      return;
    }
    case MachineWork::kLaunch:
      best.take(point.key.launch == LaunchMode::kGraph ? "graph_launch" : "stream_launch",
                ns / 1e3 / static_cast<double>(c.launches), false, source);
      return;
    case MachineWork::kGemm: {
      const double weights = static_cast<double>(c.k * c.m);
      if (cold && point.key.num_queries == 1) {
        best.take("read_rate", weights * element_bytes(point.key) / ns, true, source);
      }
      best.take("gemm_rate", 2.0 * weights * static_cast<double>(point.key.num_queries) / ns / 1e3,
                true, source);
      return;
    }
  }
}

// The catalogue's machine for what no driver says (lanes, peaks a clock): of the same compute
// capability, else the one whose multiprocessors are most like.
struct Relative {
  const char* capability;
  const char* key;
};

Relative relative_of(const std::string& compute_capability) {
  constexpr Relative kRelatives[] = {
      {"8.0", "a100-sxm-80g"}, {"8.9", "rtx4090"}, {"9.0", "h100-sxm"}, {"10.0", "b200"},
      {"12.0", "rtx5090"},     {"8.", "rtx4090"},  {"10.", "b200"},     {"12.", "rtx5090"}};
  for (const Relative& relative : kRelatives) {
    if (compute_capability.starts_with(relative.capability)) {
      return relative;
    }
  }
  return {"9.0", "h100-sxm"};
}

std::string key_of(const std::string& name) {
  std::string key;
  for (const char c : name) {
    const unsigned char letter = static_cast<unsigned char>(c);
    key += std::isalnum(letter) ? static_cast<char>(std::tolower(letter)) : '-';
  }
  return key;
}

void set(HardwareSpec& spec, HardwareField field, double value, const char* source) {
  if (value > 0.0) {
    spec.fields[static_cast<std::size_t>(field)] = {value, source, true};
  }
}

// Products that must agree with their factors.
void derive(HardwareSpec& spec) {
  constexpr const char* kDerived = "derived from the other fields";
  const double sms = spec[HardwareField::kSmCount];
  set(spec, HardwareField::kBf16Tflops,
      1e-6 * sms * spec[HardwareField::kTensorFlopPerClockSm] *
          spec[HardwareField::kTensorClockMhz],
      kDerived);
  set(spec, HardwareField::kFp32Tflops,
      2e-6 * sms * spec[HardwareField::kFp32LanesPerSm] * spec[HardwareField::kMaxClockMhz],
      kDerived);
  set(spec, HardwareField::kRawBandwidthGbps,
      1e-3 * spec[HardwareField::kMemoryBusBits] * spec[HardwareField::kMemoryClockMhz] * 2.0 / 8.0,
      kDerived);
}

}  // namespace

std::vector<MeasuredFigure> machine_figures(const std::vector<PointMeasurement>& points,
                                            const std::string& where_and_when) {
  Best best;
  for (const PointMeasurement& point : points) {
    if (point.key.workload == WorkloadKind::kMachine && point.status == PointStatus::kOk &&
        point.reliability != Reliability::kThrottled && !point.time_ns.empty()) {
      take_point(point, source_of(point.key, where_and_when), best);
    }
  }
  return best.figures_;
}

HardwareSpec calibrated_hardware(const DeviceFacts& device, std::vector<MeasuredFigure> figures) {
  constexpr const char* kQuery = "device query";
  const HardwareSpec* const listed = hardware_for_device(device.name);
  const Relative relative = relative_of(device.compute_capability);
  HardwareSpec spec = listed != nullptr ? *listed : hardware_by_key(relative.key);
  if (listed == nullptr) {
    for (HardwareValue& value : spec.fields) {
      value.verified = false;
      value.source =
          "as " + spec.name +
          (device.compute_capability == relative.capability ? ", of the same architecture"
                                                            : ", of another architecture");
    }
    set(spec, HardwareField::kSmCount, device.sm_count, kQuery);
    set(spec, HardwareField::kL2Mib, device.l2_mib, kQuery);
    set(spec, HardwareField::kMemoryMib, device.memory_mib, kQuery);
    set(spec, HardwareField::kMemoryBusBits, device.memory_bus_bits, kQuery);
    set(spec, HardwareField::kMaxClockMhz, device.max_clock_mhz, kQuery);
    set(spec, HardwareField::kMemoryClockMhz, device.memory_clock_mhz, kQuery);
    derive(spec);
  }
  spec.key = key_of(device.name) + "-calibrated";
  spec.name = device.name + ", calibrated";
  spec.measured = std::move(figures);
  return spec;
}

}  // namespace versieve::engine
