// topk, variant `sort`: order-preserving integer keys, a stable radix sort of (key, index) a row,
// the first k indices sorted again, values gathered. Exact for every input. Rows of moderate length
// go to CUB's segmented sort together, long ones one by one to its device-wide sort.
#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/transform_iterator.h>
#include <algorithm>
#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_segmented_radix_sort.cuh>
#include <limits>

#include "kernels/common/cuda_check.h"
#include "kernels/common/launch_range.h"
#include "kernels/topk/ranked_element.cuh"
#include "kernels/topk/sort.h"
#include "model/launches/topk.h"
#include "model/words/assert.h"

namespace versieve::kernels {
namespace {

constexpr int kThreads = 256;
constexpr std::int64_t kLongRow = 16384;  // longer rows get the whole device, one after another

template <class T>
using Key = typename OrderBits<T>::Bits;

// A tensor's place in scratch; each starts on 256 bytes.
struct Layout {
  std::size_t key = 0;           // [R, Lp]
  std::size_t sorted_key = 0;    // [R, Lp]
  std::size_t index = 0;         // [R, Lp], later the chosen indices ascending
  std::size_t sorted_index = 0;  // [R, Lp]
  std::size_t sort_storage = 0;  // CUB's own
  std::size_t storage_bytes = 0;
  std::size_t end = 0;
};

// Row r as a segment of the sorted sequence: [r * stride, r * stride + length).
struct SegmentStart {
  std::int64_t stride = 0;
  std::int64_t length = 0;
  __host__ __device__ std::int64_t operator()(std::int64_t row) const {
    return row * stride + length;
  }
};

auto segment_bounds(std::int64_t stride, std::int64_t length) {
  return thrust::make_transform_iterator(thrust::counting_iterator<std::int64_t>(0),
                                         SegmentStart{stride, length});
}

// (key, index) of every row, highest key first. Null storage asks for its size.
template <class T>
void sort_rows(void* storage, std::size_t& bytes, const Key<T>* key, Key<T>* sorted_key,
               const std::int32_t* index, std::int32_t* sorted_index, const TopkParams<T>& p,
               cudaStream_t stream) {
  const int key_bits = static_cast<int>(sizeof(Key<T>)) * 8;
  if (p.length <= kLongRow) {
    check(cub::DeviceSegmentedRadixSort::SortPairsDescending(
        storage, bytes, key, sorted_key, index, sorted_index, p.rows * p.length, p.rows,
        segment_bounds(p.length, 0), segment_bounds(p.length, p.length), 0, key_bits, stream));
    return;
  }
  for (std::int64_t row = 0; row < (storage == nullptr ? 1 : p.rows); ++row) {
    const std::int64_t at = row * p.length;
    check(cub::DeviceRadixSort::SortPairsDescending(storage, bytes, key + at, sorted_key + at,
                                                    index + at, sorted_index + at, p.length, 0,
                                                    key_bits, stream));
  }
}

// The first `count` indices of every row, ascending.
template <class T>
void sort_chosen(void* storage, std::size_t& bytes, const std::int32_t* sorted_index,
                 std::int32_t* chosen, std::int64_t count, const TopkParams<T>& p,
                 cudaStream_t stream) {
  if (count <= kLongRow) {
    check(cub::DeviceSegmentedRadixSort::SortKeys(
        storage, bytes, sorted_index, chosen, p.rows * p.length, p.rows,
        segment_bounds(p.length, 0), segment_bounds(p.length, count), 0, 32, stream));
    return;
  }
  for (std::int64_t row = 0; row < (storage == nullptr ? 1 : p.rows); ++row) {
    const std::int64_t at = row * p.length;
    check(cub::DeviceRadixSort::SortKeys(storage, bytes, sorted_index + at, chosen + at, count, 0,
                                         32, stream));
  }
}

template <class T>
Layout layout_of(const TopkParams<T>& p) {
  const auto after = [](std::size_t at, std::size_t bytes) {
    return at + (bytes + 255) / 256 * 256;
  };
  const std::size_t count = static_cast<std::size_t>(p.rows * p.length);
  Layout layout;
  layout.sorted_key = after(layout.key, count * sizeof(Key<T>));
  layout.index = after(layout.sorted_key, count * sizeof(Key<T>));
  layout.sorted_index = after(layout.index, count * sizeof(std::int32_t));
  layout.sort_storage = after(layout.sorted_index, count * sizeof(std::int32_t));
  std::size_t pairs_bytes = 0;
  sort_rows<T>(nullptr, pairs_bytes, nullptr, nullptr, nullptr, nullptr, p, nullptr);
  std::size_t chosen_bytes = 0;
  sort_chosen<T>(nullptr, chosen_bytes, nullptr, nullptr, std::min(p.k, p.length), p, nullptr);
  layout.storage_bytes = std::max(pairs_bytes, chosen_bytes);
  layout.end = after(layout.sort_storage, layout.storage_bytes);
  return layout;
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    topk_keys_kernel(const T* scores, std::int64_t count, std::int64_t length, Key<T>* key,
                     std::int32_t* index) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i < count) {
    key[i] = order_key<T>(bits_of(scores[i]));
    index[i] = static_cast<std::int32_t>(i % length);
  }
}

// Chosen indices and their scores, then -1 and -infinity.
template <class T>
__global__ void __launch_bounds__(kThreads)
    topk_gather_kernel(const __grid_constant__ TopkParams<T> p, const std::int32_t* chosen,
                       T minus_infinity) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= p.rows * p.k) {
    return;
  }
  const std::int64_t row = i / p.k;
  const std::int64_t place = i % p.k;
  const bool exists = place < p.length;
  const std::int32_t index = exists ? chosen[row * p.length + place] : -1;
  p.indices[i] = index;
  p.values[i] = exists ? p.scores[row * p.length + index] : minus_infinity;
}

float minus_infinity_of(float) {
  return -std::numeric_limits<float>::infinity();
}
Bf16 minus_infinity_of(Bf16) {
  return {0xFF80};
}

unsigned blocks_for(std::int64_t count) {
  return static_cast<unsigned>((count + kThreads - 1) / kThreads);
}

}  // namespace

template <class T>
std::size_t topk_sort_scratch_bytes(const TopkParams<T>& p) {
  return layout_of(p).end;
}

template <class T>
void launch_topk_sort(const TopkParams<T>& p, const LaunchContext& context) {
  VERSIEVE_ASSERT(p.rows >= 1 && p.length >= 1 && p.k >= 1, "topk needs rows, scores and k");
  VERSIEVE_ASSERT(p.length <= std::numeric_limits<std::int32_t>::max(), "indices are 32-bit");
  Layout layout = layout_of(p);
  VERSIEVE_ASSERT(context.scratch_bytes >= layout.end, "topk's scratch is reserved before");
  char* scratch = static_cast<char*>(context.scratch);
  Key<T>* key = reinterpret_cast<Key<T>*>(scratch + layout.key);
  Key<T>* sorted_key = reinterpret_cast<Key<T>*>(scratch + layout.sorted_key);
  std::int32_t* index = reinterpret_cast<std::int32_t*>(scratch + layout.index);
  std::int32_t* sorted_index = reinterpret_cast<std::int32_t*>(scratch + layout.sorted_index);
  void* storage = scratch + layout.sort_storage;
  const std::int64_t count = p.rows * p.length;

  const LaunchRange range("topk", traffic::topk(p.rows, p.length, p.k, sizeof(T), 0),
                          context.observer);
  topk_keys_kernel<T>
      <<<blocks_for(count), kThreads, 0, context.stream>>>(p.scores, count, p.length, key, index);
  check(cudaGetLastError());
  sort_rows<T>(storage, layout.storage_bytes, key, sorted_key, index, sorted_index, p,
               context.stream);
  sort_chosen<T>(storage, layout.storage_bytes, sorted_index, index, std::min(p.k, p.length), p,
                 context.stream);
  topk_gather_kernel<T>
      <<<blocks_for(p.rows * p.k), kThreads, 0, context.stream>>>(p, index, minus_infinity_of(T{}));
  check(cudaGetLastError());
}

template std::size_t topk_sort_scratch_bytes<float>(const TopkParams<float>&);
template std::size_t topk_sort_scratch_bytes<Bf16>(const TopkParams<Bf16>&);
template void launch_topk_sort<float>(const TopkParams<float>&, const LaunchContext&);
template void launch_topk_sort<Bf16>(const TopkParams<Bf16>&, const LaunchContext&);

}  // namespace versieve::kernels
