// rms_norm: one block a row; thread t squares elements t, t + 256, ..., the block adds in an order
// fixed by the thread index. Bound by reading and writing the row.
#include "kernels/common/block_reduce.cuh"
#include "kernels/common/cuda_check.h"
#include "kernels/common/device_element.cuh"
#include "kernels/common/launch_range.h"
#include "kernels/rms_norm/launch.h"
#include "model/assert.h"
#include "model/op_traffic.h"

namespace versieve::kernels {
namespace {

constexpr int kThreads = 256;

template <class T>
__global__ void __launch_bounds__(kThreads)
    rms_norm_kernel(const __grid_constant__ RmsNormParams<T> p) {
  __shared__ float shared[kThreads / 32];
  const T* x = p.x + static_cast<std::int64_t>(blockIdx.x) * p.x_stride;
  T* y = p.y + static_cast<std::int64_t>(blockIdx.x) * p.y_stride;
  const int k = static_cast<int>(p.k);
  float square = 0.0F;
  for (int i = static_cast<int>(threadIdx.x); i < k; i += kThreads) {
    const float value = load_f32(x + i);
    square = fmaf(value, value, square);
  }
  const float sum = block_sum<kThreads>(square, shared);
  const float scale = 1.0F / sqrtf(sum / static_cast<float>(k) + static_cast<float>(p.eps));
  for (int i = static_cast<int>(threadIdx.x); i < k; i += kThreads) {
    store_f32(y + i, load_f32(x + i) * scale * load_f32(p.weight + i));
  }
}

}  // namespace

template <class T>
void launch_rms_norm(const RmsNormParams<T>& p, const LaunchContext& context) {
  VERSIEVE_ASSERT(p.k >= 1 && p.k < (1 << 30), "rms_norm needs K");
  if (p.n == 0) {
    return;
  }
  RmsNormParams<T> filled = p;
  filled.x_stride = p.x_stride == 0 ? p.k : p.x_stride;
  filled.y_stride = p.y_stride == 0 ? p.k : p.y_stride;
  const LaunchRange range("rms_norm", traffic::rms_norm(p.n, p.k, sizeof(T)), context.observer);
  rms_norm_kernel<T><<<static_cast<unsigned>(p.n), kThreads, 0, context.stream>>>(filled);
  check(cudaGetLastError());
}

template void launch_rms_norm<float>(const RmsNormParams<float>&, const LaunchContext&);
template void launch_rms_norm<Bf16>(const RmsNormParams<Bf16>&, const LaunchContext&);

}  // namespace versieve::kernels
