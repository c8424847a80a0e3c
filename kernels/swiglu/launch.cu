// swiglu and sigmoid: one thread an element, neighbours side by side. Bound by moving the tensors.
#include "kernels/common/cuda_check.h"
#include "kernels/common/device_element.cuh"
#include "kernels/common/launch_range.h"
#include "kernels/launch.h"
#include "kernels/swiglu/activation.cuh"
#include "model/launches/row_ops.h"

namespace versieve::kernels {
namespace {

constexpr int kThreads = 256;

template <class T>
__global__ void __launch_bounds__(kThreads)
    swiglu_kernel(const __grid_constant__ SwigluParams<T> p) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i < p.count) {
    const float gate = load_f32(p.gate + i);
    store_f32(p.y + i, silu_product(gate, load_f32(p.up + i)));
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    sigmoid_kernel(const __grid_constant__ SigmoidParams<T> p) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i < p.count) {
    store_f32(p.y + i, logistic(load_f32(p.x + i)));
  }
}

unsigned blocks_for(std::int64_t count) {
  return static_cast<unsigned>((count + kThreads - 1) / kThreads);
}

}  // namespace

template <class T>
void launch_swiglu(const SwigluParams<T>& p, const LaunchContext& context) {
  if (p.count == 0) {
    return;
  }
  const LaunchRange range("swiglu", traffic::elementwise(p.count, 2, sizeof(T), 5.0),
                          context.observer);
  swiglu_kernel<T><<<blocks_for(p.count), kThreads, 0, context.stream>>>(p);
  check(cudaGetLastError());
}

template <class T>
void launch_sigmoid(const SigmoidParams<T>& p, const LaunchContext& context) {
  if (p.count == 0) {
    return;
  }
  const LaunchRange range("sigmoid", traffic::elementwise(p.count, 1, sizeof(T), 3.0),
                          context.observer);
  sigmoid_kernel<T><<<blocks_for(p.count), kThreads, 0, context.stream>>>(p);
  check(cudaGetLastError());
}

template void launch_swiglu<float>(const SwigluParams<float>&, const LaunchContext&);
template void launch_swiglu<Bf16>(const SwigluParams<Bf16>&, const LaunchContext&);
template void launch_sigmoid<float>(const SigmoidParams<float>&, const LaunchContext&);
template void launch_sigmoid<Bf16>(const SigmoidParams<Bf16>&, const LaunchContext&);

}  // namespace versieve::kernels
