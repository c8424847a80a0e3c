// A slice of 16 positions that reaches into the draft tree, where every query has keys of its own:
// all rows of the tree lie in the ring, and ldmatrix takes those of a query's path where they are.
#pragma once

#include "kernels/nsa_verify/fused_ring.cuh"
#include "kernels/ptx/arithmetic.cuh"
#include "kernels/ptx/shared_memory.cuh"

namespace versieve::kernels {

// The same number, which the compiler takes for a new one: it keeps it, where it would otherwise
// work it out again at each turn of a loop. All lanes call it.
__device__ __forceinline__ int kept(int x) {
  return __shfl_sync(0xFFFFFFFFU, x, static_cast<int>(threadIdx.x) % 32);
}

// What this warp's queries see of a slice of the tail, whose units lie in a ring one behind the
// other: committed rows from the slice's first on, if there are any in it, then the tree's rows.
template <int kD>
struct TailSlice {
  const Queries& t;
  const TileSource& from;
  const Ring& ring;
  // Rows of the tree, 16 bits each, by query of the row tile and distance to the committed tokens:
  // where they lie in shared memory, and bytes of a query's.
  std::uint32_t rows_at;
  int pitch;
  int first;            // position of the slice
  int query[2];         // of rows lane / 4 and lane / 4 + 8, of the row tile
  bool in[2];           // these rows have an entry
  unsigned visible[2];  // positions that they see

  __device__ __forceinline__ TailSlice(const Queries& queries, const TileSource& source,
                                       const Ring& units, bool compressed, const Entry* run,
                                       int first_query)
      : t(queries), from(source), ring(units), first(run->first) {
    const std::int16_t* const table = compressed ? t.path_row : t.ancestor;
    pitch = kept((compressed ? t.a.cut.path_compressed : t.a.cut.depth) * 2);
    rows_at = static_cast<std::uint32_t>(
        kept(static_cast<int>(shared_address(table)) + t.tile * t.per_tile * pitch));
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      query[r] = kept((t.lane / 4 + r * 8) >> t.a.head_bits);
      in[r] = false;
      visible[r] = 0U;
    }
#pragma unroll 1
    for (int i = 0; i < run->count; ++i) {
      const int tail = run[i].tail;
      const std::uint64_t bits = run[i].bits;
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const int own = first_query + query[r] - tail;
        if (own >= 0 && own < kFusedTailQueries && query[r] < t.per_tile) {
          in[r] = true;
          visible[r] = static_cast<unsigned>(bits >> (own * kSliceKeys)) & 0xFFFFU;
        }
      }
    }
  }
  __device__ __forceinline__ bool any() const {
    return __any_sync(0xFFFFFFFFU, in[0] || in[1]);
  }
  // Positions that query `q` of the row tile sees.
  __device__ __forceinline__ unsigned seen_by(int q) const {
    const int row = q << t.a.head_bits;
    return __shfl_sync(0xFFFFFFFFU, row < 8 ? visible[0] : visible[1], row % 8 * 4);
  }
  // Where key `key` of the slice lies for query `q`, which sees it; any row for one that does not.
  __device__ __forceinline__ UnitRow place_of(int q, int key, unsigned seen, Cursor at) const {
    const int ahead = first + key - from.committed;
    const bool tree = ahead >= 0 && (seen >> key & 1U) != 0U;
    int index = ahead < 0 ? key : 0;
    if (tree) {
      index = load_2(rows_at + static_cast<std::uint32_t>(q * pitch + ahead * 2));
    }
    const bool back = from.reaches_back(first);
    const int row = index % kTileKeys;
    int place = at.place + (ahead < 0 ? 0 : index / kTileKeys + (back ? 1 : 0));
    place -= place >= ring.units ? ring.units : 0;
    return {ring.units_at + static_cast<std::uint32_t>(place * Rows<kD>::kUnitBytes), row};
  }

  // Scores of each row's own keys, what it does not see masked.
  template <int kHalves>
  __device__ __forceinline__ void score(const Rows<kD, kHalves>& rows, Cursor at,
                                        float (&x)[2][4]) const {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      x[0][e] = x[1][e] = -INFINITY;
    }
#pragma unroll 1
    for (int q = 0; q < t.per_tile; ++q) {
      const unsigned seen = seen_by(q);
      if (seen == 0U) {
        continue;
      }
      float s[2][4];
      rows.score_slice(place_of(q, Rows<kD>::score_key(), seen, at), s);
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        take_if_equal(q, query[e / 2], s[0][e], x[0][e]);
        take_if_equal(q, query[e / 2], s[1][e], x[1][e]);
      }
    }
#pragma unroll
    for (int n = 0; n < 2; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int key = n * 8 + t.lane % 4 * 2 + e % 2;
        x[n][e] = (visible[e / 2] >> key & 1U) != 0U ? x[n][e] : -INFINITY;
      }
    }
  }
  // p: packed weights of each row's own keys.
  template <int kHalves>
  __device__ __forceinline__ void add_values(Rows<kD, kHalves>& rows, Cursor at,
                                             const std::uint32_t (&p)[4]) const {
#pragma unroll 1
    for (int q = 0; q < t.per_tile; ++q) {
      const unsigned seen = seen_by(q);
      if (seen == 0U) {
        continue;
      }
      std::uint32_t own[4];
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        own[k] = query[k % 2] == q ? p[k] : 0U;
      }
      rows.add_slice(place_of(q, Rows<kD>::value_key(), seen, at), own);
    }
  }
};

}  // namespace versieve::kernels
