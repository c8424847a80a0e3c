#include "profiler/nvml.h"

#include <dlfcn.h>

#include <array>
#include <utility>

namespace versieve::profiler {
namespace {

// NVML's stable C interface, as far as it is used here (the toolkit ships no header for it).
using Device = struct NvmlDevice*;
constexpr int kSuccess = 0;
constexpr int kClockSm = 1;
constexpr int kClockMemory = 2;
constexpr int kTemperatureGpu = 0;

constexpr std::uint64_t kHardwareSlowdown = 0x8;
constexpr std::uint64_t kSoftwareThermal = 0x20;
constexpr std::uint64_t kHardwareThermal = 0x40;
constexpr std::uint64_t kPowerBrake = 0x80;

class Library {
 public:
  Library() : handle_(dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL)) {
    const auto init = function<int()>("nvmlInit_v2");
    ready_ = init != nullptr && init() == kSuccess;
  }
  ~Library() {
    const auto shutdown = function<int()>("nvmlShutdown");
    if (ready_ && shutdown != nullptr) {
      shutdown();
    }
    if (handle_ != nullptr) {
      dlclose(handle_);
    }
  }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  bool ready() const { return ready_; }

  template <class Signature>
  Signature* function(const char* name) const {
    return handle_ != nullptr ? reinterpret_cast<Signature*>(dlsym(handle_, name)) : nullptr;
  }

  // Calls a function whose last argument receives one unsigned number.
  template <class... Args>
  std::optional<unsigned> number(const char* name, Args... args) const {
    const auto call = function<int(Args..., unsigned*)>(name);
    unsigned value = 0;
    if (call == nullptr || call(args..., &value) != kSuccess) {
      return std::nullopt;
    }
    return value;
  }

 private:
  void* handle_ = nullptr;
  bool ready_ = false;
};

std::optional<int> as_int(std::optional<unsigned> value) {
  return value ? std::optional<int>(static_cast<int>(*value)) : std::nullopt;
}

std::optional<double> as_watts(std::optional<unsigned> milliwatts) {
  return milliwatts ? std::optional<double>(*milliwatts / 1000.0) : std::nullopt;
}

// ECC and MIG answer with two numbers: now, and after the next reset.
std::optional<bool> mode_now(const Library& nvml, const char* name, Device device) {
  const auto call = nvml.function<int(Device, unsigned*, unsigned*)>(name);
  unsigned now = 0;
  unsigned pending = 0;
  if (call == nullptr || call(device, &now, &pending) != kSuccess) {
    return std::nullopt;
  }
  return now != 0;
}

std::uint64_t clock_events_of(const Library& nvml, Device device) {
  for (const char* name :
       {"nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"}) {
    const auto call = nvml.function<int(Device, unsigned long long*)>(name);
    unsigned long long bits = 0;
    if (call != nullptr && call(device, &bits) == kSuccess) {
      return bits;
    }
  }
  return 0;
}

std::string driver_version_of(const Library& nvml) {
  std::array<char, 96> text{};
  const auto call = nvml.function<int(char*, unsigned)>("nvmlSystemGetDriverVersion");
  if (call == nullptr || call(text.data(), static_cast<unsigned>(text.size())) != kSuccess) {
    return {};
  }
  return text.data();
}

}  // namespace

struct GpuStateReader::Impl {
  Library nvml;
  Device device = nullptr;  // null: not known
};

GpuStateReader::GpuStateReader(const std::string& pci_bus_id) : impl_(std::make_unique<Impl>()) {
  const auto find =
      impl_->nvml.function<int(const char*, Device*)>("nvmlDeviceGetHandleByPciBusId_v2");
  if (!impl_->nvml.ready() || find == nullptr ||
      find(pci_bus_id.c_str(), &impl_->device) != kSuccess) {
    impl_->device = nullptr;
  }
}

GpuStateReader::~GpuStateReader() = default;

std::optional<GpuState> GpuStateReader::read() const {
  const Device device = impl_->device;
  if (device == nullptr) {
    return std::nullopt;
  }
  const Library& nvml = impl_->nvml;
  GpuState state;
  state.driver_version = driver_version_of(nvml);
  state.sm_clock_mhz = as_int(nvml.number("nvmlDeviceGetClockInfo", device, kClockSm));
  state.sm_clock_max_mhz = as_int(nvml.number("nvmlDeviceGetMaxClockInfo", device, kClockSm));
  state.memory_clock_mhz = as_int(nvml.number("nvmlDeviceGetClockInfo", device, kClockMemory));
  state.temperature_c = as_int(nvml.number("nvmlDeviceGetTemperature", device, kTemperatureGpu));
  state.power_w = as_watts(nvml.number("nvmlDeviceGetPowerUsage", device));
  state.power_limit_w = as_watts(nvml.number("nvmlDeviceGetEnforcedPowerLimit", device));
  state.ecc = mode_now(nvml, "nvmlDeviceGetEccMode", device);
  state.mig = mode_now(nvml, "nvmlDeviceGetMigMode", device);
  state.clock_events = clock_events_of(nvml, device);
  return state;
}

std::uint64_t GpuStateReader::clock_events() const {
  return impl_->device == nullptr ? 0 : clock_events_of(impl_->nvml, impl_->device);
}

std::optional<double> GpuStateReader::energy_j() const {
  const auto call =
      impl_->nvml.function<int(Device, unsigned long long*)>("nvmlDeviceGetTotalEnergyConsumption");
  unsigned long long millijoules = 0;
  if (impl_->device == nullptr || call == nullptr ||
      call(impl_->device, &millijoules) != kSuccess) {
    return std::nullopt;
  }
  return static_cast<double>(millijoules) / 1000.0;
}

bool is_throttled(std::uint64_t clock_events) {
  return (clock_events & (kHardwareSlowdown | kSoftwareThermal | kHardwareThermal | kPowerBrake)) !=
         0;
}

std::string clock_event_names(std::uint64_t clock_events) {
  constexpr std::array<std::pair<std::uint64_t, const char*>, 9> kNames = {{
      {0x1, "idle"},
      {0x2, "application clocks"},
      {0x4, "software power cap"},
      {kHardwareSlowdown, "hardware slowdown"},
      {0x10, "sync boost"},
      {kSoftwareThermal, "software thermal"},
      {kHardwareThermal, "hardware thermal"},
      {kPowerBrake, "power brake"},
      {0x100, "display"},
  }};
  std::string text;
  for (const auto& [bit, name] : kNames) {
    if ((clock_events & bit) != 0) {
      text += (text.empty() ? "" : ", ") + std::string(name);
    }
  }
  return text.empty() ? "none" : text;
}

}  // namespace versieve::profiler
