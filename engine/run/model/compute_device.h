// Which backend a request runs on and in which number format: cpu, cuda, or a GPU if there is one.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "kernels/ops.h"
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

// The number format of that name: f32 and bf16; f64 on the CPU. Throws Error(kUsage) for any other.
Dtype dtype_on(const ComputeDevice& device, const std::string& name);

// call(std::unique_ptr<kernels::Ops<T>>) for the format's T. REQUIRES: one of dtype_on.
template <class Call>
auto with_ops(const ComputeDevice& device, Dtype dtype, const Call& call) {
  const bool cpu = device.backend == Backend::kCpu;
  if (dtype == Dtype::kF32) {
    return call(cpu ? kernels::make_cpu_ops<float>(device.threads)
                    : kernels::make_cuda_ops<float>());
  }
  if (dtype == Dtype::kF64) {
    return call(kernels::make_cpu_ops<double>(device.threads));
  }
  return call(cpu ? kernels::make_cpu_ops<Bf16>(device.threads) : kernels::make_cuda_ops<Bf16>());
}
template <class Call>
auto with_ops(const ComputeDevice& device, const std::string& dtype, const Call& call) {
  return with_ops(device, dtype_on(device, dtype), call);
}

}  // namespace versieve::engine
