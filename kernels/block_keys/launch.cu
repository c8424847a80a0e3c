// One thread takes a piece of a block's row and walks over the block's tokens: 16 bytes, or an
// element where rows are no whole 16-byte words. Traffic: traffic::block_keys. Bound by memory in a
// full build, by latency in an update.
#include <algorithm>

#include "kernels/block_keys/together.h"
#include "kernels/block_keys/traffic_shape.h"
#include "kernels/common/call_list.cuh"
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

// Grid: (pieces of the rebuilt blocks, layer, call).
template <class T, int kElements, int kCalls>
__global__ void __launch_bounds__(kThreads)
    block_keys_kernel(const __grid_constant__ CallList<BlockKeysParams<T>, kCalls> calls) {
  const BlockKeysParams<T>& p = calls.at(blockIdx.z);
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

// Blocks whose keys a call makes, at most.
template <class T>
std::int64_t blocks_of(const BlockKeysParams<T>& p) {
  const std::int64_t newest = p.length - p.first_token;
  if (newest <= 0) {
    return 0;
  }
  // At another length the same number of newest tokens may touch one block more.
  return p.counts == nullptr ? key_block_count(p.length, p.key_block) - p.first_token / p.key_block
                             : key_block_count(newest, p.key_block) + 1;
}

template <int kElements, class T, int kCalls>
void launch(const CallList<BlockKeysParams<T>, kCalls>& list, std::int64_t blocks, int calls,
            cudaStream_t stream) {
  const BlockKeysParams<T>& p = list.call[0];
  const std::int64_t threads = blocks * (p.num_kv_heads * p.head_dim / kElements);
  launch_dependent({.grid = dim3(static_cast<unsigned>((threads + kThreads - 1) / kThreads),
                                 static_cast<unsigned>(p.layers), static_cast<unsigned>(calls)),
                    .threads = kThreads,
                    .stream = stream},
                   block_keys_kernel<T, kElements, kCalls>, list);
}

}  // namespace

template <class T>
void launch_block_keys_together(std::span<const BlockKeysParams<T>> calls,
                                const LaunchContext& context) {
  launch_lists(calls, [&](const auto& list, std::span<const BlockKeysParams<T>> some) {
    Traffic traffic;
    for (const BlockKeysParams<T>& p : some) {
      VERSIEVE_ASSERT(p.key_block >= 1 && p.first_token >= 0, "a block holds a token");
      VERSIEVE_ASSERT(p.layers == some[0].layers && p.num_kv_heads == some[0].num_kv_heads &&
                          p.head_dim == some[0].head_dim,
                      "calls are of one model");
      traffic += blocks_of(p) == 0 ? Traffic{} : block_keys_traffic(p);
    }
    const std::int64_t blocks = most_of(some, [](const auto& p) { return blocks_of(p); });
    if (blocks == 0) {
      return;
    }
    const LaunchRange range("block_keys", traffic, context.observer);
    const bool whole_words = some[0].num_kv_heads * some[0].head_dim % kWordElements<T> == 0;
    const int count = static_cast<int>(some.size());
    whole_words ? launch<kWordElements<T>>(list, blocks, count, context.stream)
                : launch<1>(list, blocks, count, context.stream);
    check(cudaGetLastError());
  });
}

template <class T>
void launch_block_keys(const BlockKeysParams<T>& p, const LaunchContext& context) {
  launch_block_keys_together(std::span(&p, 1), context);
}

template void launch_block_keys<float>(const BlockKeysParams<float>&, const LaunchContext&);
template void launch_block_keys<Bf16>(const BlockKeysParams<Bf16>&, const LaunchContext&);
template void launch_block_keys_together<float>(std::span<const BlockKeysParams<float>>,
                                                const LaunchContext&);
template void launch_block_keys_together<Bf16>(std::span<const BlockKeysParams<Bf16>>,
                                               const LaunchContext&);

}  // namespace versieve::kernels
