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
