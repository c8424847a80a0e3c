// A layer's attention in decode_layers: what each CTA of a KV head does, by its role.
#pragma once

#include "kernels/decode_layers/choose.cuh"
#include "kernels/decode_layers/merge.cuh"
#include "kernels/rope_append/turn.cuh"

namespace versieve::kernels {

// The node's queries of the KV head, its key and value: from the joint row's packets into shared
// memory, queries and key turned; a thread has elements i and i + d/2 of a row. All computing
// warps.
template <int kD>
__device__ __forceinline__ void receive_heads(const DecodeCta& c, const uint2* mail, int layer,
                                              unsigned epoch) {
  constexpr int kHalf = kD / 2;
  const DecodeArguments& a = c.a;
  DecodeShared& shared = c.shared;
  const int pairs = (a.group_heads + 2) * kHalf;
#pragma unroll 1
  for (int i = static_cast<int>(threadIdx.x); i < pairs; i += kComputeThreads) {
    const int row = i / kHalf;  // queries, key, value
    const int element = i % kHalf;
    const int behind = row - a.group_heads;
    const int head = behind < 0 ? c.g * a.group_heads + row : a.heads + behind * a.kv_heads + c.g;
    const int from = head * kD + element;
    const JointElement low_at(c, mail, from);
    const JointElement high_at(c, mail, from + kHalf);
    uint4 x[2];
    receive(low_at.at, static_cast<int>(high_at.at - low_at.at), 2, epoch, x);
    const float scale = c.joint_in_slices() ? row_scale(c, kJoint, layer) : 1.0F;
    float low = JointElement::value(c, x[0], from, scale);
    float high = JointElement::value(c, x[1], from, scale);
    Bf16* const to = (behind < 0 ? shared.q + row * kD : shared.own[behind]) + element;
    if (behind == 0) {
      store_f32(shared.own_raw + element, low);
      store_f32(shared.own_raw + element + kHalf, high);
    }
    if (behind <= 0) {
      const float cosine = shared.cosine[element];
      const float sine = shared.sine[element];
      const float turned = turned_low(low, high, cosine, sine);
      high = turned_high(low, high, cosine, sine);
      low = turned;
    }
    store_f32(to, low);
    store_f32(to + kHalf, high);
  }
  compute_sync();
}

// The node's key and value for the commit.
template <int kD>
__device__ __forceinline__ void keep_own_rows(const DecodeCta& c, const DecodeTable* t) {
  const int i = static_cast<int>(threadIdx.x);
  if (i < kD / 8) {
    const int at = c.g * kD / 8 + i;
    const auto copy = [&](Bf16* to, const Bf16* from) {
      reinterpret_cast<uint4*>(to)[at] = reinterpret_cast<const uint4*>(from)[i];
    };
    copy(t->k_tree, c.shared.own[0]);
    copy(t->v_tree, c.shared.own[1]);
    if (t->k_raw_tree != nullptr) {
      copy(t->k_raw_tree, c.shared.own_raw);
    }
  }
}

// The compressed token that the node completes: phi of its tokens (kernels/compress/pool.cuh, with
// its sums), into shared memory and for the commit.
template <int kD>
__device__ __forceinline__ void pool_own(const DecodeCta& c, const DecodeTable* t,
                                         const float* turns) {
  const DecodeArguments& a = c.a;
  DecodeShared& shared = c.shared;
  const int thread = static_cast<int>(threadIdx.x);
  const int l = a.cmp_block;
  const bool is_key = thread < kD;
  const int e = thread % kD;
  if (thread < 2 * kD) {
    const Bf16* const weights = (is_key ? t->compress_key : t->compress_value) + c.g * l;
    const Bf16* const rows = is_key ? t->pooled_k : t->pooled_v;
    const Bf16* const own =
        is_key ? (a.rotates_pooled ? shared.own_raw : shared.own[0]) : shared.own[1];
    const Bf16* const shift =
        is_key && t->intra_block_pe != nullptr ? t->intra_block_pe + c.g * l * kD + e : nullptr;
    float sum = 0.0F;
#pragma unroll 8
    for (int j = 0; j < l; ++j) {
      const int source = a.source[j];
      const float x = load_f32(
          source >= 0 ? rows + (static_cast<std::int64_t>(source) * a.kv_heads + c.g) * kD + e
                      : own + e);
      sum = fmaf(load_f32(weights + j), shift != nullptr ? x + load_f32(shift + j * kD) : x, sum);
    }
    if (is_key && a.rotates_pooled) {
      shared.pooled_key[e] = sum;
    } else {
      store_f32(shared.own_compressed[is_key ? 0 : 1] + e, sum);
    }
  }
  compute_sync();
  if (is_key && a.rotates_pooled) {
    constexpr int kHalf = kD / 2;
    const int i = e % kHalf;
    const float low = shared.pooled_key[i];
    const float high = shared.pooled_key[i + kHalf];
    const float cosine = turns[i];
    const float sine = turns[64 + i];
    store_f32(shared.own_compressed[0] + e,
              e < kHalf ? __fadd_rn(__fmul_rn(low, cosine), -__fmul_rn(high, sine))
                        : __fadd_rn(__fmul_rn(high, cosine), __fmul_rn(low, sine)));
  }
  compute_sync();
  if (thread < 2 * kD) {
    (is_key ? t->k_cmp_tree : t->v_cmp_tree)[c.g * kD + e] =
        shared.own_compressed[is_key ? 0 : 1][e];
  }
}

// A layer's attention: this CTA's parts, and the query head that it merges.
template <int kD>
__device__ __forceinline__ void attention_stage(const DecodeCta& c, const DecodePosition& at,
                                                const DecodeTable* t, int layer, StageCursor& ring,
                                                int& turn, unsigned epoch) {
  const DecodeArguments& a = c.a;
  DecodeShared& shared = c.shared;
  if (c.role == Role::kNone) {
    return;
  }
  uint2* const mail = c.mail(layer);
  const bool routes = t->routes != 0;
  const bool chosen = c.role == Role::kChosen;
  const int span_total = span_count(at.seen);
  const bool first_warp = c.warp == 0;
  const PartOrder parts(c, at, routes);
  if (chosen && !routes && first_warp && shared.tile_count > 0) {  // known beforehand
    load_chosen<kD>(c, t, ring, 0, min(shared.tile_count, chosen_piece(kD)));
  }
  const DecodeKeepBlocks keep(c, mail, epoch);
  compute_sync();  // who still reads the rows of the layer before
  receive_heads<kD>(c, mail, layer, epoch);
  DecodeRows<kD> rows;
  rows.load(shared.q, a.group_heads);
  if (c.index == kSelectedSegments) {
    keep_own_rows<kD>(c, t);
  }
  if (at.own_compressed >= 0 && span_of(at.own_compressed) >= at.from &&
      span_of(at.own_compressed) < at.to) {
    pool_own<kD>(c, t, shared.pooled_turns);
  }
#pragma unroll 1
  for (int i = 0; i < parts.count(); ++i) {
    const bool span = parts.is_span(i);
    if (!span && chosen && routes) {
      choose_segment<kD>(c, at, t, ring, span_total, mail, epoch);
      compute_sync();
      if (c.index == 0) {
        sort_chosen(c, at);
      }
    }
    const PartTiles tiles =
        span     ? PartTiles::of_span(at, parts.span(i))
        : chosen ? PartTiles{0, 0, shared.tile_count, 0, at.position + 1, at.position}
                 : PartTiles::of_window(a, at, c.index - kSelectedSegments);
    attend_part(c, t, rows, tiles, span ? kSegments + parts.span(i) : c.index, !span && chosen,
                span ? shared.own_compressed : shared.own, ring, turn, keep, span && routes, mail,
                epoch);
  }
  if (c.index == 0) {
    compute_sync();  // sorted by other warps
    if (threadIdx.x < a.sel_count) {
      t->indices[c.g * a.sel_count + threadIdx.x] = shared.sorted[threadIdx.x];
    }
  }
  const int head = a.head_ctas - 1 - c.index;
  // By warps that the output matrix does not need: the others wait for its row meanwhile.
  if (head < a.group_heads && c.warp >= kMergingWarp && c.warp < kMergingWarp + kBranches) {
    merge_head<kD>(c, head, span_total, routes, mail, layer, epoch);
  }
}

}  // namespace versieve::kernels
