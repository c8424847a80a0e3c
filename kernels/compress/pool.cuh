// phi of one compressed token and KV head by one thread block: its l tokens' keys and values come
// into shared memory all at once, then a thread an element adds them up in their order.
#pragma once

#include <cstddef>

#include "kernels/common/device_element.cuh"
#include "kernels/common/element_unit.cuh"
#include "kernels/ops.h"

namespace versieve::kernels {

inline constexpr int kPoolThreads = 256;

// Shared memory of a block: weights [2, l] and the key before rotary [d] in f32, keys and values
// [2, l, d].
template <class T>
struct PoolMemory {
  float* weights;
  float* key;
  T* rows;

  static std::size_t bytes(const CompressParams<T>& p) {
    return floats_bytes(p) + static_cast<std::size_t>(2 * p.cmp_block * p.head_dim) * sizeof(T);
  }
  __device__ PoolMemory(const CompressParams<T>& p, unsigned char* shared)
      : weights(reinterpret_cast<float*>(shared)),
        key(weights + 2 * p.cmp_block),
        rows(reinterpret_cast<T*>(shared + floats_bytes(p))) {}

 private:
  __host__ __device__ static std::size_t floats_bytes(const CompressParams<T>& p) {
    return (static_cast<std::size_t>(2 * p.cmp_block + p.head_dim) * sizeof(float) + 15) / 16 * 16;
  }
};

// The pair (e mod d/2, e mod d/2 + d/2) turned by position * frequency; this thread's half.
template <class T>
__device__ inline float rotated(const CompressParams<T>& p, const float* key, int e,
                                std::int64_t position) {
  const int head_dim = static_cast<int>(p.head_dim);
  const int half = head_dim / 2;
  const int i = e % half;
  const double frequency =
      p.frequency != nullptr ? p.frequency[i] : pow(p.theta, -2.0 * i / head_dim);
  double sine;
  double cosine;
  sincos(static_cast<double>(position) * frequency, &sine, &cosine);
  const float low = key[i];
  const float high = key[i + half];
  const float c = static_cast<float>(cosine * p.scale);
  const float s = static_cast<float>(sine * p.scale);
  return e < half ? __fadd_rn(__fmul_rn(low, c), -__fmul_rn(high, s))
                  : __fadd_rn(__fmul_rn(high, c), __fmul_rn(low, s));
}

// The weights of KV head g, which nobody writes.
template <class T>
__device__ inline void stage_weights(const CompressParams<T>& p, std::int64_t g,
                                     const PoolMemory<T>& memory) {
  const int l = static_cast<int>(p.cmp_block);
  for (int j = static_cast<int>(threadIdx.x); j < l; j += kPoolThreads) {
    memory.weights[j] = load_f32(p.compress_key + g * l + j);
    memory.weights[l + j] = load_f32(p.compress_value + g * l + j);
  }
}

// Keys and values of the row's tokens: those of the cache, those of the tree, or all. tree.key(n,
// e) and tree.value(n, e) are units of node n's rows at element e of the head.
template <class T, int kUnit, class Tree>
__device__ inline void stage_tokens(const CompressParams<T>& p, std::int64_t row, std::int64_t g,
                                    const Tree& tree, bool cached, bool drafted,
                                    const PoolMemory<T>& memory) {
  const int d = static_cast<int>(p.head_dim);
  const int units = d / kUnit;
  const int count = static_cast<int>(p.cmp_block) * units;
  T* const values = memory.rows + p.cmp_block * d;
#pragma unroll 1
  for (int i = static_cast<int>(threadIdx.x); i < count; i += kPoolThreads) {
    const int j = i / units;
    const int e = (i - j * units) * kUnit;
    const int source = p.source[row * p.cmp_block + j];
    if (source >= 0 && cached) {
      const std::int64_t at = (source * p.num_kv_heads + g) * d + e;
      const Unit<T, kUnit> key = load_unit<T, kUnit>(p.k_cache + at);
      const Unit<T, kUnit> value = load_unit<T, kUnit>(p.v_cache + at);
      store_unit(memory.rows + i * kUnit, key);
      store_unit(values + i * kUnit, value);
    } else if (source < 0 && drafted) {
      store_unit(memory.rows + i * kUnit, tree.key(-1 - source, e));
      store_unit(values + i * kUnit, tree.value(-1 - source, e));
    }
  }
}

// key = sum_j w_k[j] (k_j + pe_j), value = sum_j w_v[j] v_j over staged rows, j ascending, with
// fused multiply-adds.
template <class T>
__device__ inline void pool(const CompressParams<T>& p, std::int64_t row, std::int64_t g,
                            const PoolMemory<T>& memory) {
  const int d = static_cast<int>(p.head_dim);
  const int l = static_cast<int>(p.cmp_block);
  const std::int64_t to = (row * p.num_kv_heads + g) * d;
  for (int i = static_cast<int>(threadIdx.x); i < 2 * d; i += kPoolThreads) {
    const bool is_key = i < d;
    const int e = is_key ? i : i - d;
    const float* const weights = memory.weights + (is_key ? 0 : l);
    const T* const rows = memory.rows + (is_key ? 0 : l * d) + e;
    const T* const shift =
        is_key && p.intra_block_pe != nullptr ? p.intra_block_pe + g * l * d + e : nullptr;
    float sum = 0.0F;
#pragma unroll 8
    for (int j = 0; j < l; ++j) {
      const float x = load_f32(rows + j * d);
      sum = fmaf(weights[j], shift != nullptr ? x + load_f32(shift + j * d) : x, sum);
    }
    if (is_key && p.rotate) {
      memory.key[e] = sum;
    } else {
      store_f32((is_key ? p.k_cmp : p.v_cmp) + to + e, sum);
    }
  }
  if (p.rotate) {
    __syncthreads();
    for (int e = static_cast<int>(threadIdx.x); e < d; e += kPoolThreads) {
      store_f32(p.k_cmp + to + e, rotated(p, memory.key, e, p.block[row] * p.cmp_stride));
    }
  }
}

}  // namespace versieve::kernels
