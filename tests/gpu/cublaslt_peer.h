// NVIDIA's cuBLASLt beside our matrix products, where the machine has its library: loaded at run
// time, no dependency of the project.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <memory>

#include "kernels/common/bf16.h"

namespace versieve::testing {

class CublasLtPeer {
 public:
  virtual ~CublasLtPeer() = default;
  // y[n, m] = x[n, k] w[m, k]^T in bf16 with f32 sums by the algorithm that the library's heuristic
  // ranks at `rank`, 0 the first. False if there is no such algorithm. Enqueues on `stream`.
  virtual bool multiply(std::int64_t n, std::int64_t k, std::int64_t m, const Bf16* x,
                        const Bf16* w, Bf16* y, int rank, cudaStream_t stream) = 0;
};

// Null, with a sentence, where libcublasLt.so.13 cannot be loaded (VERSIEVE_CUBLASLT names another
// file) or this build's CUDA toolkit has no header of it.
std::unique_ptr<CublasLtPeer> try_cublaslt_peer();

}  // namespace versieve::testing
