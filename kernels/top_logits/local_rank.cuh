// An element as one integer that orders as rank_of (kernels/topk/ranked_element.cuh) does, with
// fewer bits for its index: that of a 16-bit type fits 32 bits, which a warp reduces at once.
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/topk/ranked_element.cuh"

namespace versieve::kernels {

// 0: none. Indices below 2^16 (16-bit types) or 2^32.
template <class T>
using LocalRank = std::conditional_t<sizeof(T) == 2, std::uint32_t, std::uint64_t>;

template <class T>
inline constexpr int kLocalIndexBits = static_cast<int>(sizeof(LocalRank<T>)) * 4;
template <class T>
inline constexpr LocalRank<T> kMostLocalIndex = (LocalRank<T>{1} << kLocalIndexBits<T>)-1;

template <class T>
__device__ inline LocalRank<T> local_rank_of_key(std::uint32_t key, int index) {
  return (static_cast<LocalRank<T>>(key) << kLocalIndexBits<T>) |
         (kMostLocalIndex<T> - static_cast<LocalRank<T>>(index));
}
template <class T>
__device__ inline LocalRank<T> local_rank(T value, int index) {
  return local_rank_of_key<T>(order_key<T>(bits_of(value)), index);
}
template <class T>
__device__ inline int local_index(LocalRank<T> rank) {
  return static_cast<int>(kMostLocalIndex<T> - (rank & kMostLocalIndex<T>));
}
template <class T>
__device__ inline std::uint32_t key_of_local(LocalRank<T> rank) {
  return static_cast<std::uint32_t>(rank >> kLocalIndexBits<T>);
}

__device__ inline std::uint32_t best_of_warp(std::uint32_t rank) {
  return __reduce_max_sync(0xFFFFFFFFU, rank);
}
__device__ inline std::uint64_t best_of_warp(std::uint64_t rank) {
  const std::uint32_t high = static_cast<std::uint32_t>(rank >> 32);
  const std::uint32_t best = __reduce_max_sync(0xFFFFFFFFU, high);
  const std::uint32_t low = high == best ? static_cast<std::uint32_t>(rank) : 0;
  return static_cast<std::uint64_t>(best) << 32 | __reduce_max_sync(0xFFFFFFFFU, low);
}

// The bits of an element of that key: +0 for both zeros, a NaN for every NaN.
template <class T>
__device__ inline std::uint32_t bits_of_key(std::uint32_t key) {
  constexpr std::uint32_t kSign = std::uint32_t{1} << (sizeof(T) * 8 - 1);
  constexpr std::uint32_t kAll = kSign | (kSign - 1);
  return key == 0 ? kAll >> 1 : (key & kSign) != 0 ? key ^ kSign : ~key & kAll;
}

}  // namespace versieve::kernels
