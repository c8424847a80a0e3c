#include "profiler/driver_context.h"

#include <string>

#include "model/words/error.h"
#include "model/words/gpu_absence.h"

namespace versieve::profiler {

void check_cuda(cudaError_t status, const char* step) {
  if (status != cudaSuccess) {
    throw Error(ExitCode::kEnvironment, std::string("GPU: ") + step + ": " +
                                            cudaGetErrorString(status) + " (" +
                                            cudaGetErrorName(status) + ")");
  }
}

std::string no_gpu_answers_because() {
  GpuAnswer answer;
  const cudaError_t status = cudaGetDeviceCount(&answer.device_count);
  cudaGetLastError();
  answer.driver_insufficient = status == cudaErrorInsufficientDriver;
  answer.error = status == cudaSuccess ? "" : cudaGetErrorString(status);
  check_cuda(cudaDriverGetVersion(&answer.driver_version), "asking for the driver's version");
  check_cuda(cudaRuntimeGetVersion(&answer.runtime_version), "asking for the runtime's version");
  return gpu_absent_because(answer);
}

int current_device() {
  int device = 0;
  check_cuda(cudaGetDevice(&device), "asking for the device");
  return device;
}

CUcontext current_driver_context() {
  check_cuda(cudaFree(nullptr), "opening the device");
  void* entry = nullptr;
  cudaDriverEntryPointQueryResult found{};
  check_cuda(
      cudaGetDriverEntryPointByVersion("cuCtxGetCurrent", &entry, 12000, cudaEnableDefault, &found),
      "asking for the driver's context");
  CUcontext context = nullptr;
  using GetCurrent = CUresult(CUDAAPI*)(CUcontext*);
  if (found != cudaDriverEntryPointSuccess ||
      reinterpret_cast<GetCurrent>(entry)(&context) != CUDA_SUCCESS || context == nullptr) {
    throw Error(ExitCode::kEnvironment, "GPU: the driver has no context for this device");
  }
  return context;
}

}  // namespace versieve::profiler
