// Softmax attention of the H/G query heads of one KV head over keys given by position, for one CTA.
//
// A CTA has four warps for every four heads (a head tile). Keys come in chunks of 64 positions
// aligned to positions; within a chunk, key j belongs to warp (j / kKeysPerPass) % 4 and to the
// lane group j % kKeysPerPass of kLanesPerKey lanes, which loads its row in 16-byte words. Each
// lane group keeps its own running softmax (m, l, acc) over the keys that are its own by position;
// the states are merged once, in a fixed order, at the end. So a result depends on positions alone:
// neither on the buffer a key lies in nor on the rest of the launch (batch invariance), and the
// loop needs no barrier. Scores are kept in units of log2: exp2 of differences.
//
// With teams, a head tile has four warps for each: team i takes the chunks whose number is i modulo
// kTeams, so that more loads fly at once. How many follows from H/G. A warp may hold fewer heads
// than four, and other CTAs the rest: no head's sums know of another head.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/common/device_element.cuh"

namespace versieve::kernels {

inline constexpr int kTileHeads = 4;       // heads a warp holds
inline constexpr int kWarpsPerTile = 4;    // warps that share a chunk's keys
inline constexpr int kDeviceChunk = 64;    // positions in a chunk
inline constexpr int kMaxGroupHeads = 16;  // H/G
inline constexpr int kMaxHeadDim = 128;
inline constexpr int kMaxAttentionThreads =
    kMaxGroupHeads / kTileHeads * kWarpsPerTile * 32;  // 512

inline int head_tiles(std::int64_t group_heads) {
  return static_cast<int>((group_heads + kTileHeads - 1) / kTileHeads);
}
inline int attention_threads(std::int64_t group_heads) {
  return head_tiles(group_heads) * kWarpsPerTile * 32;
}
// Teams that fill a CTA of kMaxAttentionThreads: 4, 2 or 1.
inline int attention_teams(std::int64_t group_heads) {
  return head_tiles(group_heads) == 1 ? 4 : (head_tiles(group_heads) == 2 ? 2 : 1);
}
// Shared memory that merging needs: per warp and head m, l and acc.
inline std::size_t merge_bytes(std::int64_t group_heads, std::int64_t head_dim, int teams = 1,
                               int tile_heads = kTileHeads) {
  return static_cast<std::size_t>(head_tiles(group_heads)) * kWarpsPerTile *
         static_cast<std::size_t>(teams) * static_cast<std::size_t>(tile_heads) *
         static_cast<std::size_t>(head_dim + 2) * sizeof(float);
}

// The rows of one key, or nulls where the query sees none.
template <class T>
struct KeyRow {
  const T* k = nullptr;  // [d]
  const T* v = nullptr;  // [d]

  __device__ bool visible() const { return k != nullptr; }
  __device__ static uint4 load(const T* from) {
    return __ldg(reinterpret_cast<const uint4*>(from));
  }
};
// Of keys that the launch itself may have written, to shared memory too.
template <class T>
struct FreshKeyRow {
  const T* k = nullptr;  // [d]
  const T* v = nullptr;  // [d]

  __device__ bool visible() const { return k != nullptr; }
  __device__ static uint4 load(const T* from) { return *reinterpret_cast<const uint4*>(from); }
};

__device__ inline float minus_infinity() {
  return __int_as_float(0xFF800000);
}

// kHeads of a warp: kTileHeads, or fewer where one tile holds all heads of the CTA.
template <class T, int kLanesPerKey, int kTeams = 1, int kHeads = kTileHeads>
class WarpAttention {
 public:
  static constexpr int kTileWarps = kWarpsPerTile * kTeams;
  static constexpr int kElements = kWordElements<T>;
  static constexpr int kKeysPerPass = 32 / kLanesPerKey;
  static constexpr int kPasses = kDeviceChunk / (kKeysPerPass * kWarpsPerTile);
  static constexpr int kBatch = kPasses < 4 ? kPasses : 4;  // passes whose loads fly together

  // q: [H/G, d] of this node and KV head.
  __device__ WarpAttention(const T* q, int group_heads, int head_dim)
      : head_dim_(head_dim),
        lane_(static_cast<int>(threadIdx.x) % 32),
        tile_(static_cast<int>(threadIdx.x) / 32 / kTileWarps),
        warp_(static_cast<int>(threadIdx.x) / 32 % kTileWarps),
        first_element_(lane_ % kLanesPerKey * kElements) {
    const float scale = 1.4426950408889634F / sqrtf(static_cast<float>(head_dim));
#pragma unroll
    for (int r = 0; r < kHeads; ++r) {
      const int head = tile_ * kHeads + r;
      max_[r] = minus_infinity();
      sum_[r] = 0.0F;
      const bool real = head < group_heads && first_element_ < head_dim;
      const uint4 word =
          real ? *reinterpret_cast<const uint4*>(q + head * head_dim + first_element_) : uint4{};
      unpack<T>(word, q_[r]);
#pragma unroll
      for (int e = 0; e < kElements; ++e) {
        q_[r][e] *= scale;
        acc_[r][e] = 0.0F;
      }
    }
  }

  // Whose chunks this warp absorbs.
  __device__ int team() const {
    return warp_ / kWarpsPerTile;
  }

  // Absorbs the chunk that starts at position `base`, one of the warp's team: row_at(position)
  // gives a KeyRow or FreshKeyRow; on_scores(position, scores of this tile's heads) is called by
  // one lane a key.
  template <class RowAt, class OnScores>
  __device__ void absorb(std::int64_t base, const RowAt& row_at, const OnScores& on_scores) {
#pragma unroll 1
    for (int pass = 0; pass < kPasses; pass += kBatch) {
      uint4 k[kBatch];
      uint4 v[kBatch];
      bool visible[kBatch];
#pragma unroll
      for (int b = 0; b < kBatch; ++b) {
        const auto row = row_at(position_of(base, pass + b));
        visible[b] = row.visible();
        const bool loads = visible[b] && first_element_ < head_dim_;
        k[b] = loads ? row.load(row.k + first_element_) : uint4{};
        v[b] = loads ? row.load(row.v + first_element_) : uint4{};
      }
      float scores[kBatch][kHeads];
#pragma unroll
      for (int b = 0; b < kBatch; ++b) {
        score(k[b], visible[b], scores[b]);
        if (lane_ % kLanesPerKey == 0) {
          on_scores(position_of(base, pass + b), scores[b]);
        }
      }
      raise_maxima(scores);
#pragma unroll
      for (int b = 0; b < kBatch; ++b) {
        add_value(v[b], scores[b]);
      }
    }
  }

  // Merges all states; then finish(head, element, value, max, sum) is called once for every head
  // and element, value unnormalised. `shared`: merge_bytes. All threads of the CTA come here.
  template <class Finish>
  __device__ void merge(float* shared, int group_heads, const Finish& finish) {
    merge_lane_groups();
    store_warp_state(shared);
    __syncthreads();
    const int row = head_dim_ + 2;
    for (int i = static_cast<int>(threadIdx.x); i < group_heads * head_dim_;
         i += static_cast<int>(blockDim.x)) {
      const int head = i / head_dim_;
      const int element = i % head_dim_;
      const int tile = head / kHeads;
      const float* first = shared + (tile * kTileWarps * kHeads + head % kHeads) * row;
      float most = minus_infinity();
      for (int w = 0; w < kTileWarps; ++w) {
        most = fmaxf(most, first[w * kHeads * row]);
      }
      float sum = 0.0F;
      float value = 0.0F;
      for (int w = 0; w < kTileWarps; ++w) {
        const float* state = first + w * kHeads * row;
        const float factor = weight(state[0], most);
        sum = fmaf(factor, state[1], sum);
        value = fmaf(factor, state[2 + element], value);
      }
      finish(head, element, value, most, sum);
    }
  }

  // The same of one head of `head_dim` elements, a multiple of 32, with the same sums: a lane holds
  // a warp's factor. finish(element, value, max, sum) is called by whole warps.
  template <class Finish>
  __device__ void merge_one(float* shared, const Finish& finish) {
    static_assert(kHeads == 1 && kTileWarps <= 32);
    merge_lane_groups();
    store_warp_state(shared);
    __syncthreads();
    const int element = static_cast<int>(threadIdx.x);
    if (element >= head_dim_) {
      return;
    }
    const int row = head_dim_ + 2;
    const float* own = shared + lane_ * row;
    const float max = lane_ < kTileWarps ? own[0] : minus_infinity();
    const float part = lane_ < kTileWarps ? own[1] : 0.0F;
    float most = max;
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2) {
      most = fmaxf(most, __shfl_xor_sync(0xFFFFFFFFU, most, distance));
    }
    const float factor = weight(max, most);
    float sum = 0.0F;
    float value = 0.0F;
#pragma unroll
    for (int w = 0; w < kTileWarps; ++w) {
      const float of_warp = __shfl_sync(0xFFFFFFFFU, factor, w);
      sum = fmaf(of_warp, __shfl_sync(0xFFFFFFFFU, part, w), sum);
      value = fmaf(of_warp, shared[w * row + 2 + element], value);
    }
    finish(element, value, most, sum);
  }

 private:
  // 2^(m - most); 0 for a state that saw no key.
  __device__ static float weight(float m, float most) {
    return m == minus_infinity() ? 0.0F : exp2f(m - most);
  }

  __device__ std::int64_t position_of(std::int64_t base, int pass) const {
    return base + (pass * kWarpsPerTile + warp_ % kWarpsPerTile) * kKeysPerPass +
           lane_ / kLanesPerKey;
  }

  __device__ void score(const uint4& word, bool visible, float (&scores)[kHeads]) const {
    float k[kElements];
    unpack<T>(word, k);
#pragma unroll
    for (int r = 0; r < kHeads; ++r) {
      float sum = 0.0F;
#pragma unroll
      for (int e = 0; e < kElements; ++e) {
        sum = fmaf(q_[r][e], k[e], sum);
      }
#pragma unroll
      for (int apart = kLanesPerKey / 2; apart > 0; apart /= 2) {
        sum += __shfl_xor_sync(0xFFFFFFFFU, sum, apart);
      }
      scores[r] = visible ? sum : minus_infinity();
    }
  }

  // Takes the batch's maximum into m and rescales what was summed under the old one.
  __device__ void raise_maxima(const float (&scores)[kBatch][kHeads]) {
#pragma unroll
    for (int r = 0; r < kHeads; ++r) {
      float most = max_[r];
#pragma unroll
      for (int b = 0; b < kBatch; ++b) {
        most = fmaxf(most, scores[b][r]);
      }
      if (most > max_[r]) {
        const float factor = exp2f(max_[r] - most);
        max_[r] = most;
        sum_[r] *= factor;
#pragma unroll
        for (int e = 0; e < kElements; ++e) {
          acc_[r][e] *= factor;
        }
      }
    }
  }

  __device__ void add_value(const uint4& word, const float (&scores)[kHeads]) {
    float v[kElements];
    unpack<T>(word, v);
#pragma unroll
    for (int r = 0; r < kHeads; ++r) {
      const float p = scores[r] == minus_infinity() ? 0.0F : exp2f(scores[r] - max_[r]);
      sum_[r] += p;
#pragma unroll
      for (int e = 0; e < kElements; ++e) {
        acc_[r][e] = fmaf(p, v[e], acc_[r][e]);
      }
    }
  }

  // The lane groups of a warp, pairwise: both partners compute the same sums.
  __device__ void merge_lane_groups() {
#pragma unroll
    for (int apart = kLanesPerKey; apart < 32; apart *= 2) {
#pragma unroll
      for (int r = 0; r < kHeads; ++r) {
        const float other_max = __shfl_xor_sync(0xFFFFFFFFU, max_[r], apart);
        const float other_sum = __shfl_xor_sync(0xFFFFFFFFU, sum_[r], apart);
        const float most = fmaxf(max_[r], other_max);
        const float mine = weight(max_[r], most);
        const float theirs = weight(other_max, most);
        max_[r] = most;
        sum_[r] = __fadd_rn(__fmul_rn(mine, sum_[r]), __fmul_rn(theirs, other_sum));
#pragma unroll
        for (int e = 0; e < kElements; ++e) {
          const float other = __shfl_xor_sync(0xFFFFFFFFU, acc_[r][e], apart);
          acc_[r][e] = __fadd_rn(__fmul_rn(mine, acc_[r][e]), __fmul_rn(theirs, other));
        }
      }
    }
  }

  __device__ void store_warp_state(float* shared) const {
    if (lane_ >= kLanesPerKey) {
      return;
    }
#pragma unroll
    for (int r = 0; r < kHeads; ++r) {
      float* state = shared + ((tile_ * kTileWarps + warp_) * kHeads + r) * (head_dim_ + 2);
      if (lane_ == 0) {
        state[0] = max_[r];
        state[1] = sum_[r];
      }
#pragma unroll
      for (int e = 0; e < kElements; ++e) {
        if (first_element_ < head_dim_) {
          state[2 + first_element_ + e] = acc_[r][e];
        }
      }
    }
  }

  int head_dim_;
  int lane_;
  int tile_;
  int warp_;  // of the tile
  int first_element_;
  float q_[kHeads][kElements];  // times log2(e) / sqrt(d)
  float max_[kHeads];
  float sum_[kHeads];
  float acc_[kHeads][kElements];
};

// on_scores of a branch whose scores nobody wants.
struct NoScores {
  __device__ void operator()(std::int64_t, const float*) const {}
};

// ancestors[k] = the k-th ancestor of `node` (itself for 0) while k < count, -1 past the root.
// `parents`: shared memory for node + 1 ints. Ends with a barrier.
__device__ inline void walk_ancestors(const std::int32_t* parent, int node, int count, int* parents,
                                      int* ancestors) {
  for (int i = static_cast<int>(threadIdx.x); i <= node; i += static_cast<int>(blockDim.x)) {
    parents[i] = parent[i];
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    int i = node;
    for (int k = 0; k < count; ++k) {
      ancestors[k] = i;
      i = i < 0 ? -1 : parents[i];
    }
  }
  __syncthreads();
}

// Calls body.template operator()<teams>() for H/G.
template <class Body>
void with_teams(std::int64_t group_heads, const Body& body) {
  switch (attention_teams(group_heads)) {
    case 4:
      return body.template operator()<4>();
    case 2:
      return body.template operator()<2>();
    default:
      return body.template operator()<1>();
  }
}

// Calls body.template operator()<lanes per key>() for the head size.
template <class T, class Body>
void with_lanes_per_key(std::int64_t head_dim, const Body& body) {
  constexpr int kWord = static_cast<int>(sizeof(T)) / 2;  // 1 for Bf16, 2 for float
  if (head_dim <= 16) {
    body.template operator()<2 * kWord>();
  } else if (head_dim <= 32) {
    body.template operator()<4 * kWord>();
  } else if (head_dim <= 64) {
    body.template operator()<8 * kWord>();
  } else {
    body.template operator()<16 * kWord>();
  }
}

}  // namespace versieve::kernels
