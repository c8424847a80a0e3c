// The loading warp of decode_layers: every weight and every cache tile whose address is known
// beforehand, layer after layer, in the order in which the computing warps take them. It waits for
// free stages alone, so memory keeps streaming while they wait for each other.
#pragma once

#include <cstddef>
#include <limits>

#include "kernels/decode_layers/work.cuh"
#include "kernels/ptx/bulk_copy.cuh"

namespace versieve::kernels {

// The loading warp's way round the ring; its first lane asks.
class StageLoader {
 public:
  __device__ __forceinline__ explicit StageLoader(const DecodeCta& c)
      : c_(c), asks_(threadIdx.x % 32 == 0) {}

  // `boxes` (at most a stage's) into a free stage: copy(i, address, barrier).
  template <class Copy>
  __device__ __forceinline__ void load(int boxes, const Copy& copy) {
    barrier_wait(c_.empty(to_.place), to_.parity ^ 1);
    const int most = calm_ > 0 ? kCalmStagesInFlight : kStagesInFlight;
    calm_ -= 1;
    while (started_ >= most) {
      wait_for_oldest();
    }
    ++started_;
    const std::uint32_t full = c_.full(to_.place);
    const std::uint32_t stage = c_.stage(to_.place);
    if (asks_) {
      barrier_expect(full, boxes * kBoxBytes);
#pragma unroll 1
      for (int i = 0; i < boxes; ++i) {
        copy(i, stage + static_cast<std::uint32_t>(i * kBoxBytes), full);
      }
    }
    __syncwarp();
    to_.advance(1);
  }

  // The next `stages` belong to the chain: requests of others must not queue behind them.
  __device__ __forceinline__ void calm(int stages) {
    calm_ = stages;
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
  bool asks_;
  StageCursor to_, landed_;
  int started_ = 0;
  int calm_ = 0;
};

// This CTA's units of a layer's matrix.
__device__ __forceinline__ void load_matrix(const DecodeCta& c, StageLoader& ring, int stage,
                                            const DecodeTable* t) {
  const DecodeMatrix& m = c.a.matrix[stage];
  const CUtensorMap* const map = t->matrix + stage;
  const int second_rows = stage == kGateUp ? m.rows : 0;  // where the other rows of a pair are
#pragma unroll 1
  for (int unit = c.first_unit(m); unit < m.units; unit += c.a.ctas) {
    const KRange k(m, unit);
    const int row = m.gathered > 1 ? unit * (kMatrixRows >> m.slice_bits)
                                   : (unit >> m.slice_bits) * kMatrixRows;
    const int groups = stage == kGateUp ? 2 : 1;
#pragma unroll 1
    for (int i = 0; i < stages_of(k.count) * groups; ++i) {
      const bool second = groups == 2 && i % 2 != 0;
      const int tile = k.first + i / groups * kStageBoxes;
      ring.load(kStageBoxes,  // past the slice too: x is zero there
                [&](int box, std::uint32_t to, std::uint32_t full) {
                  copy_box_3d(to, map, (tile + box) * static_cast<int>(kLinearTileK),
                              row + (second ? second_rows : 0), 0, full,
                              kEvictFirst);  // weights are read once
                });
    }
  }
}

// Keys, then values, of a part's tiles, a piece at a time.
template <int kD>
__device__ __forceinline__ void load_part(const DecodeCta& c, StageLoader& ring,
                                          const PartTiles& part, const std::int32_t* pages,
                                          const CUtensorMap* keys, const CUtensorMap* values) {
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
                  copy_box_3d(to, is_value ? values : keys, (i + box) % kPanels * 64, c.g,
                              row_in_page(pages, part.first + tile * part.apart), full);
                });
    }
  }
}

// A layer's parts of attention.
template <int kD>
__device__ __forceinline__ void load_parts(const DecodeCta& c, StageLoader& ring,
                                           const DecodePosition& at, const DecodeTable* t) {
  const PartOrder parts(c, at, t->routes != 0);
#pragma unroll 1
  for (int i = 0; c.role != Role::kNone && i < parts.count(); ++i) {
    const bool span = parts.is_span(i);
    if (!span && c.role == Role::kChosen) {
      ring.leave_out(kChosenStages);
    } else {
      load_part<kD>(c, ring,
                    span ? PartTiles::of_span(at, parts.span(i))
                         : PartTiles::of_window(c.a, at, c.index - kSelectedSegments),
                    c.a.pages[span ? 1 : 0], span ? &t->k_cmp : &t->k, span ? &t->v_cmp : &t->v);
    }
  }
}

__device__ __forceinline__ void prefetch_maps(const DecodeTable* t) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  static_assert(offsetof(DecodeTable, v_cmp) == 7 * sizeof(CUtensorMap));
  if (lane < 8) {
    prefetch_map(t->matrix + lane);
  }
}

// The loading warp. Weights are older than any launch, so the first ones do not wait.
template <int kD>
__device__ __forceinline__ void load_layers(const DecodeCta& c) {
  const DecodeArguments& a = c.a;
  StageLoader ring(c);
  DecodePosition at;
  prefetch_maps(a.table);
#pragma unroll 1
  for (int layer = 0; layer < a.layers; ++layer) {
    const DecodeTable* const t = a.table + layer;
#pragma unroll 1
    for (int stage = 0; stage < kMatrices; ++stage) {
      if (stage == kJoint) {
        ring.calm(std::numeric_limits<int>::max());  // until there are parts
      }
      load_matrix(c, ring, stage, t);
      if (stage == kJoint) {
        if (layer == 0) {
          wait_for_predecessors();
          at = DecodePosition(c);
        }
        if (layer + 1 < a.layers) {
          prefetch_maps(t + 1);
        }
        ring.calm(kCalmStages);
        load_parts<kD>(c, ring, at, t);
      }
    }
  }
}

}  // namespace versieve::kernels
