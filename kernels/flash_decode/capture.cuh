// The head-averaged weights of a chain's newest query beside its attention (SpecAttn, section 3.3):
// the launch that attends keeps each tile's weights 2^(score - top) with the tile's top, and
// further CTAs of the merge, which read no keys, make the mean; each works out the heads' sums for
// itself.
#pragma once

#include "kernels/flash_decode/combine.cuh"
#include "kernels/flash_decode/flash_keys.cuh"

namespace versieve::kernels {

// In scratch; null where nothing is captured.
struct WeightCapture {
  float* weight = nullptr;  // [H, tiles, kTileKeys]
  float* top = nullptr;     // [H, tiles], in units of log2
  std::int64_t tiles = 0;
};

// Rows of which those of the newest query keep their weights.
struct CapturedRows : FlashRows {
  const WeightCapture& capture;

  // The row's head, or -1.
  __device__ int captured_head(int r) const {
    return query_of(r) == p.num_queries - 1 ? g * group_heads + (first + r) % group_heads : -1;
  }
};

// Of a capture behind the partial results of a launch, of so many positions.
std::size_t capture_bytes(const FlashParams& p, std::int64_t positions);
WeightCapture capture_at(const FlashParams& p, std::int64_t positions, void* memory);
// What the mean moves: H L f32 weights, out of the second-level cache, and L of them back.
Traffic mean_traffic(const FlashParams& p);

// The mean over heads at the positions of CTA `block`, a position a thread; heads in ascending
// order. Needs H kThreads / kTileKeys floats of dynamic shared memory.
template <int kThreads>
__device__ inline void mean_weights(const FlashParams& p, const FlashSlice& slice,
                                    const ChunkPartials& partials, const WeightCapture& capture,
                                    float* weights, int block) {
  constexpr int kTiles = kThreads / kTileKeys;
  static_assert(kTiles <= 32, "a lane a tile");
  extern __shared__ float factor[];  // [H, kTiles]
  const int heads = static_cast<int>(p.num_heads);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int keys = keys_of(p, slice, static_cast<int>(p.num_queries) - 1);
  const int first_tile = block * kTiles;
  if (first_tile * kTileKeys >= keys) {
    return;
  }
  const std::int64_t chunk = chunk_keys(keys);
  const std::int64_t newest = (p.num_queries - 1) * p.num_heads;
  for (int h = static_cast<int>(threadIdx.x) / 32; h < heads; h += kThreads / 32) {
    const float2 head =
        row_state(partials, (newest + h) * partials.chunks, (keys + chunk - 1) / chunk, nullptr);
    if (lane < kTiles && (first_tile + lane) * kTileKeys < keys) {
      const float top = __ldcg(capture.top + h * capture.tiles + first_tile + lane);
      factor[h * kTiles + lane] =
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
    sum = fmaf(weight, factor[h * kTiles + tile], sum);
  }
  weights[position] = sum;
}

}  // namespace versieve::kernels
