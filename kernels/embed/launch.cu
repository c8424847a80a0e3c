// embed: one block a normed row (rms_norm/row.cuh), those of the second norm behind those of the
// first; then blocks of 256 places of the rotary table. No block waits for another. Starts under
// the launch before it. Bound by its latency.
#include <algorithm>

#include "kernels/common/launch_range.h"
#include "kernels/embed/traffic.h"
#include "kernels/launch.h"
#include "kernels/rms_norm/row.cuh"
#include "kernels/rope_append/angles.cuh"
#include "model/words/assert.h"

namespace versieve::kernels {
namespace {

constexpr int kThreads = kNormThreads;

template <class T, bool kVector>
__global__ void __launch_bounds__(kThreads)
    embed_kernel(const __grid_constant__ EmbedParams<T> p,
                 const __grid_constant__ RotaryFrequencies frequencies) {
  release_successors();
  const int block = static_cast<int>(blockIdx.x);
  const int tokens = static_cast<int>(p.token.n);
  const int rows = tokens + static_cast<int>(p.feature.n);
  if (block < rows) {
    const RmsNormParams<T> norm = block < tokens ? p.token : p.feature;
    rms_norm_row<kVector>(norm, block < tokens ? block : block - tokens);
  } else {
    wait_for_predecessors();
    write_angle(p.angles, frequencies, (block - rows) * kThreads + static_cast<int>(threadIdx.x));
  }
}

// The norm with its strides written out.
template <class T>
RmsNormParams<T> filled(RmsNormParams<T> p) {
  VERSIEVE_ASSERT(p.n == 0 || (p.k >= 1 && p.k < (1 << 30)), "a norm needs K");
  p.x_stride = p.x_stride == 0 ? p.k : p.x_stride;
  p.y_stride = p.y_stride == 0 ? p.k : p.y_stride;
  return p;
}

}  // namespace

template <class T>
void launch_embed(const EmbedParams<T>& p, const LaunchContext& context) {
  const EmbedParams<T> with{
      .token = filled(p.token), .feature = filled(p.feature), .angles = p.angles};
  RotaryFrequencies frequencies{};
  std::int64_t places = 0;
  if (p.angles.n > 0) {
    frequencies = rotary_frequencies(p.angles.theta, p.angles.head_dim);
    places = p.angles.n * p.angles.head_dim / 2;
  }
  VERSIEVE_ASSERT(places < (1 << 30), "places of the table are counted in 32 bits");
  const std::int64_t blocks = p.token.n + p.feature.n + (places + kThreads - 1) / kThreads;
  if (blocks == 0) {
    return;
  }
  const LaunchRange range("rms_norm", embed_traffic(p), context.observer);
  const bool vector = whole_norm_pieces(with.token) && whole_norm_pieces(with.feature);
  launch_dependent(
      {.grid = dim3(static_cast<unsigned>(blocks)), .threads = kThreads, .stream = context.stream},
      vector ? embed_kernel<T, true> : embed_kernel<T, false>, with, frequencies);
}

template void launch_embed<float>(const EmbedParams<float>&, const LaunchContext&);
template void launch_embed<Bf16>(const EmbedParams<Bf16>&, const LaunchContext&);

}  // namespace versieve::kernels
