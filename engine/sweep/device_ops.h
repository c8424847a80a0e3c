// The Ops of a point runner: the GPU's on the instrument's stream, or the CPU's.
#pragma once

#include <memory>
#include <type_traits>

#include "kernels/ops.h"
#include "model/error.h"

namespace versieve::engine {

// Throws Error(kUsage) for bf16 on the CPU.
template <class T>
std::unique_ptr<kernels::Ops<T>> make_runner_ops(bool on_gpu, void* stream, int threads) {
  if (on_gpu) {
    return kernels::make_cuda_ops<T>(stream);
  }
  if constexpr (std::is_same_v<T, Bf16>) {
    throw Error(ExitCode::kUsage, "the CPU engine computes in f32 or f64, not in bf16");
  } else {
    return kernels::make_cpu_ops<T>(threads);
  }
}

}  // namespace versieve::engine
