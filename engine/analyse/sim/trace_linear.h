// linear: y[N, M] = x[N, K] w[M, K]^T (+ residual), or with gate and up rows and SwiGLU, as
// kernels/linear/stream.cu and gemm.cu cut it (model/launches/linear.h).
#pragma once

#include <memory>

#include "engine/analyse/sim/memory_trace.h"

namespace versieve::engine {

struct LinearLaunch {
  std::int64_t n = 1, k = 0, m = 0;
  bool swiglu = false;  // w: [2 M, K]
  std::int64_t element_bytes = 2;
  std::uint64_t x = 0, w = 0, y = 0;
  std::uint64_t residual = 0;  // 0: none
  std::uint64_t weighted = 0;  // y times the next norm's weight, 0: none
  std::uint64_t copy = 0;      // y once more, rows copy_stride bytes apart, 0: not
  std::uint64_t copy_stride = 0;
};

std::unique_ptr<LaunchTrace> trace_linear(const LinearLaunch& launch);

}  // namespace versieve::engine
