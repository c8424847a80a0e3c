#include "kernels/compress/launch.h"

#include <string>

#include "kernels/common/dependent_launch.cuh"
#include "kernels/common/device_element.cuh"
#include "kernels/common/launch_range.h"
#include "kernels/compress/traffic.h"
#include "model/assert.h"
#include "model/error.h"
#include "model/traffic.h"

namespace versieve::kernels {
namespace {

constexpr int kMaxThreads = 1024;

// The pair (e mod d/2, e mod d/2 + d/2) turned by position * theta^(-2i/d); this thread's half.
__device__ float rotated(const float* key, int e, int head_dim, double theta,
                         std::int64_t position) {
  const int half = head_dim / 2;
  const int i = e % half;
  const double frequency = pow(theta, -2.0 * i / head_dim);
  double sine;
  double cosine;
  sincos(static_cast<double>(position) * frequency, &sine, &cosine);
  const float low = key[i];
  const float high = key[i + half];
  const float c = static_cast<float>(cosine);
  const float s = static_cast<float>(sine);
  return e < half ? __fadd_rn(__fmul_rn(low, c), -__fmul_rn(high, s))
                  : __fadd_rn(__fmul_rn(high, c), __fmul_rn(low, s));
}

// key = sum_j w_k[j] (k_j + pe_j), value = sum_j w_v[j] v_j, in the order of the tokens.
// Grid: (row, KV head), a thread an element. Traffic: traffic::compress. Starts
// under the launch before it. Bound by latency.
template <class T>
__global__ void __launch_bounds__(kMaxThreads)
    compress_kernel(const __grid_constant__ CompressParams<T> p) {
  extern __shared__ float key_row[];  // [d]
  release_successors();
  wait_for_predecessors();
  const std::int64_t row = blockIdx.x;
  const std::int64_t g = blockIdx.y;
  if (p.counts != nullptr && row >= p.counts->tree_compressed) {
    return;
  }
  const int e = static_cast<int>(threadIdx.x);
  const std::int32_t* source = p.source + row * p.cmp_block;
  float key = 0.0F;
  float value = 0.0F;
#pragma unroll 4
  for (int j = 0; j < p.cmp_block; ++j) {
    const std::int64_t token = source[j] >= 0 ? source[j] : -1 - std::int64_t{source[j]};
    const std::int64_t at = (token * p.num_kv_heads + g) * p.head_dim + e;
    const float k = device_float(source[j] >= 0 ? p.k_cache[at] : p.k_tree[at]);
    const float v = device_float(source[j] >= 0 ? p.v_cache[at] : p.v_tree[at]);
    const std::int64_t weight = g * p.cmp_block + j;
    const float shift = p.intra_block_pe == nullptr
                            ? 0.0F
                            : device_float(p.intra_block_pe[weight * p.head_dim + e]);
    key = fmaf(device_float(p.compress_key[weight]), k + shift, key);
    value = fmaf(device_float(p.compress_value[weight]), v, value);
  }
  if (p.rotate) {
    key_row[e] = key;
    __syncthreads();
    key = rotated(key_row, e, static_cast<int>(p.head_dim), p.theta, p.block[row] * p.cmp_stride);
  }
  const std::int64_t to = (row * p.num_kv_heads + g) * p.head_dim + e;
  store_f32(p.k_cmp + to, key);
  store_f32(p.v_cmp + to, value);
}

}  // namespace

template <class T>
void launch_compress(const CompressParams<T>& p, const LaunchContext& context) {
  VERSIEVE_ASSERT(p.cmp_block >= 1 && p.num_kv_heads >= 1, "phi pools at least one token");
  VERSIEVE_ASSERT(!p.rotate || p.head_dim % 2 == 0, "rotary pairs need an even head size");
  if (p.rows == 0) {
    return;
  }
  if (p.head_dim > kMaxThreads) {
    throw Error(ExitCode::kAnswerNo,
                "the CUDA kernels take a head size up to 1024, not " + std::to_string(p.head_dim));
  }
  const dim3 grid(static_cast<unsigned>(p.rows), static_cast<unsigned>(p.num_kv_heads));
  const LaunchRange range("compress", compress_traffic(p), context.observer);
  launch_dependent({.grid = grid,
                    .threads = static_cast<unsigned>(p.head_dim),
                    .shared_bytes = static_cast<std::size_t>(p.head_dim) * sizeof(float),
                    .stream = context.stream},
                   compress_kernel<T>, p);
}

template void launch_compress<float>(const CompressParams<float>&, const LaunchContext&);
template void launch_compress<Bf16>(const CompressParams<Bf16>&, const LaunchContext&);

}  // namespace versieve::kernels
