// The GPU as its management library describes it: clocks, power, ECC, and why the clock is held
// down. NVML is found at run time; without it the answers are absent. Settings are only read.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace versieve::profiler {

struct GpuState {
  std::string driver_version;
  std::optional<int> sm_clock_mhz;
  std::optional<int> sm_clock_max_mhz;
  std::optional<int> memory_clock_mhz;
  std::optional<int> temperature_c;
  std::optional<double> power_w;
  std::optional<double> power_limit_w;
  std::optional<bool> ecc;
  std::optional<bool> mig;
  std::uint64_t clock_events = 0;  // NVML's bits of reasons for a lower clock
};

// None: no NVML, or it does not know the device. `pci_bus_id` as the CUDA runtime gives it.
std::optional<GpuState> read_gpu_state(const std::string& pci_bus_id);

// Slowdown by hardware, heat or the power brake: times taken then are marked. A software power cap
// is normal for dense work and is not one of them.
bool is_throttled(std::uint64_t clock_events);
// The reasons in words, "none" without any.
std::string clock_event_names(std::uint64_t clock_events);

}  // namespace versieve::profiler
