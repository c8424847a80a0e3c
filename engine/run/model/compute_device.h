// Which backend a request runs on and in which number format: cpu, cuda, or a GPU if there is one.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "kernels/ops.h"
#include "model/words/error.h"
#include "model/words/point_words.h"

namespace versieve::engine {

struct ComputeDevice {
  Backend backend = Backend::kCpu;  // or cuda
  std::string name;
  int threads = 1;  // of the CPU
};

// `backend`: cpu, cuda, auto. `threads`: of the CPU; 0: all. Throws Error: kUsage for another
// backend, kEnvironment without the GPU asked for.
ComputeDevice compute_device(const std::string& backend, int threads);

// call(std::unique_ptr<kernels::Ops<T>>) for the format's T: f32; f64 on the CPU; bf16 on CUDA.
// Throws Error(kUsage) for any other.
template <class Call>
auto with_ops(const ComputeDevice& device, const std::string& dtype, const Call& call) {
  const bool cpu = device.backend == Backend::kCpu;
  const std::optional<Dtype> type = try_dtype_of(dtype);
  if (type == Dtype::kF32) {
    return call(cpu ? kernels::make_cpu_ops<float>(device.threads)
                    : kernels::make_cuda_ops<float>());
  }
  if (type == Dtype::kF64 && cpu) {
    return call(kernels::make_cpu_ops<double>(device.threads));
  }
  if (type == Dtype::kBf16 && !cpu) {
    return call(kernels::make_cuda_ops<Bf16>());
  }
  throw Error(ExitCode::kUsage, "dtype '" + dtype + "' is not for " + name_of(device.backend) +
                                    (cpu ? ": it takes f32 and f64" : ": it takes f32 and bf16"));
}

}  // namespace versieve::engine
