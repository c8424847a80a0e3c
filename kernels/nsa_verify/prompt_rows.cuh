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

// A warp's 16 rows, multiplied by itself. Their queries lie in shared memory, as the lanes hold
// them: 16 warps a thread block have few registers.
template <int kD, bool kByGroup>
struct PromptRows : Rows<kD> {
  // rows: as Rows::load has them.
  __device__ __forceinline__ void load(const PromptQueries& t, unsigned char* queries) {
    const RowPlaces places(t);
    Rows<kD> whole;
    whole.load(t.a.head_dim, places.at);
    this->scale = whole.scale;
    uint4* const own = lane_queries(queries);
#pragma unroll
    for (int step = 0; step < kD / 16; ++step) {
      own[step * 32] =
          make_uint4(whole.q[step][0], whole.q[step][1], whole.q[step][2], whole.q[step][3]);
    }
    this->reset();
  }
  // Rows::score with these queries.
  __device__ __forceinline__ void multiply_keys(unsigned char* queries, std::uint32_t keys,
                                                float (&s)[kTileKeys / 8][4]) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const std::uint32_t first = unit_chunk(keys, Rows<kD>::score_key(), lane / 8 % 2);
    const uint4* const own = lane_queries(queries);
#pragma unroll
    for (int n = 0; n < kTileKeys / 8; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        s[n][e] = 0.0F;
      }
    }
#pragma unroll
    for (int step = 0; step < kD / 16; ++step) {
      const uint4 four = own[step * 32];
      const std::uint32_t q[4] = {four.x, four.y, four.z, four.w};
      const std::uint32_t at = chunk_of_step(first, step);
#pragma unroll
      for (int slot = 0; slot < kSlots; ++slot) {
        std::uint32_t b[4];
        load_matrices_x4(at + slot * kSliceKeys * 128, b);
        multiply_m16n8k16(s[slot * 2], q, b[0], b[1]);
        multiply_m16n8k16(s[slot * 2 + 1], q, b[2], b[3]);
      }
    }
  }
  __device__ __forceinline__ void multiply_values(std::uint32_t values,
                                                  const std::uint32_t (&p)[kSlots][4]) {
#pragma unroll
    for (int slot = 0; slot < kSlots; ++slot) {
      this->add_values(values, slot, p[slot]);
    }
  }

 private:
  __device__ __forceinline__ static uint4* lane_queries(unsigned char* queries) {
    return reinterpret_cast<uint4*>(queries + threadIdx.x / 32 * (kTileRows * kD * 2)) +
           threadIdx.x % 32;
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
// elements kStride apart, in the order of Rows::out. Parts count by exact powers of two, so that it
// does not matter that a reference is the greatest so far and not the greatest of all.
template <int kD, int kStride>
struct PartTotal {
  float* at;  // this lane's
  bool any = false;
  float reference[2];
  float sum[2];

  __device__ __forceinline__ explicit PartTotal(float* memory) : at(memory) { clear(); }
  __device__ __forceinline__ void clear() {
    any = false;
    reference[0] = reference[1] = kNoReference;
    sum[0] = sum[1] = 0.0F;
  }
  __device__ __forceinline__ float out(int n, int e) const { return at[(n * 4 + e) * kStride]; }

  // The part that rows hold, which are reset. By whole warps.
  __device__ __forceinline__ void add(Rows<kD>& rows) {
    gather_sums(rows);
    add_part(rows.reference, rows.sum, [&](int n, int e) { return rows.out[n][e]; });
    rows.reset();
  }
  // Another total, which is cleared.
  template <int kOther>
  __device__ __forceinline__ void add(PartTotal<kD, kOther>& part) {
    add_part(part.reference, part.sum, [&](int n, int e) { return part.out(n, e); });
    part.clear();
  }
  // 1 / sum of that half's row, 0 without a key.
  __device__ __forceinline__ float inverse(int half) const {
    return sum[half] > 0.0F ? __fdividef(1.0F, sum[half]) : 0.0F;
  }

 private:
  template <class Out>
  __device__ __forceinline__ void add_part(const float (&part_reference)[2],
                                           const float (&part_sum)[2], const Out& part_out) {
    float own[2];
    float before[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const float most = fmaxf(reference[r], part_reference[r]);
      own[r] = state_weight(part_reference[r], most);
      before[r] = state_weight(reference[r], most);
      reference[r] = most;
      sum[r] = fmaf(own[r], part_sum[r], before[r] * sum[r]);
    }
#pragma unroll
    for (int n = 0; n < kD / 8; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        float* const x = at + (n * 4 + e) * kStride;
        const float sums = any ? before[e / 2] * *x : 0.0F;
        *x = fmaf(own[e / 2], part_out(n, e), sums);
      }
    }
    any = true;
  }
};

// Scores of keys that a row does not see: before begin[half] or from end[half] on, of the tile.
__device__ __forceinline__ void hide_scores(const int (&begin)[2], const int (&end)[2], int lane,
                                            float (&s)[kTileKeys / 8][4]) {
  const int column = lane % 4 * 2;
#pragma unroll
  for (int n = 0; n < kTileKeys / 8; ++n) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const int key = n * 8 + column + e % 2;
      s[n][e] = key >= begin[e / 2] && key < end[e / 2] ? s[n][e] : -INFINITY;
    }
  }
}

}  // namespace versieve::kernels
