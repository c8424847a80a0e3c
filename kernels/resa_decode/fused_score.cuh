// First phase of the fused form: scores of this block's share of the KV head's free blocks, as
// order keys in its shared memory (or in scratch, where they do not fit), and their extremes. Every
// thread keeps kScoreStages rows in flight through a queue of its own in shared memory, which no
// other thread reads.
#pragma once

#include "kernels/common/device_element.cuh"
#include "kernels/ptx/async_copy.cuh"
#include "kernels/ptx/fence.cuh"
#include "kernels/ptx/shared_memory.cuh"
#include "kernels/resa_decode/fused.cuh"

namespace versieve::kernels {

// This lane's elements of the unscaled mean query of KV head g.
template <int kHeadDim>
__device__ inline void mean_of_group(const ResaDecodeParams<Bf16>& p, int g, int element,
                                     float (&mean)[8]) {
  const int rows = static_cast<int>(p.num_heads / p.num_kv_heads);
#pragma unroll
  for (int e = 0; e < 8; ++e) {
    mean[e] = 0.0F;
  }
  for (int h = 0; h < rows; ++h) {
    float x[8];
    unpack<Bf16>(*reinterpret_cast<const uint4*>(p.q + (g * rows + h) * kHeadDim + element), x);
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      mean[e] += x[e];
    }
  }
#pragma unroll
  for (int e = 0; e < 8; ++e) {
    mean[e] /= static_cast<float>(rows);
  }
}

// Rectified Sparse Attention, equation 3: this lane's share.
__device__ inline float partial_score(const float (&mean)[8], const uint4& least,
                                      const uint4& most) {
  float low[8];
  float high[8];
  unpack<Bf16>(least, low);
  unpack<Bf16>(most, high);
  float score = 0.0F;
#pragma unroll
  for (int e = 0; e < 8; ++e) {
    score += fmaxf(mean[e] * high[e], mean[e] * low[e]);
  }
  return score;
}

// Keys of blocks [first, first + count) to keys[0, count). `queue`: 32 * kScoreStages bytes a
// thread.
template <int kHeadDim>
__device__ inline KeyExtremes score_blocks(const ResaDecodeParams<Bf16>& p, int g, int first,
                                           int count, std::uint32_t* keys, unsigned char* queue) {
  constexpr int kLanes = kHeadDim / 8;
  constexpr int kRows = kFusedThreads / kLanes;  // of a stage
  constexpr int kStageBytes = kFusedThreads * 32;
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  const int row = static_cast<int>(threadIdx.x) / kLanes;
  const std::int64_t width = p.num_kv_heads * kHeadDim;
  const std::int64_t offset = g * kHeadDim + lane * 8;
  unsigned char* own = queue + threadIdx.x * 16;
  const std::uint32_t own_address = shared_address(own);
  constexpr int kTogether = 2;  // stages that are requested, and scored, together
  const int stages = (count + kRows - 1) / kRows;
  const auto request = [&](int stage) {
    keep_order();  // what lay there has been read
#pragma unroll
    for (int i = 0; i < kTogether; ++i) {
      if (stage + i < stages) {
        const int block = min((stage + i) * kRows + row, count - 1);
        const std::int64_t at = (first + block) * width + offset;
        const std::uint32_t slot =
            own_address + static_cast<std::uint32_t>((stage + i) % kScoreStages * kStageBytes);
        fetch_16(slot, p.kmin + at);
        fetch_16(slot + kFusedThreads * 16, p.kmax + at);
      }
    }
    end_fetch_group();
  };
  for (int stage = 0; stage < kScoreStages; stage += kTogether) {
    request(stage);
  }
  float mean[8];
  mean_of_group<kHeadDim>(p, g, lane * 8, mean);
  KeyExtremes range;
  for (int stage = 0; stage < stages; stage += kTogether) {
    await_fetch_groups<kScoreStages / kTogether - 1>();
    float score[kTogether];
#pragma unroll
    for (int i = 0; i < kTogether; ++i) {
      const unsigned char* slot = own + (stage + i) % kScoreStages * kStageBytes;
      score[i] = partial_score(mean, *reinterpret_cast<const uint4*>(slot),
                               *reinterpret_cast<const uint4*>(slot + kFusedThreads * 16));
    }
    request(stage + kScoreStages);
#pragma unroll
    for (int apart = kLanes / 2; apart > 0; apart /= 2) {
#pragma unroll
      for (int i = 0; i < kTogether; ++i) {
        score[i] += __shfl_xor_sync(0xFFFFFFFFU, score[i], apart);
      }
    }
#pragma unroll
    for (int i = 0; i < kTogether; ++i) {
      const std::uint32_t key = order_key<float>(__float_as_uint(score[i]));
      const int block = (stage + i) * kRows + row;
      if (block < count) {
        range.least = min(range.least, key);
        range.most = max(range.most, key);
        if (lane == 0) {
          keys[block] = key;
        }
      }
    }
  }
  await_fetch_groups<0>();
  range.least = __reduce_min_sync(0xFFFFFFFFU, range.least);
  range.most = __reduce_max_sync(0xFFFFFFFFU, range.most);
  return range;
}

}  // namespace versieve::kernels
