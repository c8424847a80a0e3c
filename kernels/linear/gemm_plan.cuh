// How a block of linear/gemm.cu works: its tiles of y, stages, shared memory, and the order of the
// tiles. Which call takes the form, and its tile, says model/launches/linear.h.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/common/tensor_map.h"
#include "kernels/ops.h"
#include "kernels/ptx/mbarrier.cuh"
#include "model/launches/linear.h"

namespace versieve::kernels {

inline constexpr int kGemmRows = static_cast<int>(kGemmTileRows);          // weight rows of a tile
inline constexpr int kGemmGroupRows = static_cast<int>(kLinearGroupRows);  // of a warpgroup
inline constexpr int kGemmTileK = static_cast<int>(kLinearTileK);
inline constexpr int kGemmRowBytes = kGemmTileK * 2;
inline constexpr int kGemmGroupBytes = kGemmGroupRows * kGemmRowBytes;
inline constexpr int kPartNodes = static_cast<int>(kGemmPartNodes);  // whose outputs end together

// Tiles of 128 weight rows by kNodes rows of x, a ring of kStages K tiles.
template <int kTileNodes, int kRingStages>
struct GemmPlan {
  static constexpr int kNodes = kTileNodes;
  static constexpr int kStages = kRingStages;
  static constexpr int kGroups = kGemmRows / kGemmGroupRows;
  static constexpr int kParts = kNodes / kPartNodes;
  static constexpr int kConsumers = kGroups * 128;
  static constexpr int kThreads = kConsumers + 128;  // and a warpgroup of which one thread copies
  // A block alone on its SM has 168 a thread.
  static constexpr int kIdleRegisters = 24;
  static constexpr int kRegisters = 240;
  static constexpr int kWeightBytes = kGroups * kGemmGroupBytes;
  static constexpr int kNodeBytes = kNodes * kGemmRowBytes;
  static constexpr int kStageBytes = kWeightBytes + kNodeBytes;
  // Behind the ring: where each warp turns outputs; of each group, the scales of two tiles' nodes
  // and the squares of two parts' quads [kPartNodes, 16]; barriers.
  static constexpr int kTurnAt = kStages * kStageBytes;
  static constexpr int kTurnBytes = 2 * 16 * 16 * 2;  // two units of a part
  static constexpr int kScaleAt = kTurnAt + kGroups * 4 * kTurnBytes;
  static constexpr int kScaleBytes = kNodes * 4;
  static constexpr int kSquareAt = kScaleAt + kGroups * 2 * kScaleBytes;
  static constexpr int kSquareBytes = kPartNodes * 16 * 4;
  static constexpr int kBarrierAt = kSquareAt + kGroups * 2 * kSquareBytes;
  static constexpr int kSharedBytes = kBarrierAt + (2 * kStages + 1) * 8;
  static_assert(kSharedBytes <= 227 * 1024, "a block has an SM");
  static_assert(kNodes % (2 * kPartNodes) == 0 && kNodes / 2 % 8 == 0, "halves are copied whole");

  std::uint32_t shared;  // kSharedBytes on 1,024 bytes

  __device__ std::uint32_t at(int bytes) const {
    return shared + static_cast<std::uint32_t>(bytes);
  }
  __device__ std::uint32_t stage(int i) const { return at(i * kStageBytes); }
  __device__ std::uint32_t full(int i) const { return at(kBarrierAt + i * 8); }
  __device__ std::uint32_t empty(int i) const { return at(kBarrierAt + (kStages + i) * 8); }
  __device__ std::uint32_t received() const { return at(kBarrierAt + 2 * kStages * 8); }
  __device__ std::uint32_t turn(int warp) const { return at(kTurnAt + warp * kTurnBytes); }
  __device__ std::uint32_t scales(int group, int odd) const {
    return at(kScaleAt + (group * 2 + odd) * kScaleBytes);
  }
  __device__ std::uint32_t squares(int group, int odd) const {
    return at(kSquareAt + (group * 2 + odd) * kSquareBytes);
  }
  // By one thread; then fence_barrier_init() and a barrier of the cluster. Stages are read by the
  // warps of so many blocks.
  __device__ void init(int readers) const {
    for (int i = 0; i < kStages; ++i) {
      barrier_init(full(i), 1);
      barrier_init(empty(i), readers * kConsumers / 32);
    }
    barrier_init(received(), 1);
  }

  // Where the ring has room for partial sums once products are made: of each of the arrays that a
  // block is sent, from each warp and of each 8 nodes of its share, 16 bytes a lane.
  __device__ std::uint32_t part_sums(int array, int share_nodes, int warp) const {
    return at((array * (kConsumers / 32) + warp) * (share_nodes / 8) * 512);
  }
};

// What the two blocks of a pair both read, and copy half of for both.
enum class GemmSharing { kNothing, kWeights, kNodes };

struct GemmParams {
  CUtensorMap weights;  // boxes of 128 rows, or of 64 where a pair shares them
  CUtensorMap nodes;    // boxes of kNodes rows, or of half of them
  LinearParams<Bf16> p;
  GemmSharing sharing;
  int row_units, node_units;  // tiles, or pairs along the side that is not shared
  int band;                   // node_units that are gone through for all rows before the next
  int slices, slice_bits;
  std::uint64_t keep_weights, keep_nodes;
};

// A stage of the ring and the parity of its barriers' phase.
template <class Plan>
struct RingPlace {
  int stage = 0, parity = 0;
  __device__ void advance() {
    stage = stage + 1 == Plan::kStages ? 0 : stage + 1;
    parity ^= stage == 0 ? 1 : 0;
  }
};

struct GemmTile {
  int first_row, first_node;  // of the weights (swiglu: of each half), of x
};

// Tile of the block of that rank of the cluster that works on `unit`.
template <class Plan>
__device__ inline GemmTile tile_of(const GemmParams& s, int unit, int rank) {
  const int of_band = s.row_units * s.band;
  const int band = unit / of_band;
  const int in_band = unit - band * of_band;
  const int width = min(s.band, s.node_units - band * s.band);
  const int row = in_band / width;
  const int node = band * s.band + in_band - row * width;
  const int rows = s.p.swiglu ? kGemmRows / 2 : kGemmRows;
  return {(s.sharing == GemmSharing::kNodes ? kGemmPair * row + rank : row) * rows,
          (s.sharing == GemmSharing::kWeights ? kGemmPair * node + rank : node) * Plan::kNodes};
}
__device__ inline int unit_count(const GemmParams& s) {
  return s.row_units * s.node_units;
}

// First K tile of a slice: as linear/stream.cu cuts K.
__device__ inline int first_k_tile(const GemmParams& s, int slice) {
  const int k_tiles = (static_cast<int>(s.p.k) + kGemmTileK - 1) / kGemmTileK;
  return (k_tiles * slice) >> s.slice_bits;
}

}  // namespace versieve::kernels
