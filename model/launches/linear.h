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
