// nsa_select: importance of every selection block of a node and KV head, and its n blocks. In an
// approximate group every node's CTA repeats the routing of the representative from its scores.
// Grid: (node, KV head). Three phases: probabilities summed over heads and weighted into
// importance, tile by tile; the n - forced best by repeated maximum, lower index first among
// equals; rank sort. Traffic: traffic::nsa_select. Bound by latency: few bytes, n rounds with one
// barrier each.
#pragma once

#include "kernels/nsa_verify/vanilla.cuh"

namespace versieve::kernels {

inline constexpr int kNsaSelectThreads = 256;
inline constexpr int kNsaSelectWarps = kNsaSelectThreads / 32;
inline constexpr int kTileTokens = 2048;  // compressed tokens whose probabilities are in shared memory
inline constexpr int kMaxOffsets = 1024;  // B/s + l/s - 1

// Named places in the dynamic shared memory of nsa_select.
struct NsaSelectShared {
  unsigned* keys;        // [S]: importance as a sortable number + 1; 0: not a candidate
  int* chosen;           // [n]
  float* probability;    // [kTileTokens]
  float* head_max;       // [16]
  float* head_inverse;   // [16]
  unsigned* best_key;    // [2, warps]
  unsigned* best_block;  // [2, warps]

  __device__ NsaSelectShared(float* memory, std::int64_t blocks, std::int64_t sel_count)
      : keys(reinterpret_cast<unsigned*>(memory)),
        chosen(reinterpret_cast<int*>(keys + blocks)),
        probability(reinterpret_cast<float*>(chosen + sel_count)),
        head_max(probability + kTileTokens),
        head_inverse(head_max + kMaxGroupHeads),
        best_key(reinterpret_cast<unsigned*>(head_inverse + kMaxGroupHeads)),
        best_block(best_key + 2 * kNsaSelectWarps) {}
};
inline std::size_t select_shared_bytes(std::int64_t blocks, std::int64_t sel_count) {
  return static_cast<std::size_t>(blocks + sel_count + kTileTokens + 2 * kMaxGroupHeads +
                                  4 * kNsaSelectWarps) *
         4;
}

// Final maximum and 1 / sum of each head over the node's spans, in ascending order.
template <class T>
__device__ void merge_head_states(const VanillaArguments<T>& a, std::int64_t pair, int spans,
                                  const NsaSelectShared& s) {
  const int head = static_cast<int>(threadIdx.x);
  if (head < a.group_heads) {
    const float* states = a.states + (pair * a.spans * a.padded_heads + head) * 2;
    const std::int64_t step = static_cast<std::int64_t>(a.padded_heads) * 2;
    float most = minus_infinity();
    for (int i = 0; i < spans; ++i) {
      most = fmaxf(most, states[i * step]);
    }
    float sum = 0.0F;
    for (int i = 0; i < spans; ++i) {
      const float m = states[i * step];
      sum = fmaf(m == minus_infinity() ? 0.0F : exp2f(m - most), states[i * step + 1], sum);
    }
    s.head_max[head] = most;
    s.head_inverse[head] = sum > 0.0F ? 1.0F / sum : 0.0F;
  }
  __syncthreads();
}

// Probability of compressed token i, summed over heads in their order.
template <class T>
__device__ float summed_probability(const VanillaArguments<T>& a, std::int64_t pair, std::int64_t i,
                                    const NsaSelectShared& s) {
  const float* scores = a.scores + (pair * a.max_compressed + i) * a.padded_heads;
  float total = 0.0F;
  for (int tile = 0; tile < a.padded_heads; tile += kTileHeads) {
    const float4 four = *reinterpret_cast<const float4*>(scores + tile);
    const float score[kTileHeads] = {four.x, four.y, four.z, four.w};
#pragma unroll
    for (int r = 0; r < kTileHeads; ++r) {
      if (tile + r < a.group_heads && score[r] != minus_infinity()) {
        const float p = exp2f(score[r] - s.head_max[tile + r]);
        total = fmaf(p, s.head_inverse[tile + r], total);
      }
    }
  }
  return total;
}

// The node whose importance chooses the blocks of `node`: itself, or its group's representative.
template <class T>
__device__ int routing_node(const NsaVerifyParams<T>& p, int node) {
  if (p.group_mode == GroupMode::kExact) {
    return node;
  }
  const std::int64_t first = node / p.group_size * p.group_size;
  const std::int64_t end = min(first + p.group_size, p.num_queries);
  int best = static_cast<int>(first);
  for (int other = best + 1; other < end; ++other) {
    if (p.position[other] > p.position[best]) {
      best = other;
    }
  }
  return best;
}

// Whose scores choose the blocks of a CTA's node and KV head, and what they reach.
struct Routing {
  int node, router;
  std::int64_t own;    // the router's newest block
  std::int64_t count;  // compressed tokens that it sees
  std::int64_t pair;   // its row of [N, G]
  std::int64_t row;    // the node's

  template <class T>
  __device__ explicit Routing(const NsaVerifyParams<T>& p)
      : node(static_cast<int>(blockIdx.x)), router(routing_node(p, node)) {
    const std::int64_t t = p.position[router];
    own = t / p.nsa.sel_block;
    count = device_compressed_count(p.nsa, t + 1);
    pair = router * p.num_kv_heads + blockIdx.y;
    row = node * p.num_kv_heads + blockIdx.y;
  }
  // Where the router's row of importance goes, or null.
  template <class T>
  __device__ float* importance(const NsaVerifyParams<T>& p) const {
    return p.importance != nullptr && router == node ? p.importance + row * p.num_blocks : nullptr;
  }
};

// Calls store(j, importance) for the blocks j in [0, own], and fills the row [S] of importance,
// unless that is null.
template <class T, class Store>
__device__ void weigh_blocks(const VanillaArguments<T>& a, const Routing& routing,
                             const Store& store, const NsaSelectShared& s) {
  float* importance = routing.importance(a.p);
  const std::int64_t own = routing.own;
  const NsaVerifyParams<T>& p = a.p;
  const int per_block = static_cast<int>(p.nsa.sel_block / p.nsa.cmp_stride);
  const int overlaps = static_cast<int>(p.nsa.cmp_block / p.nsa.cmp_stride);
  const int offsets = per_block + overlaps - 1;
  const std::int64_t tile_blocks = (kTileTokens - offsets) / per_block + 1;
  for (std::int64_t block = 0; block <= own; block += tile_blocks) {
    const std::int64_t end_block = min(own + 1, block + tile_blocks);
    const std::int64_t first = block * per_block - (overlaps - 1);
    const int tokens = static_cast<int>((end_block - block - 1) * per_block) + offsets;
    for (int i = static_cast<int>(threadIdx.x); i < tokens; i += kNsaSelectThreads) {
      const std::int64_t token = first + i;
      const bool visible = token >= 0 && token < routing.count;
      s.probability[i] = visible ? summed_probability(a, routing.pair, token, s) : 0.0F;
    }
    __syncthreads();
    for (std::int64_t j = block + threadIdx.x; j < end_block; j += kNsaSelectThreads) {
      const float* p_cmp = s.probability + (j - block) * per_block;
      float sum = 0.0F;
      for (int o = 0; o < offsets; ++o) {
        // The double sum over m < B/s and u < l/s meets offset o this often.
        const int multiplicity = min(min(o + 1, offsets - o), min(per_block, overlaps));
        sum = fmaf(static_cast<float>(multiplicity), p_cmp[o], sum);
      }
      store(j, sum);
      if (importance != nullptr) {
        importance[j] = sum;
      }
    }
    __syncthreads();
  }
  for (std::int64_t j = own + 1 + threadIdx.x; importance != nullptr && j < p.num_blocks;
       j += kNsaSelectThreads) {
    importance[j] = 0.0F;
  }
}

// Takes the forced blocks out of the candidates and lists them; returns how many there are.
template <class T>
__device__ int take_forced(const NsaVerifyParams<T>& p, std::int64_t own,
                           const NsaSelectShared& s) {
  const int initial = static_cast<int>(min(p.nsa.init_blocks, own + 1));
  const std::int64_t first_local =
      max(static_cast<std::int64_t>(initial), own - p.nsa.local_blocks + 1);
  const int forced = initial + static_cast<int>(own + 1 - first_local);
  for (int i = static_cast<int>(threadIdx.x); i < forced; i += kNsaSelectThreads) {
    const int block = i < initial ? i : static_cast<int>(first_local) + i - initial;
    s.chosen[i] = block;
    s.keys[block] = 0U;
  }
  __syncthreads();
  return forced;
}

// This thread's best candidate of its strided share; lower block first among equals.
__device__ inline void best_of_share(const NsaSelectShared& s, int blocks, unsigned& key,
                                     unsigned& block) {
  key = 0U;
  block = 0xFFFFFFFFU;
  for (int j = static_cast<int>(threadIdx.x); j < blocks; j += kNsaSelectThreads) {
    if (s.keys[j] > key) {
      key = s.keys[j];
      block = static_cast<unsigned>(j);
    }
  }
}

// Fills chosen[forced, wanted) with the best candidates.
__device__ inline void take_best(const NsaSelectShared& s, int blocks, int forced, int wanted) {
  const int warp = static_cast<int>(threadIdx.x) / 32;
  unsigned key;
  unsigned block;
  best_of_share(s, blocks, key, block);
  for (int round = forced; round < wanted; ++round) {
    const unsigned warp_key = __reduce_max_sync(0xFFFFFFFFU, key);
    const unsigned warp_block =
        __reduce_min_sync(0xFFFFFFFFU, key == warp_key ? block : 0xFFFFFFFFU);
    const int slot = round % 2 * kNsaSelectWarps;  // two slots: one barrier a round
    if (threadIdx.x % 32 == 0) {
      s.best_key[slot + warp] = warp_key;
      s.best_block[slot + warp] = warp_block;
    }
    __syncthreads();
    unsigned top_key = 0U;
    unsigned top_block = 0xFFFFFFFFU;
    for (int w = 0; w < kNsaSelectWarps; ++w) {
      const unsigned other_key = s.best_key[slot + w];
      const unsigned other_block = s.best_block[slot + w];
      if (other_key > top_key || (other_key == top_key && other_block < top_block)) {
        top_key = other_key;
        top_block = other_block;
      }
    }
    if (block == top_block) {
      s.chosen[round] = static_cast<int>(top_block);
      s.keys[top_block] = 0U;
      best_of_share(s, blocks, key, block);
    }
  }
  __syncthreads();
}

template <class T>
__global__ void __launch_bounds__(kNsaSelectThreads)
    nsa_select_kernel(const __grid_constant__ VanillaArguments<T> a) {
  extern __shared__ float shared[];
  const NsaVerifyParams<T>& p = a.p;
  const NsaSelectShared s(shared, p.num_blocks, p.nsa.sel_count);
  const Routing routing(p);
  const std::int64_t own = routing.own;
  merge_head_states(a, routing.pair, static_cast<int>((routing.count + kSpan - 1) / kSpan), s);
  weigh_blocks(
      a, routing, [&](std::int64_t j, float sum) { s.keys[j] = __float_as_uint(sum) + 1U; }, s);
  const int wanted = static_cast<int>(min(p.nsa.sel_count, own + 1));
  const int forced = take_forced(p, own, s);
  take_best(s, static_cast<int>(own) + 1, forced, wanted);
  std::int32_t* indices = p.indices + routing.row * p.nsa.sel_count;
  for (int i = static_cast<int>(threadIdx.x); i < p.nsa.sel_count; i += kNsaSelectThreads) {
    int rank = 0;
    for (int other = 0; other < wanted && i < wanted; ++other) {
      rank += s.chosen[other] < s.chosen[i] ? 1 : 0;
    }
    indices[i < wanted ? rank : i] = i < wanted ? s.chosen[i] : -1;
  }
}

}  // namespace versieve::kernels
