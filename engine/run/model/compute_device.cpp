#include "engine/run/model/compute_device.h"

#include <algorithm>
#include <thread>

#include "model/words/error.h"
#include "profiler/environment.h"

namespace versieve::engine {

ComputeDevice compute_device(const std::string& backend, int threads) {
  const std::optional<Backend> named = try_backend_of(backend);
  if (named != Backend::kCpu && named != Backend::kCuda && backend != "auto") {
    throw Error(ExitCode::kUsage, "backend '" + backend + "' is none of cpu, cuda and auto");
  }
  const profiler::Environment environment = profiler::read_environment();
  if (named == Backend::kCuda || (!named && environment.gpu.has_value())) {
    if (!environment.gpu) {
      throw Error(ExitCode::kEnvironment, environment.gpu_missing_because);
    }
    return {.backend = Backend::kCuda, .name = environment.gpu->name};
  }
  const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  return {.backend = Backend::kCpu,
          .name = environment.cpu_name,
          .threads = threads > 0 ? threads : cores};
}

Dtype dtype_on(const ComputeDevice& device, const std::string& name) {
  const bool cpu = device.backend == Backend::kCpu;
  const std::optional<Dtype> type = try_dtype_of(name);
  if (type != Dtype::kF32 && type != Dtype::kBf16 && !(cpu && type == Dtype::kF64)) {
    throw Error(ExitCode::kUsage,
                "dtype '" + name + "' is not for " + name_of(device.backend) +
                    (cpu ? ": it takes f32, f64 and bf16" : ": it takes f32 and bf16"));
  }
  return *type;
}

}  // namespace versieve::engine
