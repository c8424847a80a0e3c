// The loop over a list of tiles: scores, softmax weights, values; and the parts that finished
// states become.
#pragma once

#include "kernels/nsa_verify/fused_tail.cuh"
#include "kernels/nsa_verify/fused_words.cuh"
#include "kernels/ptx/settle.cuh"

namespace versieve::kernels {

// The softmax sums of a row tile, all of a row's lanes holding its own.
template <int kD, int kHalves>
__device__ __forceinline__ void gather_sums(Rows<kD, kHalves>& rows) {
#pragma unroll
  for (int r = 0; r < kHalves; ++r) {
    rows.sum[r] += __shfl_xor_sync(0xFFFFFFFFU, rows.sum[r], 1);
    rows.sum[r] += __shfl_xor_sync(0xFFFFFFFFU, rows.sum[r], 2);
  }
}

// Where the parts of one kind of this lane's rows lie, worked out before there are any.
struct PartPlaces {
  bool compressed;
  int first[2];  // part of rows lane / 4 and lane / 4 + 8; negative: no such row

  template <class AnyQueries>
  __device__ __forceinline__ PartPlaces(const AnyQueries& t, bool of_compressed)
      : compressed(of_compressed) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int row = t.lane / 4 + r * 8;
      first[r] = t.has_row(row) ? t.row_index(t.query_of(row), t.head_of(row)) *
                                      (compressed ? t.a.max_spans : kSegments)
                                : -1;
      settle(first[r]);
    }
  }
};

// A row tile's states, their sums gathered, become a part: of the compressed tokens, or a segment.
template <int kD, int kHalves>
__device__ __forceinline__ void store_part(const FusedArguments& a, const PartPlaces& places,
                                           int part, Rows<kD, kHalves>& rows) {
  float2* const states = places.compressed ? a.span_states : a.segment_states;
  float* const outs = places.compressed ? a.span_outs : a.segment_outs;
  const int quarter = static_cast<int>(threadIdx.x) % 4;
#pragma unroll
  for (int r = 0; r < kHalves; ++r) {
    if (places.first[r] < 0) {
      continue;
    }
    const int at = places.first[r] + part;
    if (quarter == 0) {
      store_whole(states + at, make_float2(rows.reference[r], rows.sum[r]));
    }
    float2* const to = reinterpret_cast<float2*>(outs + at * kD) + quarter;
#pragma unroll
    for (int n = 0; n < kD / 8; ++n) {
      store_whole(to + n * 4, make_float2(rows.out[n][r * 2], rows.out[n][r * 2 + 1]));
    }
  }
  rows.reset();
}

// The spans of a join, summed up as RowParts sums them.
template <int kD>
struct Join {
  float out[kD / 8][4];
  float reference[2];
  float sum[2];

  __device__ __forceinline__ void reset() {
#pragma unroll
    for (int n = 0; n < kD / 8; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        out[n][e] = 0.0F;
      }
    }
    reference[0] = reference[1] = kNoReference;
    sum[0] = sum[1] = 0.0F;
  }
  // rows = these spans and, behind them, the span that rows hold, its sums gathered.
  __device__ __forceinline__ void lead(Rows<kD>& rows) const {
    float own[2];
    float before[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const float most = fmaxf(reference[r], rows.reference[r]);
      own[r] = state_weight(rows.reference[r], most);
      before[r] = state_weight(reference[r], most);
      rows.reference[r] = most;
      rows.sum[r] = fmaf(own[r], rows.sum[r], before[r] * sum[r]);
    }
#pragma unroll
    for (int n = 0; n < kD / 8; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        rows.out[n][e] = fmaf(own[e / 2], rows.out[n][e], before[e / 2] * out[n][e]);
      }
    }
  }
  __device__ __forceinline__ void take(const Rows<kD>& rows) {
#pragma unroll
    for (int n = 0; n < kD / 8; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        out[n][e] = rows.out[n][e];
      }
    }
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      reference[r] = rows.reference[r];
      sum[r] = rows.sum[r];
    }
  }
};

// A launch that needs no softmax weights.
struct KeepNothing {
  template <class... Args>
  __device__ void tile(const Args&...) const {}
  template <class... Args>
  __device__ void slice(const Args&...) const {}
};

// The entries of a list of one kind (as many as it says) and the parts [part, end_part) that they
// make up.
struct Job {
  bool compressed;
  bool joined;  // compressed: parts are spans, stored as joins
  int count;    // entries
  int part, end_part;
  int low[2];             // first visible key of rows lane / 4 and lane / 4 + 8
  SegmentTurn turn = {};  // of selected blocks: a part is the segment at its place
};

// Scores of a shared tile's keys that a row does not see: before job.low, or not there.
template <int kHalves>
__device__ __forceinline__ void mask_scores(const Entry& entry, const int (&low)[2], int lane,
                                            float (&s)[kTileKeys / 8][4]) {
#pragma unroll
  for (int r = 0; r < kHalves; ++r) {
    const int begin = low[r] - entry.first - lane % 4 * 2;
    const int end = entry.count - lane % 4 * 2;
#pragma unroll
    for (int n = 0; n < kTileKeys / 8; ++n) {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        float& x = s[n][r * 2 + e];
        x = n * 8 + e >= begin && n * 8 + e < end ? x : -INFINITY;
      }
    }
  }
}

// Parts job.part, ..., until - 1 end: what the rows hold is the first of them.
template <bool kJoins, int kD, int kHalves>
__device__ __forceinline__ void end_parts(const FusedArguments& a, const PartPlaces& places,
                                          Job& job, int until, Rows<kD, kHalves>& rows,
                                          Join<kD>& join) {
#pragma unroll 1
  for (; job.part < until; ++job.part) {
    gather_sums(rows);
    if (!kJoins || !job.joined) {
      const int part = job.turn.shift > 0 ? job.turn.segment_at(job.part) : job.part;
      store_part(a, places, part, rows);
      continue;
    }
    if constexpr (kJoins) {
      join.lead(rows);
      if (ends_join(job.part) || job.part == job.end_part - 1) {
        join.reset();
        store_part(a, places, span_start(job.part) / kFusedJoin, rows);
      } else {
        join.take(rows);
        rows.reset();
      }
    }
  }
}

// A job and what follows from it, worked out before the rows may be read; its list is there.
struct Run {
  Job job;
  int low_most;  // of the warp's rows
  TileSource from;
  PartPlaces places;

  __device__ __forceinline__ Run(const Queries& t, const Job& of, const TileList& list)
      : job(of),
        low_most(__reduce_max_sync(0xFFFFFFFFU, max(of.low[0], of.low[1]))),
        from(t, of.compressed),
        places(t, of.compressed) {
    barrier_wait(list.ready, 0);
    job.count = list.length->entries;
  }
};

// Runs a list of entries through the rows: a tile's keys, then its values. keep.tile(first key,
// keys, rows, weights) and keep.slice(first key, whether rows lane / 4 and lane / 4 + 8 took part,
// rows, packed weights) see the weights. kJoins: jobs may be joined. at: of the unit read next.
template <bool kJoins, int kD, int kHalves, class Keep>
__device__ __forceinline__ void run_entries(const Queries& t, const Team& team,
                                            const TileList& list, const Run& run, const Ring& ring,
                                            Cursor& at, Rows<kD, kHalves>& rows, const Keep& keep) {
  const int bits = t.a.head_bits;
  // This warp's queries within the team. A team may have more queries than bits; then all of them
  // own all its entries.
  const int first_query = (t.tile - team.first_tile) * t.per_tile;
  const std::uint32_t tile_mask = ((1U << t.per_tile) - 1U) << (first_query & 31);
  const std::uint32_t own[2] = {
      tile_mask & (1U << ((first_query & 31) + ((t.lane / 4) >> bits))),
      tile_mask & (1U << ((first_query & 31) + ((t.lane / 4 + 8) >> bits)))};
  const Entry* const entries = list.entries;
  Job job = run.job;
  Join<kD> join;
  join.reset();
  const auto unit_read = [&] {
    __syncwarp();
    if (t.lane == 0) {
      barrier_arrive(ring.empty(at.place));
    }
    at.advance(ring);
  };
  const auto units_landed = [&](int count) {
    Cursor unit = at;
#pragma unroll 1
    for (int i = 0; i < count; ++i) {
      barrier_wait(ring.full(unit.place), unit.parity);
      unit.advance(ring);
    }
  };
  const auto entry_at = [&](int i) { return entries[min(i, max(job.count - 1, 0))]; };
  Entry entry = entry_at(0);
#pragma unroll 1
  for (int i = 0;;) {
    end_parts<kJoins>(t.a, run.places, job, i >= job.count ? job.end_part : entry.part, rows, join);
    if (i >= job.count) {
      break;
    }
    if (entry.tail >= 0) {
      barrier_wait(t.tables_ready, 0);
      const TailSlice<kD> slice(t, run.from, ring, job.compressed, entries + i, first_query);
      const bool mine = slice.any();
      const int boxes = run.from.boxes(entry.first);
      float x[2][4];
      units_landed(boxes);
      if (mine) {
        slice.score(rows, at, x);
      }
#pragma unroll 1
      for (int box = 0; box < boxes; ++box) {
        unit_read();
      }
      units_landed(boxes);
      if (mine) {
        const float offset[2] = {Rows<kD>::kGrid, Rows<kD>::kGrid};
        rows.weigh(x, offset);
        std::uint32_t p[4];
        pack_weights(x[0], x[1], p);
        slice.add_values(rows, at, p);
        keep.slice(entry.first, slice.in[0], slice.in[1], rows, x, p);
      }
#pragma unroll 1
      for (int box = 0; box < boxes; ++box) {
        unit_read();
      }
      i += entry.count;
      entry = entry_at(i);
      continue;
    }
    const Entry next = entry_at(++i);
    const std::uint32_t owners = static_cast<std::uint32_t>(entry.bits);
    if ((owners & tile_mask) == 0U) {  // other row tiles'
#pragma unroll 1
      for (int unit = 0; unit < 2; ++unit) {
        barrier_wait(ring.full(at.place), at.parity);
        unit_read();
      }
      entry = next;
      continue;
    }
    float s[kTileKeys / 8][4];
    barrier_wait(ring.full(at.place), at.parity);
    rows.score(ring.units_at + static_cast<std::uint32_t>(at.place * Rows<kD>::kUnitBytes), s);
    unit_read();
    barrier_wait(ring.full(at.place), at.parity);
    if (entry.count < kTileKeys || entry.first < run.low_most) {
      mask_scores<kHalves>(entry, job.low, t.lane, s);
    }
    const float offset[2] = {(owners & own[0]) != 0U ? Rows<kD>::kGrid : -INFINITY,
                             (owners & own[1]) != 0U ? Rows<kD>::kGrid : -INFINITY};
    rows.weigh(s, offset);
    const std::uint32_t unit =
        ring.units_at + static_cast<std::uint32_t>(at.place * Rows<kD>::kUnitBytes);
    std::uint32_t p[kSlots][4];
#pragma unroll
    for (int slot = 0; slot < kSlots; ++slot) {
      pack_weights(s[slot * 2], s[slot * 2 + 1], p[slot]);
      rows.add_values(unit, slot, p[slot]);
    }
    keep.tile(entry.first, static_cast<int>(entry.count), rows, s, p);
    unit_read();
    entry = next;
  }
}

}  // namespace versieve::kernels
