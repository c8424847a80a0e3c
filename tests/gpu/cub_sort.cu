#include "tests/gpu/cub_sort.h"

#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/transform_iterator.h>

#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_segmented_radix_sort.cuh>

#include "kernels/common/cuda_check.h"

namespace versieve::testing {
namespace {

struct RowStart {
  std::int64_t length = 0;
  std::int64_t offset = 0;
  __host__ __device__ std::int64_t operator()(std::int64_t row) const {
    return (row + offset) * length;
  }
};

void sort_rows(const CubSort& s, void* storage, std::size_t& bytes, cudaStream_t stream) {
  if (s.segmented) {
    const auto bounds = [&](std::int64_t offset) {
      return thrust::make_transform_iterator(thrust::counting_iterator<std::int64_t>(0),
                                             RowStart{s.length, offset});
    };
    kernels::check(cub::DeviceSegmentedRadixSort::SortPairsDescending(
        storage, bytes, s.scores, s.sorted, s.index, s.sorted_index, s.rows * s.length, s.rows,
        bounds(0), bounds(1), 0, 32, stream));
    return;
  }
  for (std::int64_t row = 0; row < (storage == nullptr ? 1 : s.rows); ++row) {
    const std::int64_t at = row * s.length;
    kernels::check(cub::DeviceRadixSort::SortPairsDescending(
        storage, bytes, s.scores + at, s.sorted + at, s.index + at, s.sorted_index + at, s.length,
        0, 32, stream));
  }
}

}  // namespace

std::size_t cub_sort_bytes(const CubSort& sort) {
  std::size_t bytes = 0;
  sort_rows(sort, nullptr, bytes, nullptr);
  return bytes;
}

void enqueue_cub_sort(const CubSort& sort, std::size_t storage_bytes, cudaStream_t stream) {
  sort_rows(sort, sort.storage, storage_bytes, stream);
}

}  // namespace versieve::testing
