// The choice of kernels/top_p by sorting, as libraries offer it: CUB's radix sort of each row, one
// sum over all prefixes, the cut by bisection of the sums, the union. What top_p is timed beside.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

namespace versieve::testing {

struct SortedTopP {
  std::int64_t rows = 0, length = 0;
  double p = 1.0;
  bool segmented = false;          // all rows in one sort, else one after the other
  const float* weights = nullptr;  // [rows, length], not negative
  float* sorted = nullptr;         // [rows, length]
  double* prefix = nullptr;        // [rows, length], summed over all rows
  float* least = nullptr;          // [rows]
  std::int32_t* mask = nullptr;    // [length]
  void* storage = nullptr;         // of CUB
};

std::size_t sorted_top_p_bytes(const SortedTopP& choice);
void enqueue_sorted_top_p(const SortedTopP& choice, std::size_t storage_bytes, cudaStream_t stream);

}  // namespace versieve::testing
