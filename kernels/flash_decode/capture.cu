// The mean over heads of the weights that a flash_decode launch kept. Moves H L f32 scores and L
// weights, out of the second-level cache; bound by its latency up to some 16K keys.
#include "kernels/flash_decode/capture.cuh"

#include "kernels/common/cuda_check.h"
#include "kernels/common/dependent_launch.cuh"
#include "kernels/common/launch_range.h"

namespace versieve::kernels {
namespace {

constexpr int kMeanThreads = 256;
constexpr int kMeanTiles = kMeanThreads / kTileKeys;

std::int64_t tile_count(const FlashParams& p) {
  return (p.context_len + p.num_nodes + kTileKeys - 1) / kTileKeys;
}

// Grid: kMeanTiles tiles a CTA, a position a thread; heads in ascending order.
__global__ void __launch_bounds__(kMeanThreads)
    attention_mean_kernel(const __grid_constant__ FlashParams p, const FlashSlice slice,
                          const __grid_constant__ WeightCapture capture) {
  extern __shared__ float factor[];  // [H, kMeanTiles]
  release_successors();
  wait_for_predecessors();
  const int heads = static_cast<int>(p.num_heads);
  const int keys = keys_of(p, slice, static_cast<int>(p.num_queries) - 1);
  const int first_tile = static_cast<int>(blockIdx.x) * kMeanTiles;
  for (int i = static_cast<int>(threadIdx.x); i < heads * kMeanTiles; i += kMeanThreads) {
    const int tile = first_tile + i % kMeanTiles;
    if (tile * kTileKeys < keys) {
      const float2 head = __ldcg(capture.head + i / kMeanTiles);
      const float top = __ldcg(capture.top + i / kMeanTiles * capture.tiles + tile);
      factor[i] =
          top == no_score() ? 0.0F : exp2f(top - head.x) / (head.y * static_cast<float>(heads));
    }
  }
  __syncthreads();
  const int tile = static_cast<int>(threadIdx.x) / kTileKeys;
  const int position = first_tile * kTileKeys + static_cast<int>(threadIdx.x);
  if (position >= keys) {
    return;
  }
  float sum = 0.0F;
#pragma unroll 8
  for (int h = 0; h < heads; ++h) {
    const float weight = __ldcg(capture.weight + h * capture.tiles * kTileKeys + position);
    sum = fmaf(weight, factor[h * kMeanTiles + tile], sum);
  }
  p.weights[position] = sum;
}

}  // namespace

std::size_t capture_bytes(const FlashParams& p) {
  return static_cast<std::size_t>(p.num_heads * (tile_count(p) * (kTileKeys + 1) + 2)) *
         sizeof(float);
}

WeightCapture capture_at(const FlashParams& p, void* memory) {
  WeightCapture capture{.tiles = tile_count(p)};
  capture.head = static_cast<float2*>(memory);
  capture.weight = reinterpret_cast<float*>(capture.head + p.num_heads);
  capture.top = capture.weight + p.num_heads * capture.tiles * kTileKeys;
  return capture;
}

void launch_attention_mean(const FlashParams& p, const WeightCapture& capture,
                           const LaunchContext& context) {
  const double positions = static_cast<double>(p.context_len + p.num_nodes);
  Traffic moved;
  moved.read(TrafficTerm::kScores, static_cast<double>(p.num_heads) * positions * sizeof(float));
  moved.write(TrafficTerm::kScores, positions * sizeof(float));
  const LaunchRange range("attention_weights", moved, context.observer);
  launch_dependent(
      {.grid = dim3(static_cast<unsigned>((capture.tiles + kMeanTiles - 1) / kMeanTiles)),
       .threads = kMeanThreads,
       .shared_bytes = static_cast<std::size_t>(p.num_heads * kMeanTiles) * sizeof(float),
       .stream = context.stream},
      attention_mean_kernel, p, FlashSlice{}, capture);
  check(cudaGetLastError());
}

}  // namespace versieve::kernels
