#include "tests/gpu/sorted_top_p.h"

#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/transform_iterator.h>

#include <algorithm>
#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_scan.cuh>
#include <cub/device/device_segmented_radix_sort.cuh>

#include "kernels/common/cuda_check.h"

namespace versieve::testing {
namespace {

constexpr int kThreads = 256;

struct RowStart {
  std::int64_t length = 0;
  std::int64_t offset = 0;
  __host__ __device__ std::int64_t operator()(std::int64_t row) const {
    return (row + offset) * length;
  }
};

struct Wide {
  __host__ __device__ double operator()(float weight) const { return weight; }
};

void sort_rows(const SortedTopP& c, void* storage, std::size_t& bytes, cudaStream_t stream) {
  if (c.segmented) {
    const auto bounds = [&](std::int64_t offset) {
      return thrust::make_transform_iterator(thrust::counting_iterator<std::int64_t>(0),
                                             RowStart{c.length, offset});
    };
    kernels::check(cub::DeviceSegmentedRadixSort::SortKeysDescending(
        storage, bytes, c.weights, c.sorted, c.rows * c.length, c.rows, bounds(0), bounds(1), 0, 32,
        stream));
    return;
  }
  for (std::int64_t row = 0; row < (storage == nullptr ? 1 : c.rows); ++row) {
    const std::int64_t at = row * c.length;
    kernels::check(cub::DeviceRadixSort::SortKeysDescending(
        storage, bytes, c.weights + at, c.sorted + at, c.length, 0, 32, stream));
  }
}

void add_up(const SortedTopP& c, void* storage, std::size_t& bytes, cudaStream_t stream) {
  kernels::check(cub::DeviceScan::InclusiveSum(storage, bytes,
                                               thrust::make_transform_iterator(c.sorted, Wide{}),
                                               c.prefix, c.rows * c.length, stream));
}

// A thread a row: the least prefix that holds the share ends with the least weight that is kept.
__global__ void cut_kernel(SortedTopP c) {
  const std::int64_t row = threadIdx.x;
  if (row >= c.rows) {
    return;
  }
  const double* prefix = c.prefix + row * c.length;
  const double before = row == 0 ? 0.0 : prefix[-1];
  const double wanted = c.p * (prefix[c.length - 1] - before);
  std::int64_t low = 0, high = c.length - 1;
  while (low < high) {
    const std::int64_t middle = (low + high) / 2;
    if (prefix[middle] - before < wanted) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  c.least[row] = c.sorted[row * c.length + low];
}

__global__ void __launch_bounds__(kThreads) union_kernel(SortedTopP c) {
  const std::int64_t token = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (token >= c.length) {
    return;
  }
  int kept = 0;
  for (std::int64_t row = 0; row < c.rows; ++row) {
    kept |= c.weights[row * c.length + token] >= c.least[row] ? 1 : 0;
  }
  c.mask[token] = kept;
}

}  // namespace

std::size_t sorted_top_p_bytes(const SortedTopP& choice) {
  std::size_t sort = 0, sum = 0;
  sort_rows(choice, nullptr, sort, nullptr);
  add_up(choice, nullptr, sum, nullptr);
  return std::max(sort, sum);
}

void enqueue_sorted_top_p(const SortedTopP& choice, std::size_t storage_bytes,
                          cudaStream_t stream) {
  std::size_t bytes = storage_bytes;
  sort_rows(choice, choice.storage, bytes, stream);
  bytes = storage_bytes;
  add_up(choice, choice.storage, bytes, stream);
  cut_kernel<<<1, kThreads, 0, stream>>>(choice);
  kernels::check(cudaGetLastError());
  union_kernel<<<static_cast<unsigned>((choice.length + kThreads - 1) / kThreads), kThreads, 0,
                 stream>>>(choice);
  kernels::check(cudaGetLastError());
}

}  // namespace versieve::testing
