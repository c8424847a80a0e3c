// The rows of a warp in the prompt's form, what it keeps of them from part to part, and the sums of
// parts, in the order in which fused_merge.cuh takes them.
#pragma once

#include "kernels/nsa_verify/fused_tiles.cuh"
#include "kernels/ptx/block.cuh"
#include "kernels/ptx/fence.cuh"
#include "kernels/ptx/shared_memory.cuh"
#include "kernels/ptx/wgmma.cuh"

namespace versieve::kernels {

// Which tokens and heads a warp's rows are; as KeepWeights and RowPlaces ask.
struct PromptQueries {
  const FusedArguments& a;
  int g;           // KV head
  int first_node;  // of the thread block
  int count;       // its tokens
  int tile;        // this warp's row tile
  int lane;
  int per_tile;  // tokens of a row tile

  __device__ __forceinline__ int query_of(int row) const {
    return tile * per_tile + (row >> a.head_bits);
  }
  __device__ __forceinline__ int head_of(int row) const { return row & ((1 << a.head_bits) - 1); }
  __device__ __forceinline__ bool has_row(int row) const {
    return (row >> a.head_bits) < per_tile && query_of(row) < count && head_of(row) < a.group_heads;
  }
  __device__ __forceinline__ int row_index(int query, int head) const {
    return (first_node + query) * a.heads + g * a.group_heads + head;
  }
  // Of a query of the thread block; those that do not exist have the last one's.
  __device__ __forceinline__ int position_of(int query) const {
    return a.context_len + first_node + min(query, count - 1);
  }
  __device__ __forceinline__ int last_position() const { return position_of(count - 1); }
};

// A warp's 16 rows, multiplied by itself. Their queries lie in registers; `queries`, where a
// warpgroup keeps its own in shared memory, is nothing here.
template <int kD, bool kByGroup>
struct PromptRows : Rows<kD> {
  // rows: as Rows::load has them.
  __device__ __forceinline__ void load(const PromptQueries& t, unsigned char* /*queries*/) {
    const RowPlaces places(t);
    Rows<kD>::load(t.a.head_dim, places.at);
  }
  // Rows::score of as many keys from `keys` on as there are scores.
  template <int kN>
  __device__ __forceinline__ void multiply_keys(unsigned char* /*queries*/, std::uint32_t keys,
                                                float (&s)[kN][4]) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const std::uint32_t first = unit_chunk(keys, Rows<kD>::score_key(), lane / 8 % 2);
#pragma unroll
    for (int n = 0; n < kN; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        s[n][e] = 0.0F;
      }
    }
#pragma unroll
    for (int step = 0; step < kD / 16; ++step) {
      const std::uint32_t at = chunk_of_step(first, step);
#pragma unroll
      for (int slot = 0; slot < kN / 2; ++slot) {
        std::uint32_t b[4];
        load_matrices_x4(at + slot * kSliceKeys * 128, b);
        multiply_m16n8k16(s[slot * 2], this->q[step], b[0], b[1]);
        multiply_m16n8k16(s[slot * 2 + 1], this->q[step], b[2], b[3]);
      }
    }
  }
  template <int kCount>
  __device__ __forceinline__ void multiply_values(std::uint32_t values,
                                                  const std::uint32_t (&p)[kCount][4]) {
#pragma unroll
    for (int slot = 0; slot < kCount; ++slot) {
      this->add_values(values, slot, p[slot]);
    }
  }
};

// The same by a warpgroup's products of 64 rows, in the same order of sums.
template <int kD>
struct PromptRows<kD, true> : Rows<kD> {
  static constexpr int kGroupBytes = 64 * kD * 2;

  __device__ __forceinline__ void load(const PromptQueries& t, unsigned char* queries) {
    constexpr int kChunks = kD / 8;
    this->scale = 1.4426950408889634F * rsqrtf(static_cast<float>(t.a.head_dim));
    const int barrier = 2 + t.tile / 4;
    meet_at<128>(barrier);  // the group's earlier products have read what lies there
    const std::uint32_t to = group_queries(queries);
#pragma unroll
    for (int i = t.lane; i < kTileRows * kChunks; i += 32) {
      const int row = i / kChunks;
      const int chunk = i % kChunks;
      uint4 x{};
      if (t.has_row(row) && chunk * 8 < t.a.head_dim) {
        x = reinterpret_cast<const uint4*>(t.a.q + t.row_index(t.query_of(row), t.head_of(row)) *
                                                       t.a.head_dim)[chunk];
      }
      store_16(unit_chunk(to, t.tile % 4 * kTileRows + row, chunk), x);
    }
    fence_for_copies();
    meet_at<128>(barrier);
    this->reset();
  }
  __device__ __forceinline__ void multiply_keys(unsigned char* queries, std::uint32_t keys,
                                                float (&s)[kTileKeys / 8][4]) {
    const std::uint32_t from = group_queries(queries);
    wgmma_fence();
#pragma unroll
    for (int step = 0; step < kD / 16; ++step) {
      const std::uint32_t at = static_cast<std::uint32_t>(step / 4 * kPanelBytes + step % 4 * 32);
      if (step == 0) {
        wgmma_start<kTileKeys>(s, wgmma_operand(from + at), wgmma_operand(keys + at));
      } else {
        wgmma<kTileKeys>(s, wgmma_operand(from + at), wgmma_operand(keys + at));
      }
    }
    wgmma_commit();
    wgmma_wait<0>();
    settle_sums(s);
  }
  __device__ __forceinline__ void multiply_values(std::uint32_t values,
                                                  const std::uint32_t (&p)[kSlots][4]) {
    wgmma_fence();
#pragma unroll
    for (int slot = 0; slot < kSlots; ++slot) {
      wgmma_rows<kD>(
          this->out, p[slot],
          wgmma_transposed_operand(values + static_cast<std::uint32_t>(slot * kSliceKeys * 128),
                                   kPanelBytes));
    }
    wgmma_commit();
    wgmma_wait<0>();
    settle_sums(this->out);
  }

 private:
  __device__ __forceinline__ static std::uint32_t group_queries(unsigned char* queries) {
    return shared_address(queries + threadIdx.x / 128 * kGroupBytes);
  }
};

// A branch's sum over parts, or that of the spans of a join: its outputs lie in memory, 4-byte
// elements kStride apart, in the order of Rows::out; reference and sum of each of the warp's rows
// in shared memory, so that no register holds them meanwhile. Parts count by exact powers of two,
// so that it does not matter that a reference is the greatest so far and not the greatest of all.
template <int kD, int kStride>
struct PartTotal {
  float* at;      // this lane's
  float2* state;  // [16]

  __device__ __forceinline__ PartTotal(float* memory, float2* states) : at(memory), state(states) {}
  // Before the first part.
  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int i = 0; i < kD / 2; ++i) {
      at[i * kStride] = 0.0F;
    }
    __syncwarp();
    if (threadIdx.x % 32 < kTileRows) {
      state[threadIdx.x % 32] = make_float2(kNoReference, 0.0F);
    }
    __syncwarp();
  }
  __device__ __forceinline__ float out(int n, int e) const {
    return at[(n * 4 + e) * kStride];
  }
  // Of row lane / 4 + 8 half.
  __device__ __forceinline__ float2 state_of(int half) const {
    return state[threadIdx.x % 32 / 4 + static_cast<unsigned>(half * 8)];
  }

  // The part that rows hold, which are reset. By whole warps.
  __device__ __forceinline__ void add(Rows<kD>& rows) {
    gather_sums(rows);
    const float2 part[2] = {make_float2(rows.reference[0], rows.sum[0]),
                            make_float2(rows.reference[1], rows.sum[1])};
    add_part(part, [&](int n, int e) { return rows.out[n][e]; });
    rows.reset();
  }
  // Another total, which is cleared.
  template <int kOther>
  __device__ __forceinline__ void add(PartTotal<kD, kOther>& part) {
    const float2 states[2] = {part.state_of(0), part.state_of(1)};
    add_part(states, [&](int n, int e) { return part.out(n, e); });
    part.clear();
  }
  // 1 / sum of that half's row, 0 without a key.
  __device__ __forceinline__ float inverse(int half) const {
    const float sum = state_of(half).y;
    return sum > 0.0F ? __fdividef(1.0F, sum) : 0.0F;
  }

 private:
  template <class Out>
  __device__ __forceinline__ void add_part(const float2 (&part)[2], const Out& part_out) {
    float own[2];
    float before[2];
    float2 now[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const float2 old = state_of(r);
      const float most = fmaxf(old.x, part[r].x);
      own[r] = state_weight(part[r].x, most);
      before[r] = state_weight(old.x, most);
      now[r] = make_float2(most, fmaf(own[r], part[r].y, before[r] * old.y));
    }
    __syncwarp();
    if (threadIdx.x % 4 == 0) {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        state[threadIdx.x % 32 / 4 + static_cast<unsigned>(r * 8)] = now[r];
      }
    }
    __syncwarp();
#pragma unroll
    for (int n = 0; n < kD / 8; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        float* const x = at + (n * 4 + e) * kStride;
        *x = fmaf(own[e / 2], part_out(n, e), before[e / 2] * *x);
      }
    }
  }
};

// Softmax weights of compressed tokens as KeepWeights leaves them where a slice is four blocks, two
// slices' blocks side by side in one product's columns, so that whole sectors are written.
struct KeepBlocks {
  std::uint32_t times[2][2];  // of an even slice, an odd one: rows 2 quarter, + 1 and + 8, + 9
  int row[2];                 // of the softmax weights; negative: no such row

  __device__ __forceinline__ explicit KeepBlocks(const PromptQueries& t) {
    const int quarter = t.lane % 4;
#pragma unroll
    for (int odd = 0; odd < 2; ++odd) {
      const auto times_of = [&](int token) {
        const int block = t.lane / 4 - 4 * odd;
        const int place = token - 4 * block;
        const bool there = block >= 0 && block < 4;
        const float inside = place >= 0 && place < 4 ? (place == 3 ? 1.0F : 2.0F) : 0.0F;
        return there ? (place == -1 ? 1.0F : inside) : 0.0F;
      };
      times[odd][0] = pack_bf16(times_of(quarter * 2), times_of(quarter * 2 + 1));
      times[odd][1] = pack_bf16(times_of(quarter * 2 + 8), times_of(quarter * 2 + 9));
    }
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int of_tile = t.lane / 4 + r * 8;
      row[r] = t.has_row(of_tile) ? t.row_index(t.query_of(of_tile), t.head_of(of_tile)) : -1;
    }
  }

  // Slices of a tile, in pairs, the first of which that is; what lies behind the last one is room.
  template <int kD, int kCount>
  __device__ __forceinline__ void slices(const FusedArguments& a, int slice, const Rows<kD>& rows,
                                         const std::uint32_t (&p)[kCount][4]) const {
    const int quarter = static_cast<int>(threadIdx.x) % 4;
    float sums[kCount / 2][4] = {};
#pragma unroll
    for (int slot = 0; slot < kCount; ++slot) {
      multiply_m16n8k16(sums[slot / 2], p[slot], times[slot % 2][0], times[slot % 2][1]);
    }
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      if (row[r] < 0) {
        continue;
      }
      float2* const weights =
          reinterpret_cast<float2*>(a.weights + row[r] * a.max_blocks + slice * 4) + quarter;
#pragma unroll
      for (int i = 0; i < kCount / 2; ++i) {
        __stcg(weights + i * 4, make_float2(sums[i][r * 2], sums[i][r * 2 + 1]));
      }
      if (quarter == 3) {  // it holds the last token of each slice
        float4* const states = reinterpret_cast<float4*>(a.slices + row[r] * a.max_slices + slice);
#pragma unroll
        for (int i = 0; i < kCount / 2; ++i) {
          __stcg(states + i, make_float4(rows.reference[r], last_of(p[2 * i][2 + r]),
                                         rows.reference[r], last_of(p[2 * i + 1][2 + r])));
        }
      }
    }
  }

 private:
  // The second of two packed weights.
  __device__ __forceinline__ static float last_of(std::uint32_t two) {
    return __uint_as_float(two & 0xFFFF0000U);
  }
};

// Scores of keys that a row does not see: before begin[half] or from end[half] on, of these keys.
template <int kN>
__device__ __forceinline__ void hide_scores(const int (&begin)[2], const int (&end)[2],
                                            float (&s)[kN][4]) {
  const int column = static_cast<int>(threadIdx.x) % 4 * 2;
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int first = begin[r] - column;
    const int behind = end[r] - column;
#pragma unroll
    for (int n = 0; n < kN; ++n) {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        float& x = s[n][r * 2 + e];
        x = n * 8 + e >= first && n * 8 + e < behind ? x : -INFINITY;
      }
    }
  }
}

}  // namespace versieve::kernels
