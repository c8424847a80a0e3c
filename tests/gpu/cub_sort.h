// CUB's radix sort of (score, index) pairs a row and nothing else: the most favourable reading of
// "top-k by radix sort". No tie rule across NaN and zeros, no ordering by index, no gather.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

namespace versieve::testing {

struct CubSort {
  std::int64_t rows = 0;
  std::int64_t length = 0;
  bool segmented = false;  // all rows in one call, a block each; else a device-wide sort a row
  const float* scores = nullptr;         // [R, Lp]
  float* sorted = nullptr;               // [R, Lp]
  const std::int32_t* index = nullptr;   // [R, Lp]
  std::int32_t* sorted_index = nullptr;  // [R, Lp]
  void* storage = nullptr;
};

// Storage that enqueue_cub_sort needs.
std::size_t cub_sort_bytes(const CubSort& sort);
void enqueue_cub_sort(const CubSort& sort, std::size_t storage_bytes, cudaStream_t stream);

}  // namespace versieve::testing
