// A CTA adds up the importance of a node's blocks and picks n of them: the last part of nsa_route.
#pragma once

#include "kernels/nsa_verify/fused.cuh"

namespace versieve::kernels {

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

// The `wanted` best of keys[0, blocks) into chosen, by repeated maximum: any input. Part of its
// caller: of a CTA of nsa_route all warps finish, and a function that is called would leave ptxas
// too few registers for that.
__device__ __forceinline__ void take_best_in_rounds(unsigned* keys, int blocks, int wanted,
                                                    std::int32_t* chosen) {
  unsigned key;
  unsigned block;
  best_of_lane(keys, blocks, key, block);
#pragma unroll 1
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
// The same, called.
__device__ __noinline__ inline void take_best_by_rounds(unsigned* keys, int blocks, int wanted,
                                                        std::int32_t* chosen) {
  take_best_in_rounds(keys, blocks, wanted, chosen);
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
      if (key[i] >= bound && place < kFusedMostRanked) {
        candidates[place] = make_uint2(key[i], static_cast<unsigned>(j + i));
      }
    }
  }
  if (count > kFusedMostRanked) {
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

// What four heads keep of one slice of compressed tokens where B/s = 4 and l/s = 2: weights of its
// blocks, and reference and last weight of the slice and of the one before.
struct SliceWeights {
  static constexpr int kHeads = 4;
  float4 blocks[kHeads];
  float2 own[kHeads];
  float2 previous[kHeads];

  // Heads first_head, ... that there are.
  __device__ __forceinline__ void fetch(const FusedArguments& a, const NodeOfHead& n, int slice,
                                        int first_head) {
    const int row = n.node * a.heads + n.g * a.group_heads + first_head;
    const bool here = slice * kSliceKeys < n.seen;
    const bool before = slice > 0 && (slice - 1) * kSliceKeys < n.seen;
    const float2* const at = a.slices + row * a.max_slices + slice;
    const float4* const weights =
        reinterpret_cast<const float4*>(a.weights + row * a.max_blocks) + slice;
#pragma unroll
    for (int i = 0; i < kHeads; ++i) {
      const bool there = first_head + i < a.group_heads;
      const float2 none = make_float2(kNoReference, 0.0F);
      previous[i] = there && before ? __ldcg(at + i * a.max_slices - 1) : none;
      own[i] = there && here ? __ldcg(at + i * a.max_slices) : none;
      blocks[i] = there && here ? __ldcg(weights + i * (a.max_blocks / 4)) : float4{};
    }
  }
  // sum += what these heads give to blocks j, ..., j + 3, in the heads' order.
  __device__ __forceinline__ void add(const FusedArguments& a, const NodeOfHead& n, int first_head,
                                      float (&sum)[4]) const {
#pragma unroll
    for (int i = 0; i < kHeads; ++i) {
      if (first_head + i < a.group_heads) {
        const float2 state = n.states[first_head + i];
        const float reach = multiply_flushed(
            previous[i].y, multiply_flushed(state_weight(previous[i].x, state.x), state.y));
        const float factor = multiply_flushed(state_weight(own[i].x, state.x), state.y);
        sum[0] += multiply_flushed(blocks[i].x, factor) + reach;
        sum[1] += multiply_flushed(blocks[i].y, factor);
        sum[2] += multiply_flushed(blocks[i].z, factor);
        sum[3] += multiply_flushed(blocks[i].w, factor);
      }
    }
  }
};

// Weights of compressed tokens that are asked for before the first is needed.
inline constexpr int kWeightsAtOnce = 8;

// Importance of block j from single tokens, any B/s and l/s: the double sum over m < B/s and
// u < l/s meets a token as often as pairs (m, u) lead to it. Heads in their order, then tokens.
__device__ __forceinline__ float importance_of_block(const FusedArguments& a, const NodeOfHead& n,
                                                     int j) {
  const int first_row = n.node * a.heads + n.g * a.group_heads;
  const int per_block = 1 << (a.block_bits - a.stride_bits);
  const int overlaps = a.cmp_block >> a.stride_bits;
  float sum = 0.0F;
  int head = 0;
  int o = 1 - overlaps;
#pragma unroll 1
  while (head < a.group_heads) {
    float weight[kWeightsAtOnce];
    float2 slice[kWeightsAtOnce];
    const int from_head = head;
    const int from_o = o;
    const auto next = [&] {
      o += 1;
      if (o == per_block) {
        o = 1 - overlaps;
        head += 1;
      }
    };
    const auto there = [&] {
      const int token = j * per_block + o;
      return head < a.group_heads && token >= 0 && token < n.seen;
    };
#pragma unroll
    for (int i = 0; i < kWeightsAtOnce; ++i) {
      const int token = j * per_block + o;
      const int at = (first_row + head) * a.max_slices;
      weight[i] = there() ? __ldcg(a.weights + at * kSliceKeys + token) : 0.0F;
      slice[i] = there() ? __ldcg(a.slices + at + token / kSliceKeys) : float2{};
      next();
    }
    head = from_head;
    o = from_o;
#pragma unroll
    for (int i = 0; i < kWeightsAtOnce; ++i) {
      if (there()) {
        const float2 state = n.states[head];
        const float factor = multiply_flushed(state_weight(slice[i].x, state.x), state.y);
        const int times = min(per_block, o + overlaps) - max(o, 0);
        sum = fmaf(static_cast<float>(times), multiply_flushed(weight[i], factor), sum);
      }
      next();
    }
  }
  return sum;
}

// Some warps: importance of the node's blocks into keys [blocks rounded up to 4] (and memory, if
// wanted), which are there after the CTA's next barrier. `weights`: if `asked`, those of slice
// `thread` and the first heads.
__device__ __forceinline__ void importance_of_node(const FusedArguments& a, const NodeOfHead& n,
                                                   unsigned* keys, int thread, int threads,
                                                   SliceWeights& weights, bool asked) {
  const int own = n.position >> a.block_bits;
  const int pair = n.node * a.kv_heads + n.g;
  float* const importance = a.importance == nullptr ? nullptr : a.importance + pair * a.num_blocks;
  const int initial = min(a.init_blocks, own + 1);
  const int first_local = max(initial, own - a.local_blocks + 1);
  const int blocks = max(own + 1, importance == nullptr ? 0 : a.num_blocks);
  const auto keep = [&](int j, float sum) {
    if (j <= (own | 3)) {
      const bool candidate = j >= initial && j < first_local;
      keys[j] = candidate ? __float_as_uint(sum) + 1U : 0U;
    }
    if (importance != nullptr && j < a.num_blocks) {
      importance[j] = j <= own ? sum : 0.0F;
    }
  };
  if (!a.four) {
#pragma unroll 1
    for (int j = thread; j < (blocks + 3) / 4 * 4; j += threads) {
      keep(j, j <= own ? importance_of_block(a, n, j) : 0.0F);
    }
    return;
  }
#pragma unroll 1
  for (int j = thread * 4; j < blocks; j += threads * 4) {
    float sum[4] = {};
    if (j <= own) {
#pragma unroll 1
      for (int head = 0; head < a.group_heads; head += SliceWeights::kHeads) {
        if (!asked || j != thread * 4 || head > 0) {
          weights.fetch(a, n, j / 4, head);
        }
        weights.add(a, n, head, sum);
      }
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      keep(j + i, sum[i]);
    }
  }
}

// All kThreads of a finishing CTA: the node's n blocks by `keys`, where a node has at most
// kFusedMostCounted. A thread counts what goes before its block, so that there is no chain from one
// step to the next, and little code. masks: [kThreads / 32], in shared memory.
template <int kThreads>
__device__ __forceinline__ void count_blocks_of_node(const FusedArguments& a,
                                                     const NodeOfHead& node, const unsigned* keys,
                                                     unsigned* masks) {
  static_assert(kThreads >= kFusedMostCounted, "a block each");
  const int thread = static_cast<int>(threadIdx.x);
  const int n = a.sel_count;
  const int blocks = (node.position >> a.block_bits) + 1;
  const int initial = min(a.init_blocks, blocks);
  const int first_local = max(initial, blocks - a.local_blocks);
  const int wanted = min(n, blocks);
  const bool forced = thread < initial || thread >= first_local;
  const unsigned key = thread < blocks ? keys[thread] : 0U;
  int before = 0;
#pragma unroll 2
  for (int k = 0; k < blocks; k += 4) {
    const uint4 four = *reinterpret_cast<const uint4*>(keys + k);
    const unsigned other[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {  // the lower block first among equals
      before += other[i] >= key + (k + i < thread ? 0U : 1U) ? 1 : 0;
    }
  }
  const int ranked = wanted - (initial + blocks - first_local);  // of those that are not forced
  const bool chosen = thread < blocks && (forced || before < ranked);
  const unsigned mask = __ballot_sync(0xFFFFFFFFU, chosen);
  if (thread % 32 == 0) {
    masks[thread / 32] = mask;
  }
  meet<0, kThreads>();
  int place = __popc(mask & ((1U << thread % 32) - 1U));
#pragma unroll
  for (int warp = 0; warp < kThreads / 32 - 1; ++warp) {
    place += warp < thread / 32 ? __popc(masks[warp]) : 0;
  }
  const int first = node.node / a.group_size * a.group_size;
  const int end = min(first + a.group_size, a.nodes);
#pragma unroll 1
  for (int row = first; row < end; ++row) {  // the group's rows take them
    std::int32_t* const indices = a.indices + (row * a.kv_heads + node.g) * n;
    if (chosen) {
      indices[place] = thread;
    }
#pragma unroll 1
    for (int i = wanted + thread; i < n; i += kThreads) {
      indices[i] = -1;
    }
  }
}

// One warp: the node's n blocks by `keys`. `chosen`: [n], `candidates`: [kFusedMostRanked].
__device__ __forceinline__ void select_of_node(const FusedArguments& a, const NodeOfHead& node,
                                               unsigned* keys, std::int32_t* chosen,
                                               uint2* candidates) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int own = node.position >> a.block_bits;
  const int n = a.sel_count;
  const int initial = min(a.init_blocks, own + 1);
  const int first_local = max(initial, own - a.local_blocks + 1);
  unsigned lane_most = 0U;
#pragma unroll 1
  for (int j = lane * 4; j <= own; j += 128) {
    const uint4 four = *reinterpret_cast<const uint4*>(keys + j);
    lane_most = max(max(lane_most, max(four.x, four.y)), max(four.z, four.w));
  }
  const int forced = initial + own + 1 - first_local;
  for (int i = lane; i < forced; i += 32) {
    chosen[i] = i < initial ? i : first_local + i - initial;
  }
  __syncwarp();
  const int wanted = min(n, own + 1);
  if (wanted > forced &&
      !take_best_by_bound(keys, own + 1, wanted - forced, lane_most, candidates, chosen + forced)) {
    take_best_in_rounds(keys, own + 1, wanted - forced, chosen + forced);
  }
  // The group's rows take them; ascending.
  const int first = node.node / a.group_size * a.group_size;
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
      a.indices[(row * a.kv_heads + node.g) * n + rank] = i < wanted ? chosen[i] : -1;
    }
  }
}

}  // namespace versieve::kernels
