// A warp picks a node's n blocks by importance: the last part of nsa_route.
#pragma once

#include "kernels/nsa_verify/fused.cuh"

namespace versieve::kernels {

// Candidates that a selecting warp ranks at once.
inline constexpr int kMaxRanked = 64;
// Shared memory of a selecting warp, in floats: keys, chosen, candidates (key, block).
__host__ __device__ inline int select_floats(int blocks, int sel_count) {
  return (blocks + 3) / 4 * 4 + (sel_count + 3) / 4 * 4 + 2 * kMaxRanked;
}

// Whether node `node` chooses its own blocks: it does not share, or it is its group's
// representative, the row with the greatest position, the lowest such row.
__device__ inline bool chooses(const FusedArguments& a, int node) {
  if (a.group_size == 1) {
    return true;
  }
  const int first = node / a.group_size * a.group_size;
  const int end = min(first + a.group_size, a.nodes);
  int best = first;
#pragma unroll 1
  for (int i = first + 1; i < end; ++i) {
    best = a.position[i] > a.position[best] ? i : best;
  }
  return best == node;
}

// This lane's best candidate; lower block first among equals.
__device__ inline void best_of_lane(const unsigned* keys, int blocks, unsigned& key,
                                    unsigned& block) {
  key = 0U;
  block = 0xFFFFFFFFU;
#pragma unroll 1
  for (int j = static_cast<int>(threadIdx.x) % 32; j < blocks; j += 32) {
    const unsigned other = keys[j];
    if (other > key) {
      key = other;
      block = static_cast<unsigned>(j);
    }
  }
}

// The `wanted` best of keys[0, blocks) into chosen, by repeated maximum: any input.
__device__ __noinline__ void take_best_by_rounds(unsigned* keys, int blocks, int wanted,
                                                 std::int32_t* chosen) {
  unsigned key;
  unsigned block;
  best_of_lane(keys, blocks, key, block);
  for (int round = 0; round < wanted; ++round) {
    const unsigned top = __reduce_max_sync(0xFFFFFFFFU, key);
    const unsigned best = __reduce_min_sync(0xFFFFFFFFU, key == top ? block : 0xFFFFFFFFU);
    if (block == best) {
      chosen[round] = static_cast<std::int32_t>(best);
      keys[best] = 0U;
      best_of_lane(keys, blocks, key, block);
    }
  }
  __syncwarp();
}

// The same where few candidates reach the bound that the lanes' maxima give: the wanted-th largest
// of 32 maxima is no more than the wanted-th largest key. False: too many reach it, nothing chosen.
__device__ inline bool take_best_by_bound(const unsigned* keys, int blocks, int wanted,
                                          unsigned lane_most, uint2* candidates,
                                          std::int32_t* chosen) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  if (wanted > 32) {
    return false;
  }
  int ahead = 0;
#pragma unroll 4
  for (int i = 0; i < 32; ++i) {
    const unsigned other = __shfl_sync(0xFFFFFFFFU, lane_most, i);
    ahead += other > lane_most || (other == lane_most && i < lane) ? 1 : 0;
  }
  const unsigned bound =
      max(1U, __reduce_max_sync(0xFFFFFFFFU, ahead == wanted - 1 ? lane_most : 0U));
  int count = 0;
#pragma unroll 1
  for (int base = 0; base < blocks; base += 128) {
    const int j = base + lane * 4;
    const uint4 four = j < blocks ? *reinterpret_cast<const uint4*>(keys + j) : uint4{};
    const unsigned key[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const unsigned found = __ballot_sync(0xFFFFFFFFU, key[i] >= bound);
      const int place = count + __popc(found & ((1U << lane) - 1U));
      count += __popc(found);
      if (key[i] >= bound && place < kMaxRanked) {
        candidates[place] = make_uint2(key[i], static_cast<unsigned>(j + i));
      }
    }
  }
  if (count > kMaxRanked) {
    return false;
  }
  __syncwarp();
#pragma unroll 1
  for (int i = lane; i < count; i += 32) {
    const uint2 mine = candidates[i];
    int rank = 0;
#pragma unroll 4
    for (int k = 0; k < count; ++k) {
      const uint2 other = candidates[k];
      rank += other.x > mine.x || (other.x == mine.x && other.y < mine.y) ? 1 : 0;
    }
    if (rank < wanted) {
      chosen[rank] = static_cast<std::int32_t>(mine.y);
    }
  }
  __syncwarp();
  return true;
}

// One warp: importance of the node's blocks into keys (and memory, if wanted), its n blocks.
// `keys`: [blocks rounded up to 4], `chosen`: [n], `candidates`: [kMaxRanked], of this warp.
__device__ __forceinline__ void select_of_node(const FusedArguments& a, int node, int g, int count,
                                               int own, unsigned* keys, std::int32_t* chosen,
                                               uint2* candidates) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int pair = node * a.kv_heads + g;
  const float* const own_part = a.importance_own + pair * a.max_blocks;
  const float* const before_part = a.importance_before + pair * a.max_blocks;
  float* const importance = a.importance == nullptr ? nullptr : a.importance + pair * a.num_blocks;
  const int per_bits = a.block_bits - a.stride_bits;
  const int n = a.sel_count;
  const int initial = min(a.init_blocks, own + 1);
  const int first_local = max(initial, own - a.local_blocks + 1);
  unsigned lane_most = 0U;
  float4 next_mine{};
  float4 next_reach{};
  if (lane * 4 <= own) {
    next_mine = __ldcg(reinterpret_cast<const float4*>(own_part + lane * 4));
    next_reach = __ldcg(reinterpret_cast<const float4*>(before_part + lane * 4));
  }
#pragma unroll 1
  for (int j = lane * 4; j <= own; j += 128) {
    const float4 mine = next_mine;
    const float4 reach = next_reach;
    if (j + 128 <= own) {
      next_mine = __ldcg(reinterpret_cast<const float4*>(own_part + j + 128));
      next_reach = __ldcg(reinterpret_cast<const float4*>(before_part + j + 128));
    }
    const float parts[4][2] = {
        {mine.x, reach.x}, {mine.y, reach.y}, {mine.z, reach.z}, {mine.w, reach.w}};
    unsigned key[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      // Parts of blocks without a visible token were never written.
      const float sum = ((j + i) << per_bits < count ? parts[i][0] : 0.0F) +
                        (j + i > 0 && (j + i - 1) << per_bits < count ? parts[i][1] : 0.0F);
      const bool candidate = j + i >= initial && j + i < first_local;
      key[i] = candidate ? __float_as_uint(sum) + 1U : 0U;
      lane_most = max(lane_most, key[i]);
      if (importance != nullptr && j + i <= own) {
        importance[j + i] = sum;
      }
    }
    *reinterpret_cast<uint4*>(keys + j) = make_uint4(key[0], key[1], key[2], key[3]);
  }
#pragma unroll 1
  for (int j = own + 1 + lane; importance != nullptr && j < a.num_blocks; j += 32) {
    importance[j] = 0.0F;
  }
  const int forced = initial + own + 1 - first_local;
  for (int i = lane; i < forced; i += 32) {
    chosen[i] = i < initial ? i : first_local + i - initial;
  }
  __syncwarp();
  const int wanted = min(n, own + 1);
  if (wanted > forced &&
      !take_best_by_bound(keys, own + 1, wanted - forced, lane_most, candidates, chosen + forced)) {
    take_best_by_rounds(keys, own + 1, wanted - forced, chosen + forced);
  }
  // The group's rows take them; ascending.
  const int first = node / a.group_size * a.group_size;
  const int end = min(first + a.group_size, a.nodes);
#pragma unroll 1
  for (int i = lane; i < n; i += 32) {
    int rank = i;
    if (i < wanted) {
      rank = 0;
#pragma unroll 4
      for (int other = 0; other < wanted; ++other) {
        rank += chosen[other] < chosen[i] ? 1 : 0;
      }
    }
#pragma unroll 1
    for (int row = first; row < end; ++row) {
      a.indices[(row * a.kv_heads + g) * n + rank] = i < wanted ? chosen[i] : -1;
    }
  }
  __syncwarp();
}

}  // namespace versieve::kernels
