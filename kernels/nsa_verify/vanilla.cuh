// What the vanilla launches share: sizes derived from a problem and the scratch they pass through.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/common/warp_attention.cuh"
#include "kernels/launch.h"
#include "kernels/nsa_verify/params.h"

namespace versieve::kernels {

// Compressed tokens of one CTA of nsa_compressed. Spans are fixed by index and merged in ascending
// order, so that one query can fill the chip and still keep its bits in any batch.
inline constexpr int kSpan = 512;

// Sizes and scratch of one call. `max_*` bound every node of the call.
struct VanillaPlan {
  std::int64_t group_heads = 0;     // H/G
  std::int64_t padded_heads = 0;    // H/G in whole head tiles
  std::int64_t max_compressed = 0;  // compressed tokens a node can see
  std::int64_t spans = 0;

  std::size_t scores_at = 0;    // [N, G, max_compressed, padded_heads]
  std::size_t states_at = 0;    // [N, G, spans, padded_heads, 2]: max, sum
  std::size_t partials_at = 0;  // [N, G, spans, padded_heads, d]
  std::size_t selected_at = 0;  // [N, H, d]
  std::size_t window_at = 0;    // [N, H, d]
  // Blocks ranked by kernels/topk.
  std::size_t ranked_at = 0;  // [N, G, S]
  std::size_t values_at = 0;  // [N, G, n]
  std::size_t hints_at = 0;   // [N, G, n]
  std::size_t topk_at = 0;    // its scratch
  std::size_t bytes = 0;
};

// Rows of importance for kernels/topk; pointers are the caller's to set.
template <class T>
TopkParams<float> ranking_of(const NsaVerifyParams<T>& p) {
  return {.variant = p.topk,
          .rows = p.num_queries * p.num_kv_heads,
          .length = p.num_blocks,
          .k = p.nsa.sel_count};
}
template <class T>
bool ranks_apart(const NsaVerifyParams<T>& p) {
  return p.topk != TopkVariant::kSort && p.indices_in == nullptr;
}

template <class T>
VanillaPlan plan_vanilla(const NsaVerifyParams<T>& p) {
  VanillaPlan plan;
  plan.group_heads = p.num_heads / p.num_kv_heads;
  plan.padded_heads = head_tiles(plan.group_heads) * kTileHeads;
  plan.max_compressed = compressed_count(
      p.nsa, std::min(p.context_len + p.num_queries, p.num_blocks * p.nsa.sel_block));
  plan.spans = (plan.max_compressed + kSpan - 1) / kSpan;
  const auto place = [&](std::int64_t floats) {
    const std::size_t at = plan.bytes;
    plan.bytes += (static_cast<std::size_t>(floats) * sizeof(float) + 255) / 256 * 256;
    return at;
  };
  const std::int64_t rows = p.num_queries * p.num_kv_heads;
  plan.scores_at =
      place(p.indices_in == nullptr ? rows * plan.max_compressed * plan.padded_heads : 0);
  plan.states_at = place(rows * plan.spans * plan.padded_heads * 2);
  plan.partials_at = place(rows * plan.spans * plan.padded_heads * p.head_dim);
  plan.selected_at = place(p.num_queries * p.num_heads * p.head_dim);
  plan.window_at = place(p.num_queries * p.num_heads * p.head_dim);
  if (ranks_apart(p)) {
    plan.ranked_at = place(rows * p.num_blocks);
    plan.values_at = place(rows * p.nsa.sel_count);
    plan.hints_at = place(rows * p.nsa.sel_count);
    plan.topk_at = place(static_cast<std::int64_t>(topk_scratch_bytes(ranking_of(p)) + 3) / 4);
  }
  return plan;
}

// What every vanilla kernel gets, by value.
template <class T>
struct VanillaArguments {
  NsaVerifyParams<T> p;
  int group_heads = 0;
  int padded_heads = 0;
  int spans = 0;
  std::int64_t max_compressed = 0;
  float* scores = nullptr;    // [N, G, max_compressed, padded_heads], log2 units; null: not wanted
  float* states = nullptr;    // [N, G, spans, padded_heads, 2]
  float* partials = nullptr;  // [N, G, spans, padded_heads, d]
  float* selected = nullptr;  // [N, H, d]
  float* window = nullptr;    // [N, H, d]
  float* ranked = nullptr;    // [N, G, S]: importance, infinity where forced, -infinity past t
  float* values = nullptr;    // [N, G, n]: of the chosen
  std::int32_t* hints = nullptr;  // [N, G, n]
};

__device__ inline std::int64_t device_compressed_count(const NsaGeometry& nsa,
                                                       std::int64_t tokens) {
  return tokens >= nsa.cmp_block ? (tokens - nsa.cmp_block) / nsa.cmp_stride + 1 : 0;
}

}  // namespace versieve::kernels
