// How tiles of keys and values flow through a CTA: teams of row tiles that share them, rings of
// stages with full and empty barriers, bulk tensor copies for whole tiles and 16-byte copies for
// the others, the loop over a list of tiles, and the parts that finished states become.
#pragma once

#include "kernels/common/tile_copy.cuh"
#include "kernels/nsa_verify/fused.cuh"

namespace versieve::kernels {

__device__ inline void named_barrier(int barrier, int threads) {
  asm volatile("bar.sync %0, %1;\n" ::"r"(barrier), "r"(threads) : "memory");
}

// Row tiles that share tiles of keys and wait for each other only. The first warp loads.
struct Team {
  int first_tile;
  int tiles;
  int thread;   // within the team
  int barrier;  // hardware barrier

  __device__ int threads() const { return tiles * kSlices * 32; }
  __device__ void sync() const { named_barrier(barrier, threads()); }
};
// The team of this warp where teams of `tiles` share out the CTA's row tiles. Barriers: 0 is the
// CTA's, 1-4 the row tiles', 5-8 the teams'.
__device__ inline Team make_team(int tiles) {
  const int index = static_cast<int>(threadIdx.x) / (kSlices * 32) / tiles;
  return {index * tiles, tiles, static_cast<int>(threadIdx.x) - index * tiles * kSlices * 32,
          5 + index};
}

// A team's stages (a tile's keys and values) in shared memory and their barriers. A stage is full
// when its copies have landed, empty when all warps have read it.
struct Ring {
  std::uint32_t stages_at;    // 1024-byte aligned
  std::uint32_t barriers_at;  // [stages] full, [stages] empty
  int stages;

  __device__ std::uint32_t full(int place) const {
    return barriers_at + static_cast<std::uint32_t>(place) * 8U;
  }
  __device__ std::uint32_t empty(int place) const {
    return barriers_at + static_cast<std::uint32_t>(stages + place) * 8U;
  }
  __device__ void init(int warps) const {
#pragma unroll 1
    for (int i = 0; i < stages; ++i) {
      barrier_init(full(i), 1);
      barrier_init(empty(i), warps);
    }
  }
};

// One warp copies a tile whose keys do not all lie in the cache into a stage, 16 bytes a lane.
template <int kD>
__device__ __forceinline__ void load_gathered(const Queries& t, bool compressed, int first_query,
                                              const Entry& entry, std::uint32_t stage) {
  constexpr int kChunks = kD / 8;
  const FusedArguments& a = t.a;
  const int chunk = t.lane % kChunks;
  const int stride = a.kv_heads * a.head_dim;
  const int shared_rows = compressed ? t.committed : t.context_len;
#pragma unroll 1
  for (int row = t.lane / kChunks; row < kTileKeys; row += 32 / kChunks) {
    bool exists = chunk * 8 < a.head_dim;
    int at = entry.first + row;
    bool shared = true;
    if (entry.tail < 0) {
      exists = exists && row < entry.count;
    } else {
      exists = exists && (entry.valid >> row & 1) != 0;
      at = entry.first + row % kSliceKeys;
      shared = at < shared_rows;
      if (exists && !shared) {
        const int query = first_query + entry.tail + row / kSliceKeys;
        at = compressed ? t.path_row[query * a.plan.path_compressed + at - shared_rows]
                        : t.ancestor[query * a.plan.depth_capacity + at - shared_rows];
      }
    }
    const std::int64_t offset =
        exists ? static_cast<std::int64_t>(at) * stride + t.g * a.head_dim + chunk * 8 : 0;
    const Bf16* const k =
        shared ? (compressed ? a.k_cmp : a.k) : (compressed ? a.k_cmp_tree : a.k_tree);
    const Bf16* const v =
        shared ? (compressed ? a.v_cmp : a.v) : (compressed ? a.v_cmp_tree : a.v_tree);
    const std::uint32_t to = unit_chunk(stage, row, chunk);
    copy_chunk_async(to, exists ? k + offset : a.q, exists);
    copy_chunk_async(to + SliceRows<kD>::kUnitBytes, exists ? v + offset : a.q, exists);
  }
}

// The loading warp fills place `place` of the ring.
template <int kD>
__device__ __forceinline__ void load_stage(const Queries& t, const TileMaps& maps, bool compressed,
                                           const Team& team, const Entry& entry, const Ring& ring,
                                           int place) {
  const std::uint32_t stage =
      ring.stages_at + static_cast<std::uint32_t>(place * SliceRows<kD>::kStageBytes);
  if (entry.tail < 0 && entry.count == kTileKeys) {
    if (t.lane == 0) {
      barrier_expect(ring.full(place), SliceRows<kD>::kStageBytes);
#pragma unroll
      for (int panel = 0; panel < kD / 64; ++panel) {
        const std::uint32_t to = stage + static_cast<std::uint32_t>(panel * kTileKeys * 128);
        copy_tile_async(to, compressed ? &maps.k_cmp : &maps.k, panel * 64, t.g, entry.first,
                        ring.full(place));
        copy_tile_async(to + SliceRows<kD>::kUnitBytes, compressed ? &maps.v_cmp : &maps.v,
                        panel * 64, t.g, entry.first, ring.full(place));
      }
    }
    return;
  }
  load_gathered<kD>(t, compressed, team.first_tile * t.per_tile, entry, stage);
  barrier_await_copies(ring.full(place));
  __syncwarp();
  if (t.lane == 0) {
    barrier_arrive(ring.full(place));
  }
}

// Shared memory of a row tile in which its four states are merged, in floats.
template <int kD>
inline constexpr int kMergePitch = kD + 8;
template <int kD>
inline constexpr int kMergeFloats = kSlices* kTileRows*(kMergePitch<kD> + 2);

// The row tile's four warps merge their states in ascending slice class and write a part: a span of
// compressed tokens, or a segment.
template <int kD>
__device__ __forceinline__ void store_part(const Queries& t, SliceRows<kD>& rows, bool compressed,
                                           int part, float* merge) {
  constexpr int kPitch = kMergePitch<kD>;
  float2* const states = reinterpret_cast<float2*>(merge);  // [slice, row]
  float* const outs = merge + 2 * kSlices * kTileRows;      // [slice, row, pitch]
  named_barrier(1 + t.tile, kSlices * 32);                  // nobody still reads the part before
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int row = t.slice * kTileRows + t.lane / 4 + r * 8;
    float total = rows.sum[r];
    total += __shfl_xor_sync(0xFFFFFFFFU, total, 1);
    total += __shfl_xor_sync(0xFFFFFFFFU, total, 2);
    if (t.lane % 4 == 0) {
      states[row] = make_float2(rows.reference[r], total);
    }
#pragma unroll
    for (int n = 0; n < kD / 8; ++n) {
      *reinterpret_cast<float2*>(outs + row * kPitch + n * 8 + t.lane % 4 * 2) =
          make_float2(rows.out[n][r * 2], rows.out[n][r * 2 + 1]);
    }
  }
  named_barrier(1 + t.tile, kSlices * 32);
#pragma unroll 1
  for (int row = t.slice; row < kTileRows; row += kSlices) {
    if (!t.has_row(row)) {
      continue;
    }
    float most = kNoReference;
#pragma unroll
    for (int i = 0; i < kSlices; ++i) {
      const float2 state = states[i * kTileRows + row];
      most = state.y > 0.0F ? fmaxf(most, state.x) : most;
    }
    float sum = 0.0F;
    float2 value[kD / 64] = {};
#pragma unroll
    for (int i = 0; i < kSlices; ++i) {
      const float2 state = states[i * kTileRows + row];
      const float weight = state.y > 0.0F ? state_weight(state.x, most) : 0.0F;
      sum = fmaf(weight, state.y, sum);
#pragma unroll
      for (int w = 0; w < kD / 64; ++w) {
        const float2 pair = *reinterpret_cast<const float2*>(outs + (i * kTileRows + row) * kPitch +
                                                             w * 64 + t.lane * 2);
        value[w].x = fmaf(weight, pair.x, value[w].x);
        value[w].y = fmaf(weight, pair.y, value[w].y);
      }
    }
    const int at =
        t.row_index(t.query_of(row), t.head_of(row)) * (compressed ? t.a.max_spans : kSegments) +
        part;
    if (t.lane == 0) {
      __stcg((compressed ? t.a.span_states : t.a.segment_states) + at, make_float2(most, sum));
    }
#pragma unroll
    for (int w = 0; w < kD / 64; ++w) {
      const int element = w * 64 + t.lane * 2;
      if (element < t.a.head_dim) {
        float* const outs_at = (compressed ? t.a.span_outs : t.a.segment_outs) + at * t.a.head_dim;
        __stcg(reinterpret_cast<float2*>(outs_at + element), value[w]);
      }
    }
  }
  rows.reset();
}

// Runs a list of entries through the rows: tiles flow through the ring, each barrier's first phase
// first; finished states become parts [part, end_part). after_keys(first key of
// the slice, whether rows lane / 4 and lane / 4 + 8 took part) sees the weights in rows.p. `low`:
// first visible key of rows lane / 4 and lane / 4 + 8.
template <int kD, class AfterKeys>
__device__ __forceinline__ void run_entries(const Queries& t, const TileMaps& maps, bool compressed,
                                            const Team& team, const Entry* entries, int count,
                                            const Ring& ring, const int (&low)[2], float* merge,
                                            int part, int end_part, SliceRows<kD>& rows,
                                            const AfterKeys& after_keys) {
  const int ahead = ring.stages - 1;  // the place filled next was read two tiles ago
  const bool loads = team.thread < 32;
  const int bits = t.a.head_bits;
  // This warp's queries within the team. A team of the whole CTA may have more queries than bits;
  // all of them own all its entries.
  const int first_query = (t.tile - team.first_tile) * t.per_tile;
  const std::uint32_t tile_mask = ((1U << t.per_tile) - 1U) << (first_query & 31);
  const std::uint32_t own[2] = {1U << ((first_query & 31) + ((t.lane / 4) >> bits)),
                                1U << ((first_query & 31) + ((t.lane / 4 + 8) >> bits))};
  int filled = 0;  // place and round filled next
  int filled_round = 0;
  int place = 0;  // place read next and the parity of its phase
  int parity = 0;
#pragma unroll 1
  for (int i = -ahead; i <= count; ++i) {
    if (loads && i + ahead < count) {
      if (filled_round > 0) {
        barrier_wait(ring.empty(filled), (filled_round - 1) & 1);
      }
      load_stage<kD>(t, maps, compressed, team, entries[i + ahead], ring, filled);
      if (++filled == ring.stages) {
        filled = 0;
        ++filled_round;
      }
    }
    if (i < 0) {
      continue;
    }
    const int first = entries[max(min(i, count - 1), 0)].first;
    const int until = i == count ? end_part : compressed ? span_of(first) : part;
#pragma unroll 1
    for (; part < until; ++part) {
      store_part(t, rows, compressed, part, merge);
    }
    if (i == count) {
      break;
    }
    const int tail = entries[i].tail;
    const std::uint32_t keys =
        ring.stages_at + static_cast<std::uint32_t>(place * SliceRows<kD>::kStageBytes);
    const std::uint32_t values = keys + SliceRows<kD>::kUnitBytes;
    barrier_wait(ring.full(place), parity);
    if (tail < 0) {
      const std::uint32_t owners = entries[i].owners;
      const int slot = (t.slice - first / kSliceKeys) & (kSlices - 1);
      const int there = min(entries[i].count - slot * kSliceKeys, kSliceKeys);
      if (there > 0 && (owners & tile_mask) != 0U) {
        std::uint32_t visible[2];
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          const int begin = min(max(low[r] - first - slot * kSliceKeys, 0), kSliceKeys);
          visible[r] = (owners & own[r]) != 0U ? ((1U << there) - 1U) & (0xFFFFU << begin) : 0U;
        }
        rows.take_slot(keys, values, slot, visible);
        after_keys(first + slot * kSliceKeys, true, true);
      }
    } else if (static_cast<unsigned>(tail - first_query) < static_cast<unsigned>(t.per_tile) &&
               (first / kSliceKeys & (kSlices - 1)) == t.slice) {
      const std::uint64_t valid = entries[i].valid;
      int row_slot[2];
      std::uint32_t visible[2];
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const int slot = first_query + ((t.lane / 4 + r * 8) >> bits) - tail;
        const bool inside = slot >= 0 && slot < kTailQueries;
        row_slot[r] = inside ? slot : kSlices;
        visible[r] =
            inside ? static_cast<std::uint32_t>(valid >> (slot * kSliceKeys)) & 0xFFFFU : 0U;
      }
      rows.take_tail(keys, values, row_slot, visible);
      after_keys(first, row_slot[0] < kSlices, row_slot[1] < kSlices);
    }
    __syncwarp();  // the whole warp has read the tile
    if (t.lane == 0) {
      barrier_arrive(ring.empty(place));
    }
    if (++place == ring.stages) {
      place = 0;
      parity ^= 1;
    }
  }
}

}  // namespace versieve::kernels
