// The ops that a point runs on: a GPU's on the instrument's stream, or the CPU's.
#pragma once

#include <memory>

#include "kernels/ops.h"
#include "model/error.h"

namespace versieve::engine {

template <class T>
std::unique_ptr<kernels::Ops<T>> make_sweep_ops(bool on_gpu, void* stream, int threads) {
  if (on_gpu) {
    return kernels::make_cuda_ops<T>(stream);
  }
  if constexpr (std::is_same_v<T, float>) {
    return kernels::make_cpu_ops<float>(threads);
  } else {
    throw Error(ExitCode::kUsage, "the CPU engine computes in f32 or f64, not in bf16");
  }
}

}  // namespace versieve::engine
