// The one check of the CUDA runtime: a call that failed becomes an Error(kEnvironment) with the
// call's place.
#pragma once

#ifdef VERSIEVE_HAS_CUDA
#include <cuda_runtime.h>

#include <source_location>
#include <string>

#include "model/words/error.h"

namespace versieve::kernels {

inline void check(cudaError_t status,
                  const std::source_location& where = std::source_location::current()) {
  if (status != cudaSuccess) {
    throw Error(ExitCode::kEnvironment, std::string("CUDA: ") + cudaGetErrorString(status) + " (" +
                                            cudaGetErrorName(status) + ") at " + where.file_name() +
                                            ":" + std::to_string(where.line()));
  }
}

// Streaming multiprocessors of the current device, asked for once.
inline int multiprocessors() {
  static const int count = [] {
    int device = 0;
    int sms = 0;
    check(cudaGetDevice(&device));
    check(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device));
    return sms;
  }();
  return count;
}

}  // namespace versieve::kernels
#endif
