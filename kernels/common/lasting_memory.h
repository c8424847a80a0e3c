// Device memory of launches that hand numbers on among their CTAs, or read tables: it is never
// moved or freed while a recording may name it.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <vector>

#include "kernels/common/cuda_check.h"

namespace versieve::kernels {

class LastingMemory {
 public:
  LastingMemory() = default;
  LastingMemory(const LastingMemory&) = delete;
  LastingMemory& operator=(const LastingMemory&) = delete;
  ~LastingMemory() {
    for (void* memory : memory_) {
      cudaFree(memory);
    }
  }

  // Zeroed on the stream (no epoch of packets is 0). Throws Error(kEnvironment) if the GPU has none
  // left.
  template <class T>
  T* allocate(std::size_t count, cudaStream_t stream) {
    void* memory = nullptr;
    check(cudaMalloc(&memory, count * sizeof(T)));
    memory_.push_back(memory);
    check(cudaMemsetAsync(memory, 0, count * sizeof(T), stream));
    return static_cast<T*>(memory);
  }

 private:
  std::vector<void*> memory_;
};

}  // namespace versieve::kernels
