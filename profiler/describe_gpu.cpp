// The GPU's description from the CUDA runtime and NVML; none in a build without CUDA.
#include "profiler/environment.h"

#ifdef VERSIEVE_HAS_CUDA
#include <cuda_runtime.h>

#include <array>

#include "model/words/gpu_absence.h"
#include "profiler/driver_context.h"
#include "profiler/gpu_timer.h"
#endif

namespace versieve::profiler {
#ifdef VERSIEVE_HAS_CUDA
namespace {

std::string bus_id_of(int device) {
  std::array<char, 32> text{};
  check_cuda(cudaDeviceGetPCIBusId(text.data(), static_cast<int>(text.size()), device),
             "asking for the device's place");
  return text.data();
}

}  // namespace

std::string driver_cuda_version() {
  int version = 0;
  check_cuda(cudaDriverGetVersion(&version), "asking for the driver's version");
  return version == 0 ? "" : cuda_version_text(version);
}

std::optional<GpuDescription> describe_gpu() {
  if (!gpu_missing_because().empty()) {
    return std::nullopt;
  }
  const int device = current_device();
  cudaDeviceProp properties{};
  check_cuda(cudaGetDeviceProperties(&properties, device), "describing the device");
  int runtime = 0;
  check_cuda(cudaRuntimeGetVersion(&runtime), "asking for the runtime's version");
  GpuDescription gpu;
  gpu.name = properties.name;
  gpu.uuid_hash = stable_hash(std::string(properties.uuid.bytes, sizeof properties.uuid.bytes));
  gpu.pci_bus_id = bus_id_of(device);
  gpu.compute_capability =
      std::to_string(properties.major) + "." + std::to_string(properties.minor);
  gpu.sm_count = properties.multiProcessorCount;
  gpu.l2_bytes = properties.l2CacheSize;
  gpu.memory_bytes = static_cast<std::int64_t>(properties.totalGlobalMem);
  gpu.memory_bus_bits = properties.memoryBusWidth;
  gpu.ecc = properties.ECCEnabled != 0;
  gpu.cuda_driver = driver_cuda_version();
  gpu.cuda_runtime = cuda_version_text(runtime);
  gpu.state = GpuStateReader(gpu.pci_bus_id).read();
  return gpu;
}
#else
std::string driver_cuda_version() {
  return {};
}

std::optional<GpuDescription> describe_gpu() {
  return std::nullopt;
}
#endif

}  // namespace versieve::profiler
