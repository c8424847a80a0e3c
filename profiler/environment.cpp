#include "profiler/environment.h"

#include <sys/utsname.h>
#include <unistd.h>

#include <array>
#include <ctime>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "profiler/build_info.h"
#include "profiler/gpu_timer.h"
#include "profiler/revision.h"

#ifdef VERSIEVE_HAS_CUPTI
#include "profiler/cupti_library.h"
#endif

namespace versieve::profiler {
namespace {

using nlohmann::json;

std::string cpu_name() {
  std::ifstream file("/proc/cpuinfo");
  std::string line;
  while (std::getline(file, line)) {
    const std::size_t colon = line.find(':');
    if (line.rfind("model name", 0) == 0 && colon != std::string::npos) {
      return line.substr(colon + 2);
    }
  }
  return "unknown CPU";
}

std::string kernel_name() {
  utsname names{};
  return uname(&names) == 0 ? std::string(names.sysname) + " " + names.release : "";
}

void read_cupti(Environment& environment) {
#ifdef VERSIEVE_HAS_CUPTI
  std::uint32_t version = 0;
  if (cupti().loaded() && cupti().cuptiGetVersion(&version) == CUPTI_SUCCESS) {
    environment.cupti_version = std::to_string(version);
    environment.cupti_path = cupti().path;
  }
#else
  environment.cupti_version.clear();
#endif
}

template <class T>
void put(json& object, const char* key, const std::optional<T>& value) {
  object[key] = value ? json(*value) : json(nullptr);
}

json state_json(const GpuState& state) {
  json object = {{"driver", state.driver_version},
                 {"clock_events", clock_event_names(state.clock_events)}};
  put(object, "sm_clock_mhz", state.sm_clock_mhz);
  put(object, "sm_clock_max_mhz", state.sm_clock_max_mhz);
  put(object, "memory_clock_mhz", state.memory_clock_mhz);
  put(object, "temperature_c", state.temperature_c);
  put(object, "power_w", state.power_w);
  put(object, "power_limit_w", state.power_limit_w);
  put(object, "ecc", state.ecc);
  put(object, "mig", state.mig);
  return object;
}

json gpu_json(const GpuDescription& gpu) {
  return {{"name", gpu.name},
          {"uuid_hash", gpu.uuid_hash},
          {"compute_capability", gpu.compute_capability},
          {"sm_count", gpu.sm_count},
          {"l2_bytes", gpu.l2_bytes},
          {"memory_bytes", gpu.memory_bytes},
          {"memory_bus_bits", gpu.memory_bus_bits},
          {"ecc", gpu.ecc},
          {"cuda_driver", gpu.cuda_driver},
          {"cuda_runtime", gpu.cuda_runtime},
          {"state", gpu.state ? state_json(*gpu.state) : json(nullptr)}};
}

}  // namespace

Environment read_environment() {
  Environment environment;
  environment.gpu = describe_gpu();
  environment.gpu_missing_because = environment.gpu ? "" : gpu_missing_because();
  environment.cuda_driver = driver_cuda_version();
  read_cupti(environment);
  environment.cpu_name = cpu_name();
  environment.cpu_threads = static_cast<int>(std::thread::hardware_concurrency());
  environment.memory_bytes =
      static_cast<std::int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGE_SIZE);
  environment.kernel = kernel_name();
  environment.compiler = kBuildCompiler;
  environment.flags = kBuildFlags;
  environment.cuda_toolkit = kBuildCudaToolkit;
  environment.revision = revision();
  return environment;
}

std::string to_json(const Environment& environment) {
  const json object = {
      {"gpu", environment.gpu ? gpu_json(*environment.gpu) : json(nullptr)},
      {"gpu_missing_because", environment.gpu_missing_because},
      {"cuda_driver", environment.cuda_driver},
      {"cupti_version", environment.cupti_version},
      {"cpu", {{"name", environment.cpu_name}, {"threads", environment.cpu_threads}}},
      {"memory_bytes", environment.memory_bytes},
      {"kernel", environment.kernel},
      {"build",
       {{"compiler", environment.compiler},
        {"flags", environment.flags},
        {"cuda_toolkit", environment.cuda_toolkit},
        {"revision", environment.revision}}}};
  return object.dump();
}

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text.data();
}

std::string revision() {
  return kRevision;
}

std::string stable_hash(const std::string& text) {
  std::uint64_t hash = 0xcbf29ce484222325U;  // FNV-1a's offset basis and prime
  for (const char c : text) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  }
  std::string digits(16, '0');
  for (std::size_t i = 0; i < digits.size(); ++i) {
    digits[15 - i] = "0123456789abcdef"[(hash >> (4 * i)) & 15U];
  }
  return digits;
}

}  // namespace versieve::profiler
