// Device memory for the GPU tests, and the sentence of a machine without a GPU.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <vector>

#include "kernels/common/cuda_check.h"

namespace versieve::testing {

// True when there is none; says so once.
inline bool no_gpu() {
  int count = 0;
  const bool none = cudaGetDeviceCount(&count) != cudaSuccess || count == 0;
  static bool said = false;
  if (none && !said) {
    std::puts("skipped: this machine has no GPU that the CUDA runtime can use");
    said = true;
  }
  return none;
}

// Bytes a microsecond that a read-only stream gets of this machine's memory: 0.95 of its clock by
// its width (an H200 gave 4.64 TB/s of 4.92, an H100 3.22 of 3.35).
inline double stream_read_rate() {
  int device = 0, kilohertz = 0, bits = 0;
  kernels::check(cudaGetDevice(&device));
  kernels::check(cudaDeviceGetAttribute(&kilohertz, cudaDevAttrMemoryClockRate, device));
  kernels::check(cudaDeviceGetAttribute(&bits, cudaDevAttrGlobalMemoryBusWidth, device));
  return 0.95 * 2.0 * kilohertz * 1e-3 * bits / 8.0;
}

template <class E>
class DeviceArray {
 public:
  explicit DeviceArray(std::size_t count) : count_(count) {
    kernels::check(cudaMalloc(&data_, std::max<std::size_t>(count, 1) * sizeof(E)));
  }
  explicit DeviceArray(const std::vector<E>& values) : DeviceArray(values.size()) { write(values); }
  DeviceArray(DeviceArray&& other) noexcept : count_(other.count_), data_(other.data_) {
    other.data_ = nullptr;
  }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;
  ~DeviceArray() { cudaFree(data_); }

  E* data() const { return data_; }
  void write(const std::vector<E>& values) {
    kernels::check(
        cudaMemcpy(data_, values.data(), values.size() * sizeof(E), cudaMemcpyHostToDevice));
  }
  void read(std::vector<E>& values) const {
    kernels::check(
        cudaMemcpy(values.data(), data_, values.size() * sizeof(E), cudaMemcpyDeviceToHost));
  }

 private:
  std::size_t count_;
  E* data_ = nullptr;
};

}  // namespace versieve::testing
