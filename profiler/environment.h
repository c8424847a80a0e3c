// Where and with what a measurement was made: the record that opens every run, without which its
// numbers cannot be compared with others.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "profiler/nvml.h"

namespace versieve::profiler {

struct GpuDescription {
  std::string name;  // "NVIDIA H200"
  std::string uuid_hash;
  std::string pci_bus_id;
  std::string compute_capability;  // "9.0"
  int sm_count = 0;
  std::int64_t l2_bytes = 0;
  std::int64_t memory_bytes = 0;
  std::int64_t memory_bus_bits = 0;
  bool ecc = false;
  std::string cuda_driver;        // the driver's CUDA version, "13.0"
  std::string cuda_runtime;       // the linked runtime's
  std::optional<GpuState> state;  // from NVML, as found
};

struct Environment {
  std::optional<GpuDescription> gpu;
  std::string gpu_missing_because;  // one sentence when there is none
  std::string cuda_driver;          // the driver's CUDA version, also where no GPU can be used
  std::string cupti_version;        // empty: no CUPTI; otherwise its API version
  std::string cupti_path;
  std::string cpu_name;
  int cpu_threads = 0;
  std::int64_t memory_bytes = 0;
  std::string kernel;    // "Linux 6.1.0"
  std::string compiler;  // of this build, and its flags
  std::string flags;
  std::string cuda_toolkit;  // of this build; empty without CUDA
  std::string revision;  // commit of the code, "+dirty" if it was changed, "unknown" without git
};

Environment read_environment();
// None: no GPU here, or a build without CUDA.
std::optional<GpuDescription> describe_gpu();
// "13.0"; empty: no driver, or a build without CUDA.
std::string driver_cuda_version();
std::string to_json(const Environment& environment);

std::string utc_now();  // ISO 8601, seconds
std::string revision();
// 64-bit FNV-1a in hexadecimal: stable over builds and machines, and shorter than what it hides.
std::string stable_hash(const std::string& text);

}  // namespace versieve::profiler
