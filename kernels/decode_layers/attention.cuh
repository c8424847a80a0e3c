// A layer's attention in decode_layers: what each CTA of a KV head does, by its role.
#pragma once

#include "kernels/decode_layers/choose.cuh"
#include "kernels/decode_layers/merge.cuh"
#include "kernels/rope_append/turn.cuh"

namespace versieve::kernels {

// Where element `i` of the KV head's queries, key and value (one behind the other) stands in the
// joint row, and goes in shared memory.
template <int kD>
struct HeadElement {
  int from;
  Bf16* to;

  __device__ __forceinline__ HeadElement(const DecodeCta& c, int i) {
    const DecodeArguments& a = c.a;
    const int queries = a.group_heads * kD;
    const int rest = i - queries;  // of the key, then of the value
    const bool is_key = rest < kD;
    from = rest < 0 ? c.g * queries + i
                    : (a.heads + c.g) * kD + (is_key ? rest : a.kv_heads * kD + rest - kD);
    to = rest < 0 ? c.shared.q + i
                  : (is_key ? c.shared.own_raw + rest : c.shared.own[1] + rest - kD);
  }
};

// The node's queries of the KV head, its key and value: from the joint row's packets into shared
// memory, queries and key turned. All computing warps.
template <int kD>
__device__ __forceinline__ void receive_heads(const DecodeCta& c, const uint2* mail, int layer,
                                              unsigned epoch) {
  const DecodeArguments& a = c.a;
  DecodeShared& shared = c.shared;
  const int thread = static_cast<int>(threadIdx.x);
  const int elements = (a.group_heads + 2) * kD;
  if (c.joint_in_slices()) {
    constexpr int kFlying = 2;
#pragma unroll 1
    for (int base = thread; base < elements; base += kFlying * kComputeThreads) {
      uint4 x[kFlying];
      bool waits;
      do {
        waits = false;
#pragma unroll
        for (int i = 0; i < kFlying; ++i) {
          const HeadElement<kD> e(c, min(base + i * kComputeThreads, elements - 1));
          x[i] = load_packets(mail + a.mail.partials[kJoint] + e.from * 2);
        }
#pragma unroll
        for (int i = 0; i < kFlying; ++i) {
          waits |= !arrived(x[i], epoch);
        }
      } while (waits);
      const float scale = row_scale(c, kJoint, layer);
#pragma unroll
      for (int i = 0; i < kFlying; ++i) {
        const HeadElement<kD> e(c, min(base + i * kComputeThreads, elements - 1));
        store_f32(e.to, (0.0F + __uint_as_float(x[i].x) + __uint_as_float(x[i].z)) * scale);
      }
    }
  } else {
#pragma unroll 1
    for (int i = thread * 4; i < elements; i += 4 * kComputeThreads) {
      const HeadElement<kD> e(c, i);
      const uint4 x = receive(mail + a.mail.joint + e.from / 2, epoch);
      *reinterpret_cast<uint2*>(e.to) = make_uint2(x.x, x.z);
    }
  }
  compute_sync();
  constexpr int kHalf = kD / 2;
#pragma unroll 1
  for (int i = thread; i < (a.group_heads + 1) * kHalf; i += kComputeThreads) {
    const int row = i / kHalf;
    const int at = i % kHalf;
    const bool is_key = row == a.group_heads;
    const Bf16* const from = is_key ? shared.own_raw : shared.q + row * kD;
    Bf16* const to = is_key ? shared.own[0] : shared.q + row * kD;
    const float low = load_f32(from + at);
    const float high = load_f32(from + at + kHalf);
    store_f32(to + at, turned_low(low, high, shared.cosine[at], shared.sine[at]));
    store_f32(to + at + kHalf, turned_high(low, high, shared.cosine[at], shared.sine[at]));
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
  const bool spans = c.role == Role::kSpans;
  const bool chosen = c.role == Role::kChosen;
  const int span_total = span_count(at.seen);
  const bool first_warp = threadIdx.x < 32;
  if (chosen && !routes && first_warp && shared.tile_count > 0) {  // known beforehand
    load_chosen<kD>(c, t, ring, 0, min(shared.tile_count, chosen_piece(kD)));
  }
  const DecodeKeepBlocks keep(c, mail, routes && spans, epoch);
  compute_sync();  // who still reads the rows of the layer before
  receive_heads<kD>(c, mail, layer, epoch);
  DecodeRows<kD> rows;
  rows.load(shared.q, a.group_heads);
  if (c.index == kSelectedSegments) {
    keep_own_rows<kD>(c, t);
  }
  if (spans && at.own_compressed >= 0 && span_of(at.own_compressed) >= at.from &&
      span_of(at.own_compressed) < at.to) {
    pool_own<kD>(c, t, shared.pooled_turns);
  }
  if (chosen && routes) {
    choose_blocks(c, at, span_total, mail, epoch);
    if (first_warp) {
      list_segment(c, at);
      if (shared.tile_count > 0) {
        load_chosen<kD>(c, t, ring, 0, min(shared.tile_count, chosen_piece(kD)));
      }
    }
    compute_sync();
  }
  if (c.index == 0 && threadIdx.x < a.sel_count) {
    t->indices[c.g * a.sel_count + threadIdx.x] = shared.sorted[threadIdx.x];
  }
  const int from = spans ? kSegments + at.from : c.index;
  const int to = spans ? kSegments + at.to : c.index + 1;
  const Bf16(*own)[128] = &shared.own[0];
  if (spans) {
    own = &shared.own_compressed[0];
  }
#pragma unroll 1
  for (int part = from; part < to; ++part) {
    const PartTiles tiles =
        spans    ? PartTiles::of_span(at, part - kSegments)
        : chosen ? PartTiles{0, 0, shared.tile_count, 0, at.position + 1, at.position}
                 : PartTiles::of_window(a, at, part - kSelectedSegments);
    attend_part(c, t, rows, tiles, part, own, ring, turn, keep, mail, epoch);
  }
  const int head = a.head_ctas - 1 - c.index;
  // By a warp that the output matrix does not need: the others wait for its row meanwhile.
  if (head < a.group_heads && threadIdx.x / 32 == kMergingWarp) {
    merge_head<kD>(c, head, span_total, routes, mail, layer, epoch);
  }
}

}  // namespace versieve::kernels
