// The head-averaged weights of a chain's newest query beside its attention (SpecAttn, section 3.3):
// the launch that attends keeps each tile's weights 2^(score - top) with the tile's top, the merge
// leaves each head's maximum and sum, and one more launch, which reads no keys, makes the mean.
#pragma once

#include "kernels/common/launch_context.h"
#include "kernels/flash_decode/flash_keys.cuh"

namespace versieve::kernels {

// In scratch; null where nothing is captured.
struct WeightCapture {
  float* weight = nullptr;  // [H, tiles, kTileKeys]
  float* top = nullptr;     // [H, tiles], in units of log2
  float2* head = nullptr;   // [H]: maximum and sum
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

// Of a capture behind the partial results of a launch.
std::size_t capture_bytes(const FlashParams& p);
WeightCapture capture_at(const FlashParams& p, void* memory);
// Enqueues the mean of all heads' weights to p.weights, after the merge.
void launch_attention_mean(const FlashParams& p, const WeightCapture& capture,
                           const LaunchContext& context);

}  // namespace versieve::kernels
