// The GPU as its management library describes it: clocks, power, ECC, and why the clock is held
// down. NVML is found at run time; without it the answers are absent. Settings are only read.
#pragma once

#include <cstdint>
#include <memory>
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

// Opens NVML once for one device; `pci_bus_id` as the CUDA runtime gives it.
class GpuStateReader {
 public:
  explicit GpuStateReader(const std::string& pci_bus_id);
  ~GpuStateReader();
  GpuStateReader(const GpuStateReader&) = delete;
  GpuStateReader& operator=(const GpuStateReader&) = delete;

  // None: no NVML, or it does not know the device.
  std::optional<GpuState> read() const;
  std::uint64_t clock_events() const;  // 0 without NVML
  // What the GPU has taken since its driver was loaded; it is brought up to date some tens of times
  // a second, so that a difference wants half a second. None: not told (before Volta, no NVML).
  std::optional<double> energy_j() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Slowdown by hardware, heat or the power brake: times taken then are marked. A software power cap
// is normal for dense work and is not one of them.
bool is_throttled(std::uint64_t clock_events);
// The reasons in words, "none" without any.
std::string clock_event_names(std::uint64_t clock_events);

}  // namespace versieve::profiler
