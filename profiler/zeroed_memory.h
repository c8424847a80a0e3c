// Device memory that holds zeros and goes with its owner.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "profiler/driver_context.h"

namespace versieve::profiler {

class ZeroedMemory {
 public:
  // Throws Error(kEnvironment) that says `step` ("allocating the self-check").
  ZeroedMemory(std::int64_t bytes, const char* step) {
    check_cuda(cudaMalloc(&data_, static_cast<std::size_t>(bytes)), step);
    check_cuda(cudaMemset(data_, 0, static_cast<std::size_t>(bytes)), step);
  }
  ~ZeroedMemory() { cudaFree(data_); }
  ZeroedMemory(const ZeroedMemory&) = delete;
  ZeroedMemory& operator=(const ZeroedMemory&) = delete;
  void* get() const { return data_; }

 private:
  void* data_ = nullptr;
};

}  // namespace versieve::profiler
