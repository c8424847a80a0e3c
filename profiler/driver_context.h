// The driver's context of the current device, had without linking libcuda: the runtime hands out
// the driver's entry point.
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include <string>

namespace versieve::profiler {

void check_cuda(cudaError_t status, const char* step);  // throws Error(kEnvironment)
std::string no_gpu_answers_because();  // one sentence; empty: a GPU of any kind answers
int current_device();
// Makes the device's primary context current first. Throws Error(kEnvironment) without a GPU.
CUcontext current_driver_context();

}  // namespace versieve::profiler
