#include "kernels/top_p/launch.h"

#include "kernels/common/block_reduce.cuh"
#include "kernels/common/cuda_check.h"
#include "kernels/common/launch_range.h"
#include "model/assert.h"
#include "model/op_traffic.h"

namespace versieve::kernels {
namespace {

constexpr int kRowThreads = 1024;
constexpr int kUnionThreads = 256;
constexpr std::int64_t kMaxSharedWeights = 48 * 1024;  // 192 KiB of the SM's 227

// Calls take(weight) for this thread's weights of a row, in an order fixed by their place.
template <class Take>
__device__ void each_weight(const float* row, std::int64_t length, const Take& take) {
  for (std::int64_t i = threadIdx.x; i < length; i += kRowThreads) {
    take(row[i]);
  }
}

__device__ double mass_from(const float* row, std::int64_t length, float least, double* shared) {
  double mass = 0.0;
  each_weight(row, length, [&](float w) { mass += w >= least ? static_cast<double>(w) : 0.0; });
  return block_sum<kRowThreads>(mass, shared);
}

__device__ float largest(const float* row, std::int64_t length, std::uint64_t* shared) {
  float most = 0.0F;
  each_weight(row, length, [&](float w) { most = fmaxf(most, w); });
  // Bits of floats that are not negative order as the floats do.
  const std::uint64_t bits = __float_as_uint(most);
  return __uint_as_float(static_cast<unsigned>(block_max<kRowThreads>(bits, shared)));
}

// Grid: one CTA a row. Traffic: traffic::top_p. Bound by the latency of dependent block sums, one
// an iteration; rows too long for shared memory are read again each time, out of L2.
__global__ void __launch_bounds__(kRowThreads)
    top_p_threshold_kernel(const __grid_constant__ TopPParams<float> p, std::int64_t stride,
                           float* least, bool staged) {
  extern __shared__ float held[];
  __shared__ double sums[kRowThreads / 32];
  __shared__ std::uint64_t maxima[kRowThreads / 32];
  const float* row = p.weights + blockIdx.x * stride;
  if (staged) {
    for (std::int64_t i = threadIdx.x; i < p.length; i += kRowThreads) {
      held[i] = row[i];  // each thread reads back only what it wrote
    }
    row = held;
  }
  float low = 0.0F;
  float high = largest(row, p.length, maxima);
  double kept = mass_from(row, p.length, 0.0F, sums);
  const double wanted = p.p * kept;
  for (std::int64_t i = 0; i < p.iterations; ++i) {
    const float mid = low / 2 + high / 2;
    if (mid == low) {
      break;
    }
    const double mass = mass_from(row, p.length, mid, sums);
    const bool enough = !(mass < wanted);
    kept = enough ? mass : kept;
    (enough ? low : high) = mid;
  }
  if (threadIdx.x == 0) {
    least[blockIdx.x] = low;
    p.mass[blockIdx.x] = static_cast<float>(kept);
  }
}

__global__ void __launch_bounds__(kUnionThreads)
    top_p_union_kernel(const __grid_constant__ TopPParams<float> p, std::int64_t stride,
                       const float* least) {
  const std::int64_t token = static_cast<std::int64_t>(blockIdx.x) * kUnionThreads + threadIdx.x;
  if (token >= p.length) {
    return;
  }
  int kept = 0;
  for (std::int64_t r = 0; r < p.rows; ++r) {
    kept |= p.weights[r * stride + token] >= least[r] ? 1 : 0;
  }
  p.mask[token] = kept;
}

}  // namespace

std::size_t top_p_scratch_bytes(const TopPParams<float>& p) {
  return static_cast<std::size_t>(p.rows) * sizeof(float);
}

void launch_top_p(const TopPParams<float>& p, const LaunchContext& context) {
  VERSIEVE_ASSERT(p.p > 0.0 && p.p <= 1.0 && p.iterations >= 0, "a share and a count");
  VERSIEVE_ASSERT(context.scratch_bytes >= top_p_scratch_bytes(p), "scratch is reserved before");
  float* least = static_cast<float*>(context.scratch);
  const LaunchRange range("top_p", traffic::top_p(p.rows, p.length), context.observer);
  if (p.rows > 0) {
    const bool staged = p.length <= kMaxSharedWeights;
    const int bytes =
        staged ? static_cast<int>(p.length * static_cast<std::int64_t>(sizeof(float))) : 0;
    check(cudaFuncSetAttribute(top_p_threshold_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               static_cast<int>(kMaxSharedWeights * sizeof(float))));
    top_p_threshold_kernel<<<static_cast<unsigned>(p.rows), kRowThreads,
                             static_cast<std::size_t>(bytes), context.stream>>>(p, p.stride(),
                                                                                least, staged);
    check(cudaGetLastError());
  }
  if (p.length > 0) {
    const std::int64_t blocks = (p.length + kUnionThreads - 1) / kUnionThreads;
    top_p_union_kernel<<<static_cast<unsigned>(blocks), kUnionThreads, 0, context.stream>>>(
        p, p.stride(), least);
    check(cudaGetLastError());
  }
}

}  // namespace versieve::kernels
