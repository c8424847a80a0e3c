#include "kernels/launch.h"

#include <limits>

#include "kernels/common/cuda_check.h"
#include "kernels/common/launch_range.h"
#include "model/launches/specattn.h"
#include "model/words/assert.h"

namespace versieve::kernels {
namespace {

constexpr unsigned kEveryLane = 0xFFFFFFFFU;

struct Least {
  double cost = 0.0;
  std::int32_t row = 0;
};

__device__ Least lower(const Least& first, const Least& second) {
  return second.cost < first.cost ? second : first;  // `first` has the lower rows
}

// The least over the lanes up to this one, rows ascending with the lane.
__device__ Least least_up_to(Least own) {
  const int lane = static_cast<int>(threadIdx.x);
  for (int apart = 1; apart < 32; apart *= 2) {
    const Least other{__shfl_up_sync(kEveryLane, own.cost, apart),
                      __shfl_up_sync(kEveryLane, own.row, apart)};
    own = lane >= apart ? lower(other, own) : own;
  }
  return own;
}

__device__ Least of_last_lane(const Least& own) {
  return {__shfl_sync(kEveryLane, own.cost, 31), __shfl_sync(kEveryLane, own.row, 31)};
}

// cost, best: columns of m rows, as cpu.cpp's table.
struct Table {
  double* cost;
  std::int32_t* best;
};

__device__ void fill_column(const LayerMapParams& p, const Table& table, std::int64_t j) {
  const double forbidden = __longlong_as_double(0x7FF0000000000000LL);
  const std::int64_t m = p.draft_layers;
  Least before{forbidden, 0};  // over the rows of earlier chunks
  for (std::int64_t base = 0; base < m; base += 32) {
    const std::int64_t i = base + threadIdx.x;
    Least own{forbidden, static_cast<std::int32_t>(i)};
    if (j > 0 && i < m) {
      own.cost = table.cost[(j - 1) * m + i];
    }
    own = lower(before, least_up_to(own));
    before = of_last_lane(own);
    if (i < m) {
      table.cost[j * m + i] = -p.similarity[i * p.verifier_layers + j] + (j > 0 ? own.cost : 0.0);
      table.best[j * m + i] = own.cost < forbidden ? own.row : 0;
    }
  }
  __syncwarp();
}

__device__ void walk_back(const LayerMapParams& p, const Table& table) {
  const double forbidden = __longlong_as_double(0x7FF0000000000000LL);
  const std::int64_t m = p.draft_layers;
  const double* last = table.cost + (p.verifier_layers - 1) * m;
  std::int32_t row = 0;
  for (std::int32_t i = 1; i < m; ++i) {
    row = last[i] < last[row] ? i : row;
  }
  const bool exists = last[row] < forbidden;
  for (std::int64_t j = p.verifier_layers - 1; j >= 0; --j) {
    p.map[j] = exists ? row : -1;
    row = table.best[j * m + row];
  }
  double score = exists ? 0.0 : -forbidden;
  for (std::int64_t j = 0; exists && j < p.verifier_layers; ++j) {
    score += p.similarity[p.map[j] * p.verifier_layers + j];
  }
  *p.score = score;
}

// Grid: one warp. Traffic: traffic::layer_map. Bound by the latency of n dependent columns.
__global__ void __launch_bounds__(32)
    layer_map_kernel(const __grid_constant__ LayerMapParams p, const Table table) {
  for (std::int64_t j = 0; j < p.verifier_layers; ++j) {
    fill_column(p, table, j);
  }
  if (threadIdx.x == 0) {
    walk_back(p, table);
  }
}

std::int64_t cells(const LayerMapParams& p) {
  return p.draft_layers * p.verifier_layers;
}

}  // namespace

std::size_t layer_map_scratch_bytes(const LayerMapParams& p) {
  return static_cast<std::size_t>(cells(p)) * (sizeof(double) + sizeof(std::int32_t));
}

void launch_layer_map(const LayerMapParams& p, const LaunchContext& context) {
  VERSIEVE_ASSERT(p.draft_layers >= 1 && p.verifier_layers >= 1, "there are layers to map");
  VERSIEVE_ASSERT(cells(p) <= std::numeric_limits<std::int32_t>::max(), "cells are counted in int");
  VERSIEVE_ASSERT(context.scratch_bytes >= layer_map_scratch_bytes(p),
                  "scratch is reserved before");
  double* cost = static_cast<double*>(context.scratch);
  const Table table{cost, reinterpret_cast<std::int32_t*>(cost + cells(p))};
  const LaunchRange range("layer_map", traffic::layer_map(p.draft_layers, p.verifier_layers),
                          context.observer);
  layer_map_kernel<<<1, 32, 0, context.stream>>>(p, table);
  check(cudaGetLastError());
}

}  // namespace versieve::kernels
