// One thread takes a piece of a block's row and walks over the block's tokens: 16 bytes, or an
// element where rows are no whole 16-byte words. Traffic: traffic::block_keys. Bound by memory in a
// full build, by latency in an update.
#include "kernels/block_keys/traffic_shape.h"
#include "kernels/common/cuda_check.h"
#include "kernels/common/dependent_launch.cuh"
#include "kernels/common/device_element.cuh"
#include "kernels/common/launch_range.h"
#include "kernels/launch.h"
#include "model/words/assert.h"

namespace versieve::kernels {
namespace {

constexpr int kThreads = 128;

template <class T, int kElements>
struct Piece {
  T element[kElements];
};

template <class T, int kElements>
__device__ Piece<T, kElements> load_piece(const T* p) {
  if constexpr (kElements == kWordElements<T>) {
    const uint4 raw = *reinterpret_cast<const uint4*>(p);
    return *reinterpret_cast<const Piece<T, kElements>*>(&raw);
  } else {
    static_assert(kElements == 1, "a word or an element");
    return {{*p}};
  }
}
template <class T, int kElements>
__device__ void store_piece(T* p, const Piece<T, kElements>& piece) {
  if constexpr (kElements == kWordElements<T>) {
    *reinterpret_cast<uint4*>(p) = *reinterpret_cast<const uint4*>(&piece);
  } else {
    *p = piece.element[0];
  }
}

// Grid: (pieces of the rebuilt blocks, layer).
template <class T, int kElements>
__global__ void __launch_bounds__(kThreads)
    block_keys_kernel(const __grid_constant__ BlockKeysParams<T> p) {
  wait_for_predecessors();
  const std::int64_t length = p.counts == nullptr ? p.length : p.counts->context_len;
  const std::int64_t first_token = p.counts == nullptr
                                       ? p.first_token
                                       : max(std::int64_t{0}, length - (p.length - p.first_token));
  const std::int64_t width = p.num_kv_heads * p.head_dim;
  const std::int64_t pieces = width / kElements;
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  const std::int64_t block = first_token / p.key_block + i / pieces;
  const std::int64_t first = block * p.key_block;
  if (first >= length || first_token >= length) {
    return;
  }
  const std::int64_t column = i % pieces * kElements;
  const std::int64_t last = min(length, first + p.key_block);
  const T* const k = p.k + blockIdx.y * p.k_layer_rows * width + column;
  Piece<T, kElements> least = load_piece<T, kElements>(k + p.pages.row(first) * width);
  Piece<T, kElements> most = least;
#pragma unroll 4
  for (std::int64_t token = first + 1; token < last; ++token) {
    const Piece<T, kElements> key = load_piece<T, kElements>(k + p.pages.row(token) * width);
#pragma unroll
    for (int e = 0; e < kElements; ++e) {
      const float x = device_float(key.element[e]);
      least.element[e] = x < device_float(least.element[e]) ? key.element[e] : least.element[e];
      most.element[e] = x > device_float(most.element[e]) ? key.element[e] : most.element[e];
    }
  }
  const std::int64_t at = (blockIdx.y * p.key_layer_rows + block) * width + column;
  store_piece(p.kmin + at, least);
  store_piece(p.kmax + at, most);
}

template <class T, int kElements>
void launch(const BlockKeysParams<T>& p, std::int64_t blocks, cudaStream_t stream) {
  const std::int64_t threads = blocks * (p.num_kv_heads * p.head_dim / kElements);
  launch_dependent({.grid = dim3(static_cast<unsigned>((threads + kThreads - 1) / kThreads),
                                 static_cast<unsigned>(p.layers)),
                    .threads = kThreads,
                    .stream = stream},
                   block_keys_kernel<T, kElements>, p);
}

}  // namespace

template <class T>
void launch_block_keys(const BlockKeysParams<T>& p, const LaunchContext& context) {
  VERSIEVE_ASSERT(p.key_block >= 1 && p.first_token >= 0, "a block holds a token");
  const std::int64_t newest = p.length - p.first_token;
  if (newest <= 0) {
    return;
  }
  // At another length the same number of newest tokens may touch one block more.
  const std::int64_t blocks =
      p.counts == nullptr ? key_block_count(p.length, p.key_block) - p.first_token / p.key_block
                          : key_block_count(newest, p.key_block) + 1;
  const LaunchRange range("block_keys", block_keys_traffic(p), context.observer);
  const bool whole_words = p.num_kv_heads * p.head_dim % kWordElements<T> == 0;
  whole_words ? launch<T, kWordElements<T>>(p, blocks, context.stream)
              : launch<T, 1>(p, blocks, context.stream);
  check(cudaGetLastError());
}

template void launch_block_keys<float>(const BlockKeysParams<float>&, const LaunchContext&);
template void launch_block_keys<Bf16>(const BlockKeysParams<Bf16>&, const LaunchContext&);

}  // namespace versieve::kernels
