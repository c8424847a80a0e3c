// gumbel_top on CUDA: a launch that writes the perturbed rows in f32, then top_logits over them.
#include "kernels/common/cuda_check.h"
#include "kernels/common/device_element.cuh"
#include "kernels/common/launch_range.h"
#include "kernels/gumbel_top/perturbed.h"
#include "kernels/launch.h"
#include "model/launches/top_logits.h"
#include "model/words/assert.h"

namespace versieve::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int kTokensEach = 4;

template <class T>
__global__ void __launch_bounds__(kThreads)
    gumbel_noise_kernel(const __grid_constant__ GumbelTopParams<T> p) {
  const std::int64_t row = blockIdx.y;
  const float inverse = static_cast<float>(1.0 / p.temperature);
  const std::uint64_t place = row_place(p, row);
  const T* const logits = p.logits + row * p.vocab;
  float* const out = p.perturbed + row * p.vocab;
  const std::int64_t first =
      static_cast<std::int64_t>(blockIdx.x) * kThreads * kTokensEach + threadIdx.x;
#pragma unroll
  for (int part = 0; part < kTokensEach; ++part) {
    const std::int64_t i = first + part * kThreads;
    if (i < p.vocab) {
      out[i] = perturbed(load_f32(logits + i), inverse, place, p.token == nullptr ? i : p.token[i]);
    }
  }
}

}  // namespace

template <class T>
void launch_gumbel_top(const GumbelTopParams<T>& p, const LaunchContext& context) {
  VERSIEVE_ASSERT(p.temperature > 0.0, "gumbel_top samples above temperature 0");
  VERSIEVE_ASSERT(p.rows <= 65535, "gumbel_top on CUDA takes up to 65,535 rows");
  if (p.rows == 0) {
    return;
  }
  {
    const LaunchRange range("gumbel_noise", traffic::gumbel_noise(p.rows, p.vocab, sizeof(T)),
                            context.observer);
    constexpr std::int64_t kTokens = kThreads * kTokensEach;
    const dim3 grid(static_cast<unsigned>((p.vocab + kTokens - 1) / kTokens),
                    static_cast<unsigned>(p.rows));
    gumbel_noise_kernel<T><<<grid, kThreads, 0, context.stream>>>(p);
    check(cudaGetLastError());
  }
  launch_top_logits(TopLogitsParams<float>{.rows = p.rows,
                                           .vocab = p.vocab,
                                           .k = p.k,
                                           .logits = p.perturbed,
                                           .index = p.index,
                                           .log_probability = p.log_probability},
                    context);
}

template void launch_gumbel_top<float>(const GumbelTopParams<float>&, const LaunchContext&);
template void launch_gumbel_top<Bf16>(const GumbelTopParams<Bf16>&, const LaunchContext&);

}  // namespace versieve::kernels
