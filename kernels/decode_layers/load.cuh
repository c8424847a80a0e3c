// The loading warp of decode_layers: every weight and every cache tile whose address is known
// beforehand, layer after layer, in the order in which the computing warps take them. It waits for
// free stages alone, so memory keeps streaming while they wait for each other.
#pragma once

#include "kernels/decode_layers/work.cuh"

namespace versieve::kernels {

// One thread's way round the ring.
class StageLoader {
 public:
  __device__ __forceinline__ explicit StageLoader(const DecodeCta& c) : c_(c) {}

  // `boxes` (at most a stage's) into a free stage: copy(i, address, barrier). At most
  // kStagesInFlight are under way, so that requests of others do not queue behind them.
  template <class Copy>
  __device__ __forceinline__ void load(int boxes, const Copy& copy) {
    barrier_wait(c_.empty(to_.place), to_.parity ^ 1);
    if (started_ == kStagesInFlight) {
      wait_for_oldest();
    }
    ++started_;
    const std::uint32_t full = c_.full(to_.place);
    const std::uint32_t stage = c_.stage(to_.place);
    barrier_expect(full, boxes * kBoxBytes);
#pragma unroll 1
    for (int i = 0; i < boxes; ++i) {
      copy(i, stage + static_cast<std::uint32_t>(i * kBoxBytes), full);
    }
    to_.advance(1);
  }

  // Stages that the computing warps fill by themselves.
  __device__ __forceinline__ void leave_out(int stages) {
    while (started_ > 0) {
      wait_for_oldest();
    }
    to_.advance(stages);
    landed_ = to_;
  }

 private:
  __device__ __forceinline__ void wait_for_oldest() {
    barrier_wait(c_.full(landed_.place), landed_.parity);
    landed_.advance(1);
    --started_;
  }

  const DecodeCta& c_;
  StageCursor to_, landed_;
  int started_ = 0;
};

// A matrix's units of this CTA; `second_rows`: where the other 64 rows of a pair are, or 0.
__device__ __forceinline__ void load_matrix(const DecodeCta& c, StageLoader& ring,
                                            const DecodeMatrix& m, const CUtensorMap* map,
                                            int second_rows) {
#pragma unroll 1
  for (int unit = c.first_unit(m); unit < m.units; unit += c.a.ctas) {
    const KRange k(m, unit);
    const int row = (unit >> m.slice_bits) * kMatrixRows;
#pragma unroll 1
    for (int i = 0; i < k.count; i += kStageBoxes) {
#pragma unroll 1
      for (int rows = 0; rows <= second_rows; rows += max(second_rows, 1)) {
        ring.load(kStageBoxes,  // past the slice too: x is zero there
                  [&](int box, std::uint32_t to, std::uint32_t full) {
                    copy_box(to, map, (k.first + i + box) * static_cast<int>(kLinearTileK),
                             rows + row, full, kEvictFirst);
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
    for (int i = 0; i < 2 * tiles * kPanels; i += kStageBoxes) {
      ring.load(min(2 * tiles * kPanels - i, kStageBoxes),
                [&](int box, std::uint32_t to, std::uint32_t full) {
                  const int unit = (i + box) / kPanels;
                  const bool is_value = unit >= tiles;
                  const int tile = base + unit - (is_value ? tiles : 0);
                  copy_cache_box(to, is_value ? values : keys, (i + box) % kPanels * 64, c.g,
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
  if (c.role == Role::kChosen) {
    ring.leave_out(kChosenStages);
  } else if (c.role == Role::kWindow) {
    load_part<kD>(c, ring, PartTiles::of_window(a, at, c.index - kSelectedSegments), &t->k, &t->v);
  } else if (c.role == Role::kSpans) {
#pragma unroll 1
    for (int span = at.from; span < at.to; ++span) {
      load_part<kD>(c, ring, PartTiles::of_span(at, span), &t->k_cmp, &t->v_cmp);
    }
  }
  load_matrix(c, ring, a.matrix[kOutput], &t->output, 0);
  load_matrix(c, ring, a.matrix[kGateUp], &t->gate_up, a.matrix[kGateUp].rows);
  load_matrix(c, ring, a.matrix[kDown], &t->down, 0);
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
    load_matrix(c, ring, a.matrix[kJoint], &a.table->joint, 0);
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
      load_matrix(c, ring, a.matrix[kJoint], &t[1].joint, 0);
    }
  }
}

}  // namespace versieve::kernels
