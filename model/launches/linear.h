// A linear layer on tensor cores, y[N, M] = x[N, K] w[M, K]^T (kernels/linear): what it moves, how
// its weights are cut between thread blocks, and its launch. One cut for kernels/linear/stream.cu,
// which launches by it, for the cost model and the simulator. K is never cut by the number of rows
// of x: the order of a sum must not depend on it.
#pragma once

#include <cstdint>

#include "model/words/traffic.h"

namespace versieve {

struct Pass;      // model/launches/launch_parts.h
struct StepWork;  // model/launches/launch_work.h

inline constexpr std::int64_t kLinearGroupRows = 64;      // weight rows of a warpgroup
inline constexpr std::int64_t kLinearTileK = 64;          // K of one stage of a block's ring
inline constexpr std::int64_t kLinearMostNodes = 128;     // rows of x that a block takes
inline constexpr int kLinearMostSlices = 8;               // the portable cluster size
inline constexpr std::int64_t kLinearBlocksWanted = 132;  // one for each SM of an H200
inline constexpr std::int64_t kLinearLeastSliceK = 256;

struct LinearCut {
  int groups;  // of 64 rows a block: 2, or 1 where 2 would leave SMs idle
  int slices;  // of K
};

// y[N, m] of K = k; under swiglu gate and up rows make 2 m.
constexpr LinearCut linear_cut(std::int64_t k, std::int64_t m, bool swiglu) {
  const std::int64_t rows = swiglu ? 2 * m : m;
  const bool wide = swiglu || (rows + 127) / 128 * 2 >= kLinearBlocksWanted;
  const std::int64_t tiles = wide ? (rows + 127) / 128 : (rows + 63) / 64;
  int slices = 1;
  while (slices < kLinearMostSlices && tiles * slices * 2 <= kLinearBlocksWanted &&
         k / (2 * slices) >= kLinearLeastSliceK) {
    slices *= 2;
  }
  return {.groups = wide ? 2 : 1, .slices = slices};
}

// Thread blocks along m: of 64 pairs of gate and up rows, else of `groups` times 64 rows.
constexpr std::int64_t linear_row_tiles(std::int64_t k, std::int64_t m, bool swiglu) {
  const std::int64_t rows =
      swiglu ? kLinearGroupRows : linear_cut(k, m, swiglu).groups * kLinearGroupRows;
  return (m + rows - 1) / rows;
}

// Rows of x, of `n`, that a block takes: all that it can, or, of a matrix so small that SMs would
// be idle, as few as still leave each SM one block: the fewer they are, the sooner a block ends.
constexpr std::int64_t linear_tile_nodes(std::int64_t n, std::int64_t k, std::int64_t m,
                                         bool swiglu) {
  const std::int64_t blocks = linear_row_tiles(k, m, swiglu) * linear_cut(k, m, swiglu).slices;
  std::int64_t nodes = 8;
  while (nodes < kLinearMostNodes && n > nodes &&
         blocks * ((n + nodes - 1) / nodes) > kLinearBlocksWanted) {
    nodes *= 2;
  }
  return nodes;
}

// Many rows of x: tiles of y by blocks that have an SM each (kernels/linear/gemm.cu), with the same
// sums.
inline constexpr std::int64_t kGemmTileRows = 128;    // weight rows; under swiglu 64 of each half
inline constexpr int kGemmPair = 2;                   // blocks that copy for each other
inline constexpr std::int64_t kGemmPartNodes = 32;    // written during one K tile of the next tile
inline constexpr std::int64_t kGemmBandNodes = 2048;  // of x, that stay in L2 while weights pass

struct GemmCut {
  std::int64_t nodes = 0;  // rows of x a tile; 0: kernels/linear/stream.cu takes it
  // A tile's slices of K are shared out to the blocks of a cluster, one tile each; else blocks go
  // through tiles in pairs that share the rows of x, or the weight rows.
  bool split = false, shares_nodes = false;
  int cluster = kGemmPair;
  std::int64_t row_tiles = 0, node_tiles = 0;
  std::int64_t row_units = 0, node_units = 0;  // the same, but pairs along the side not shared
  std::int64_t band = 0;    // node units that are gone through for all weight rows at a time
  std::int64_t blocks = 0;  // of threads
  std::int64_t cost = 0;    // hundredths of a K tile's time with 128 rows of x, to compare cuts
};

// What a K tile takes with so many rows of x, and what handing over the slices' sums does. Fitted
// to the cuts' times on an H100 (kernels/linear/MEASURED.md).
constexpr std::int64_t gemm_rate(std::int64_t nodes) {
  return nodes == 64 ? 70 : nodes == 128 ? 100 : 147;
}
inline constexpr std::int64_t kGemmExchange = 700;

// Tiles of so many rows of x in pairs: paired the way that pads y less, else that which copies
// less.
constexpr GemmCut gemm_pairs(std::int64_t n, std::int64_t k, std::int64_t m, bool swiglu,
                             std::int64_t nodes) {
  const std::int64_t rows = swiglu ? kGemmTileRows / 2 : kGemmTileRows;
  GemmCut cut{
      .nodes = nodes, .row_tiles = (m + rows - 1) / rows, .node_tiles = (n + nodes - 1) / nodes};
  const std::int64_t row_pairs = (cut.row_tiles + kGemmPair - 1) / kGemmPair;
  const std::int64_t node_pairs = (cut.node_tiles + kGemmPair - 1) / kGemmPair;
  const std::int64_t by_rows = row_pairs * cut.node_tiles;
  const std::int64_t by_nodes = cut.row_tiles * node_pairs;
  cut.shares_nodes = by_rows < by_nodes || (by_rows == by_nodes && nodes > 64 && n > 1024);
  cut.row_units = cut.shares_nodes ? row_pairs : cut.row_tiles;
  cut.node_units = cut.shares_nodes ? cut.node_tiles : node_pairs;
  const std::int64_t band = kGemmBandNodes / (nodes * (cut.shares_nodes ? 1 : kGemmPair));
  cut.band = band < cut.node_units ? band : cut.node_units;
  const std::int64_t pairs = cut.row_units * cut.node_units;
  const std::int64_t most = kLinearBlocksWanted / kGemmPair;
  cut.blocks = kGemmPair * (pairs < most ? pairs : most);
  cut.cost = (pairs + most - 1) / most * ((k + kLinearTileK - 1) / kLinearTileK) * gemm_rate(nodes);
  return cut;
}
// The slices of each tile shared out to `cluster` blocks; not under swiglu.
constexpr GemmCut gemm_slices(std::int64_t n, std::int64_t k, std::int64_t m, std::int64_t nodes,
                              int cluster) {
  GemmCut cut{.nodes = nodes,
              .split = true,
              .cluster = cluster,
              .row_tiles = (m + kGemmTileRows - 1) / kGemmTileRows,
              .node_tiles = (n + nodes - 1) / nodes};
  cut.row_units = cut.row_tiles;
  cut.node_units = cut.node_tiles;
  cut.band = cut.node_tiles;
  cut.blocks = cut.row_tiles * cut.node_tiles * cluster;
  cut.cost = (k + kLinearTileK - 1) / kLinearTileK * gemm_rate(nodes) / cluster + kGemmExchange;
  return cut;
}

// How a call in bf16 is cut for that form: the cheapest way. nodes = 0 where it is not taken: too
// few rows of x for it, too small a matrix, rows of y that are not whole 16 bytes, or squares for a
// norm that follows, summed over 128 rows at a time.
constexpr GemmCut linear_gemm_cut(std::int64_t n, std::int64_t k, std::int64_t m, bool swiglu,
                                  bool norm_follows) {
  constexpr std::int64_t kMega = 1 << 20;
  const std::int64_t weights = (swiglu ? 2 * m : m) * k;
  GemmCut best;
  if ((norm_follows && linear_cut(k, m, swiglu).groups == 2) || n <= 64 ||
      weights < (n <= 128 ? 6 : 4) * kMega || k % 8 != 0 || m % 8 != 0) {
    return best;
  }
  const int slices = linear_cut(k, m, swiglu).slices;
  const auto consider = [&best](const GemmCut& cut) {
    if (best.nodes == 0 || cut.cost < best.cost) {
      best = cut;
    }
  };
  for (const std::int64_t nodes : {128, 64, 192}) {
    // A slice is long enough to write the tile before meanwhile.
    if ((k + kLinearTileK - 1) / kLinearTileK / slices > nodes / kGemmPartNodes) {
      consider(gemm_pairs(n, k, m, swiglu, nodes));
    }
  }
  // Clusters of one block an SM that an H100 holds at once: 66 of 2, 30 of 4.
  for (const std::int64_t nodes : {64, 128}) {
    const GemmCut two = gemm_slices(n, k, m, nodes, 2);
    if (!swiglu && (slices == 2 || slices == 4) && two.blocks <= 66 * 2) {
      consider(two);
    }
  }
  const GemmCut four = gemm_slices(n, k, m, 128, 4);
  if (!swiglu && slices == 4 && four.blocks <= 30 * 4) {
    consider(four);
  }
  return best;
}

namespace traffic {

// Linear layer y[N, M] = x[N, K] w[M, K]^T.
Traffic linear(std::int64_t n, std::int64_t k, std::int64_t m, std::int64_t element_bytes,
               TrafficTerm weight_term);
// y = silu(x wg^T) (x wu^T): 2 m weight rows in, m columns out.
Traffic linear_swiglu(std::int64_t n, std::int64_t k, std::int64_t m, std::int64_t element_bytes,
                      TrafficTerm weights);
// Rows of m that a linear layer also writes times the next norm's weight (FoldedNorm).
Traffic weighted_rows(std::int64_t n, std::int64_t m, std::int64_t element_bytes);

}  // namespace traffic

enum class LinearOutput { kPlain, kSwiglu, kWeighted };  // kWeighted: a norm follows
// `copied` of the pass's launches write their rows twice.
void add_linear(const Pass& pass, std::int64_t k, std::int64_t m, LinearOutput output,
                StepWork& out, double copied = 0.0);

}  // namespace versieve
