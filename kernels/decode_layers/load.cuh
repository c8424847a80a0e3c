// The loading warp of decode_layers: every weight and every cache tile whose address is known
// beforehand, layer after layer, in the order in which the computing warps take them. It waits for
// free stages alone, so memory keeps streaming while they wait for each other.
#pragma once

#include "kernels/decode_layers/work.cuh"

namespace versieve::kernels {

// One thread's way round the ring.
class StageLoader {
 public:
  __device__ __forceinline__ explicit StageLoader(const DecodeCta& c)
      : c_(c), most_(min(c.a.in_flight, c.stages)) {}

  // A free stage: what it will hold is announced. At most `in_flight` are under way, so that
  // requests of others do not queue behind them.
  template <class Copy>
  __device__ __forceinline__ void load(const Copy& copy) {
    barrier_wait(c_.empty(to_.place), to_.parity ^ 1);
    if (started_ < most_) {
      ++started_;
    } else {
      barrier_wait(c_.full(landed_.place), landed_.parity);
      landed_.advance(1, c_.stages);
    }
    const std::uint32_t full = c_.full(to_.place);
    barrier_expect(full, kStageBytes);
    copy(c_.stage(to_.place), full);
    to_.advance(1, c_.stages);
  }

 private:
  const DecodeCta& c_;
  int most_;
  StageCursor to_, landed_;
  int started_ = 0;
};

// A matrix's units of this CTA; `second_rows`: where the other 64 rows of a pair are, or -1.
__device__ __forceinline__ void load_matrix(const DecodeCta& c, StageLoader& ring,
                                            const DecodeMatrix& m, const CUtensorMap* map,
                                            int second_rows) {
#pragma unroll 1
  for (int unit = c.first_unit(m); unit < m.units; unit += c.a.ctas) {
    const KRange k(m, unit);
    const int row = (unit >> m.slice_bits) * kMatrixRows;
#pragma unroll 1
    for (int i = 0; i < k.count; ++i) {
      const int column = (k.first + i) * static_cast<int>(kLinearTileK);
      ring.load([&](std::uint32_t to, std::uint32_t full) {
        copy_box(to, map, column, row, full, kEvictFirst);
      });
      if (second_rows >= 0) {
        ring.load([&](std::uint32_t to, std::uint32_t full) {
          copy_box(to, map, column, second_rows + row, full, kEvictFirst);
        });
      }
    }
  }
}

// Keys, then values, of a part's tiles, a piece at a time.
template <int kD>
__device__ __forceinline__ void load_part(const DecodeCta& c, StageLoader& ring,
                                          const PartTiles& part, const CUtensorMap* keys,
                                          const CUtensorMap* values) {
  constexpr int kPanels = kD / 64;
  constexpr int kPiece = kComputeWarps / kPanels;
#pragma unroll 1
  for (int base = 0; base < part.count; base += kPiece) {
    const int tiles = min(part.count - base, kPiece);
#pragma unroll 1
    for (int i = 0; i < 2 * tiles * kPanels; ++i) {
      const int unit = i / kPanels;
      const bool is_value = unit >= tiles;
      const int tile = base + unit - (is_value ? tiles : 0);
      ring.load([&](std::uint32_t to, std::uint32_t full) {
        copy_cache_box(to, is_value ? values : keys, i % kPanels * 64, c.g,
                       part.first + tile * part.apart, full);
      });
    }
  }
}

// A layer's matrices behind its attention, and before: the joint one.
template <int kD>
__device__ __forceinline__ void load_layer(const DecodeCta& c, StageLoader& ring,
                                           const DecodePosition& at, const DecodeTable* t) {
  const DecodeArguments& a = c.a;
  if (c.role == Role::kWindow) {
    load_part<kD>(c, ring, PartTiles::of_window(a, at, c.index - kSelectedSegments), &t->k, &t->v);
  } else if (c.role == Role::kSpans) {
#pragma unroll 1
    for (int span = at.from; span < at.to; ++span) {
      load_part<kD>(c, ring, PartTiles::of_span(at, span), &t->k_cmp, &t->v_cmp);
    }
  }
  load_matrix(c, ring, a.matrix[kOutput], &t->output, -1);
  load_matrix(c, ring, a.matrix[kGateUp], &t->gate_up, a.matrix[kGateUp].rows);
  load_matrix(c, ring, a.matrix[kDown], &t->down, -1);
}

__device__ __forceinline__ void prefetch_maps(const DecodeTable* t) {
  prefetch_descriptor(&t->joint);
  prefetch_descriptor(&t->output);
  prefetch_descriptor(&t->gate_up);
  prefetch_descriptor(&t->down);
  prefetch_descriptor(&t->k);
  prefetch_descriptor(&t->v);
  prefetch_descriptor(&t->k_cmp);
  prefetch_descriptor(&t->v_cmp);
}

// The loading warp. Weights are older than any launch, so the first ones do not wait.
template <int kD>
__device__ __forceinline__ void load_layers(const DecodeCta& c) {
  const DecodeArguments& a = c.a;
  const bool loads = threadIdx.x % 32 == 0;
  StageLoader ring(c);
  if (loads) {
    prefetch_maps(a.table);
    load_matrix(c, ring, a.matrix[kJoint], &a.table->joint, -1);
  }
  __syncwarp();
  wait_for_predecessors();
  const DecodePosition at(c);
  if (!loads) {
    return;
  }
#pragma unroll 1
  for (int layer = 0; layer < a.layers; ++layer) {
    const DecodeTable* const t = a.table + layer;
    const bool more = layer + 1 < a.layers;
    if (more) {
      prefetch_maps(t + 1);
    }
    load_layer<kD>(c, ring, at, t);
    if (more) {
      load_matrix(c, ring, a.matrix[kJoint], &t[1].joint, -1);
    }
  }
}

}  // namespace versieve::kernels
