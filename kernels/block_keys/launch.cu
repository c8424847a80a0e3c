// One thread takes 16 bytes of a block's row and walks over the block's tokens. Traffic:
// traffic::block_keys. Bound by memory in a full build, by latency in an update.
#include "kernels/block_keys/launch.h"
#include "kernels/block_keys/traffic_shape.h"
#include "kernels/common/cuda_check.h"
#include "kernels/common/dependent_launch.cuh"
#include "kernels/common/device_element.cuh"
#include "kernels/common/launch_range.h"
#include "model/words/assert.h"

namespace versieve::kernels {
namespace {

constexpr int kThreads = 128;

template <class T>
struct Word {
  T element[kWordElements<T>];
};

template <class T>
__device__ Word<T> load_word(const T* p) {
  const uint4 raw = *reinterpret_cast<const uint4*>(p);
  return *reinterpret_cast<const Word<T>*>(&raw);
}
template <class T>
__device__ void store_word(T* p, const Word<T>& word) {
  *reinterpret_cast<uint4*>(p) = *reinterpret_cast<const uint4*>(&word);
}

// Grid: (words of the rebuilt blocks, layer).
template <class T>
__global__ void __launch_bounds__(kThreads)
    block_keys_kernel(const __grid_constant__ BlockKeysParams<T> p) {
  wait_for_predecessors();
  const std::int64_t length = p.counts == nullptr ? p.length : p.counts->context_len;
  const std::int64_t first_token = p.counts == nullptr
                                       ? p.first_token
                                       : max(std::int64_t{0}, length - (p.length - p.first_token));
  const std::int64_t width = p.num_kv_heads * p.head_dim;
  const std::int64_t words = width / kWordElements<T>;
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  const std::int64_t block = first_token / p.key_block + i / words;
  const std::int64_t first = block * p.key_block;
  if (first >= length || first_token >= length) {
    return;
  }
  const std::int64_t column = i % words * kWordElements<T>;
  const std::int64_t last = min(length, first + p.key_block);
  const T* k = p.k + (blockIdx.y * p.k_layer_rows + first) * width + column;
  Word<T> least = load_word(k);
  Word<T> most = least;
#pragma unroll 4
  for (std::int64_t token = first + 1; token < last; ++token) {
    k += width;
    const Word<T> key = load_word(k);
#pragma unroll
    for (int e = 0; e < kWordElements<T>; ++e) {
      const float x = device_float(key.element[e]);
      least.element[e] = x < device_float(least.element[e]) ? key.element[e] : least.element[e];
      most.element[e] = x > device_float(most.element[e]) ? key.element[e] : most.element[e];
    }
  }
  const std::int64_t at = (blockIdx.y * p.key_layer_rows + block) * width + column;
  store_word(p.kmin + at, least);
  store_word(p.kmax + at, most);
}

}  // namespace

template <class T>
void launch_block_keys(const BlockKeysParams<T>& p, const LaunchContext& context) {
  const std::int64_t width = p.num_kv_heads * p.head_dim;
  VERSIEVE_ASSERT(width % kWordElements<T> == 0, "rows are whole 16-byte words");
  VERSIEVE_ASSERT(p.key_block >= 1 && p.first_token >= 0, "a block holds a token");
  const std::int64_t newest = p.length - p.first_token;
  if (newest <= 0) {
    return;
  }
  // At another length the same number of newest tokens may touch one block more.
  const std::int64_t blocks =
      p.counts == nullptr ? key_block_count(p.length, p.key_block) - p.first_token / p.key_block
                          : key_block_count(newest, p.key_block) + 1;
  const std::int64_t threads = blocks * (width / kWordElements<T>);
  const LaunchRange range("block_keys", block_keys_traffic(p), context.observer);
  launch_dependent({.grid = dim3(static_cast<unsigned>((threads + kThreads - 1) / kThreads),
                                 static_cast<unsigned>(p.layers)),
                    .threads = kThreads,
                    .stream = context.stream},
                   block_keys_kernel<T>, p);
  check(cudaGetLastError());
}

template void launch_block_keys<float>(const BlockKeysParams<float>&, const LaunchContext&);
template void launch_block_keys<Bf16>(const BlockKeysParams<Bf16>&, const LaunchContext&);

}  // namespace versieve::kernels
