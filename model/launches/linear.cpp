#include "model/launches/linear.h"

#include <cmath>

#include "model/launches/launch_parts.h"
#include "model/launches/row_ops.h"

namespace versieve {

namespace traffic {

Traffic linear(std::int64_t n, std::int64_t k, std::int64_t m, std::int64_t element_bytes,
               TrafficTerm weight_term) {
  Traffic t;
  t.read(weight_term, static_cast<double>(m * k * element_bytes));
  t.read(TrafficTerm::kActivations, static_cast<double>(n * k * element_bytes));
  t.write(TrafficTerm::kActivations, static_cast<double>(n * m * element_bytes));
  t.flops = 2.0 * static_cast<double>(n) * static_cast<double>(m) * static_cast<double>(k);
  return t;
}

Traffic linear_swiglu(std::int64_t n, std::int64_t k, std::int64_t m, std::int64_t element_bytes,
                      TrafficTerm weights) {
  Traffic t = moved(TrafficTerm::kActivations, n * k * element_bytes, n * m * element_bytes,
                    static_cast<double>(n * m) * (4.0 * static_cast<double>(k) + 5.0));
  t.read(weights, static_cast<double>(2 * m * k * element_bytes));
  return t;
}

Traffic weighted_rows(std::int64_t n, std::int64_t m, std::int64_t element_bytes) {
  Traffic t =
      moved(TrafficTerm::kActivations, 0, n * m * element_bytes, 3.0 * static_cast<double>(n * m));
  t.read(TrafficTerm::kWeights, static_cast<double>(m * element_bytes));
  return t;
}

}  // namespace traffic

namespace {

// How often a launch loads its weights and its rows of x, and its blocks; of kernels/linear/gemm.cu
// tiles.
struct LinearLoads {
  double weights, rows, blocks;
};

LinearLoads loads_of(const Pass& p, std::int64_t k, std::int64_t m, LinearOutput output) {
  const bool swiglu = output == LinearOutput::kSwiglu;
  const GemmCut gemm =
      linear_gemm_cut(p.whole_rows(), k, m, swiglu, output == LinearOutput::kWeighted);
  if (p.element_bytes == 2 && gemm.nodes > 0) {  // pairs copy what they share once
    return {.weights = number(gemm.node_units),
            .rows = number(gemm.row_units),
            .blocks = number(gemm.row_tiles * gemm.node_tiles * (gemm.split ? gemm.cluster : 1))};
  }
  const double node_tiles =
      std::ceil(p.rows / number(linear_tile_nodes(p.whole_rows(), k, m, swiglu)));
  const double row_tiles = number(linear_row_tiles(k, m, swiglu));
  return {.weights = node_tiles,
          .rows = row_tiles,
          .blocks = node_tiles * row_tiles * linear_cut(k, m, swiglu).slices};
}

// Of the products that 132 SMs make in tiles of 128 x 128, what a cut leaves: rows fill no tile,
// and tiles no wave.
// 1 where rows are so few that weights bound the launch.
double filled(const Pass& p, std::int64_t k, std::int64_t m, LinearOutput output) {
  const bool swiglu = output == LinearOutput::kSwiglu;
  const GemmCut cut =
      linear_gemm_cut(p.whole_rows(), k, m, swiglu, output == LinearOutput::kWeighted);
  if (p.element_bytes != 2 || cut.nodes == 0) {
    return 1.0;
  }
  const double rows = number(swiglu ? 2 * m : m);
  const double tiles = number(p.whole_rows()) / 128.0 * rows / number(kGemmTileRows);
  const double k_tiles = std::ceil(number(k) / number(kLinearTileK));
  return tiles / number(kLinearBlocksWanted) * k_tiles * number(gemm_rate(128)) / number(cut.cost);
}

}  // namespace

// Row tiles of one weight tile run side by side, so repeated loads of weights find them in L2;
// every tile of weights loads the rows of x beside.
void add_linear(const Pass& p, std::int64_t k, std::int64_t m, LinearOutput output, StepWork& out,
                double copied) {
  const bool swiglu = output == LinearOutput::kSwiglu;
  const std::int64_t weight_rows = swiglu ? 2 * m : m;
  Traffic t = swiglu ? traffic::linear_swiglu(p.whole_rows(), k, m, p.element_bytes, p.weights)
                     : traffic::linear(p.whole_rows(), k, m, p.element_bytes, p.weights);
  if (output == LinearOutput::kWeighted) {
    t += traffic::weighted_rows(p.whole_rows(), m, p.element_bytes);
  }
  if (copied > 0.0) {
    t += scaled(traffic::kept_rows(p.whole_rows(), m, p.element_bytes), copied / p.times);
  }
  const LinearLoads loads = loads_of(p, k, m, output);
  const double weights = loads.weights * number(weight_rows * k * p.element_bytes);
  const double rows_again = (loads.rows - 1.0) * number(p.whole_rows() * k * p.element_bytes);
  LaunchWork work = reloading(LaunchKind::kLinear, p.matrices, p.times, t, p.weights,
                              weights + rows_again, loads.blocks, 0.0);
  work.streams = true;
  work.steps = 0.0;  // a ring's progress is its flow
  work.reuse_distance = 0.0;
  work.product_rate = p.as_cut ? filled(p, k, m, output) : 1.0;
  out.add(work);
}

}  // namespace versieve
