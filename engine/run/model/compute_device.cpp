#include "engine/run/model/compute_device.h"

#include <algorithm>
#include <thread>

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

}  // namespace versieve::engine
