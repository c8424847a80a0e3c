// rope: one block a row. Its threads first compute the row's sines and cosines in double, then turn
// the pairs of every head. Bound by reading and writing the row.
#include "kernels/common/cuda_check.h"
#include "kernels/common/device_element.cuh"
#include "kernels/common/launch_range.h"
#include "kernels/launch.h"
#include "kernels/rope_append/angles.cuh"
#include "model/launches/rope_append.h"

namespace versieve::kernels {
namespace {

constexpr int kThreads = 256;

template <class T>
__global__ void __launch_bounds__(kThreads)
    rope_kernel(const __grid_constant__ RopeParams<T> p,
                const __grid_constant__ RotaryFrequencies frequencies) {
  __shared__ float cosine[kMaxRotaryPairs];
  __shared__ float sine[kMaxRotaryPairs];
  const int half = static_cast<int>(p.head_dim / 2);
  const double position = p.position[blockIdx.x];
  for (int i = static_cast<int>(threadIdx.x); i < half; i += kThreads) {
    double s = 0.0;
    double c = 0.0;
    sincos(position * frequencies.value[i], &s, &c);
    cosine[i] = static_cast<float>(c);
    sine[i] = static_cast<float>(s);
  }
  __syncthreads();
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * p.heads * p.head_dim;
  const int pairs = static_cast<int>(p.heads) * half;
  for (int at = static_cast<int>(threadIdx.x); at < pairs; at += kThreads) {
    const int i = at % half;
    const std::int64_t low_at = row + static_cast<std::int64_t>(at / half) * p.head_dim + i;
    const float low = load_f32(p.x + low_at);
    const float high = load_f32(p.x + low_at + half);
    store_f32(p.y + low_at, low * cosine[i] - high * sine[i]);
    store_f32(p.y + low_at + half, high * cosine[i] + low * sine[i]);
  }
}

}  // namespace

template <class T>
void launch_rope(const RopeParams<T>& p, const LaunchContext& context) {
  if (p.n == 0) {
    return;
  }
  const RotaryFrequencies frequencies = rotary_frequencies(p.theta, p.head_dim);
  const LaunchRange range("rope", traffic::rope(p.n, p.heads, p.head_dim, sizeof(T)),
                          context.observer);
  rope_kernel<T><<<static_cast<unsigned>(p.n), kThreads, 0, context.stream>>>(p, frequencies);
  check(cudaGetLastError());
}

template void launch_rope<float>(const RopeParams<float>&, const LaunchContext&);
template void launch_rope<Bf16>(const RopeParams<Bf16>&, const LaunchContext&);

}  // namespace versieve::kernels
