#include "engine/analyse/sim/trace_linear.h"

#include <algorithm>

#include "model/launches/linear.h"

namespace versieve::engine {
namespace {

constexpr std::int64_t kSharedBytes = 112 * 1024;  // of a CTA: two share an SM

// A CTA: slice of K x tile of nodes x tile of weight rows; a cluster shares out K and each CTA of
// it writes its share of the rows.
class LinearTrace final : public LaunchTrace {
 public:
  LinearTrace(const LinearLaunch& launch, const LinearCut& cut)
      : LaunchTrace({.path = "linear",
                     .ctas = cut.slices * node_tiles(launch) *
                             linear_row_tiles(launch.k, launch.m, launch.swiglu),
                     .cluster = cut.slices,
                     .threads = (4 * cut.groups + 1) * 32,
                     .registers = 96,
                     .shared_bytes = kSharedBytes,
                     .step_cycles = 150.0,
                     .issue_cycles = 64.0,
                     .steps_in_flight = 4.0}),
        p_(launch),
        cut_(cut) {}

  bool append_step(std::int64_t cta, std::int64_t step, std::vector<Access>& out) const override;
  bool meets_cluster(std::int64_t cta, std::int64_t step) const override {
    return step == k_tiles(cta % cut_.slices);
  }

 private:
  static std::int64_t tile_nodes(const LinearLaunch& p) {
    return linear_tile_nodes(p.n, p.k, p.m, p.swiglu);
  }
  static std::int64_t node_tiles(const LinearLaunch& p) {
    return (p.n + tile_nodes(p) - 1) / tile_nodes(p);
  }
  std::int64_t first_tile(std::int64_t slice) const {
    return (p_.k + kLinearTileK - 1) / kLinearTileK * slice / cut_.slices;
  }
  std::int64_t k_tiles(std::int64_t slice) const {
    return first_tile(slice + 1) - first_tile(slice);
  }
  // `rows` rows of [., K] from `first`, one tile of K.
  void append_tile(std::uint64_t matrix, std::int64_t first, std::int64_t rows, std::int64_t tile,
                   AccessKind kind, std::vector<Access>& out) const;
  void append_output(std::int64_t slice, std::int64_t first_node, std::int64_t row_tile,
                     std::vector<Access>& out) const;

  LinearLaunch p_;
  LinearCut cut_;
};

void LinearTrace::append_tile(std::uint64_t matrix, std::int64_t first, std::int64_t rows,
                              std::int64_t tile, AccessKind kind, std::vector<Access>& out) const {
  if (rows <= 0) {
    return;
  }
  const std::int64_t from = tile * kLinearTileK;
  out.push_back(
      {.address = matrix + static_cast<std::uint64_t>((first * p_.k + from) * p_.element_bytes),
       .bytes = static_cast<std::uint32_t>(std::min(kLinearTileK, p_.k - from) * p_.element_bytes),
       .count = static_cast<std::uint32_t>(rows),
       .stride = static_cast<std::uint64_t>(p_.k * p_.element_bytes),
       .kind = kind});
}

void LinearTrace::append_output(std::int64_t slice, std::int64_t first_node, std::int64_t row_tile,
                                std::vector<Access>& out) const {
  const std::int64_t width = p_.swiglu ? kLinearGroupRows : cut_.groups * kLinearGroupRows;
  const std::int64_t share = width / cut_.slices;
  const std::int64_t first = row_tile * width + slice * share;
  const std::int64_t columns = std::min(share, p_.m - first);
  if (columns <= 0) {
    return;
  }
  const Access rows{
      .address = static_cast<std::uint64_t>((first_node * p_.m + first) * p_.element_bytes),
      .bytes = static_cast<std::uint32_t>(columns * p_.element_bytes),
      .count = static_cast<std::uint32_t>(std::min(tile_nodes(p_), p_.n - first_node)),
      .stride = static_cast<std::uint64_t>(p_.m * p_.element_bytes)};
  if (p_.residual != 0) {
    out.push_back(rows);
    out.back().address += p_.residual;
  }
  for (const std::uint64_t written : {p_.y, p_.weighted}) {
    if (written != 0) {
      out.push_back(rows);
      out.back().address += written;
      out.back().kind = AccessKind::kWrite;
    }
  }
  if (p_.copy != 0) {
    out.push_back(rows);
    out.back().address = p_.copy + static_cast<std::uint64_t>(first_node) * p_.copy_stride +
                         static_cast<std::uint64_t>(first * p_.element_bytes);
    out.back().stride = p_.copy_stride;
    out.back().kind = AccessKind::kWrite;
  }
}

bool LinearTrace::append_step(std::int64_t cta, std::int64_t step, std::vector<Access>& out) const {
  const std::int64_t slice = cta % cut_.slices;
  const std::int64_t first_node = cta / cut_.slices % node_tiles(p_) * tile_nodes(p_);
  const std::int64_t row_tile = cta / cut_.slices / node_tiles(p_);
  if (step > k_tiles(slice)) {
    return false;
  }
  if (step == k_tiles(slice)) {
    append_output(slice, first_node, row_tile, out);
    return true;
  }
  const std::int64_t tile = first_tile(slice) + step;
  const std::int64_t width = p_.swiglu ? kLinearGroupRows : cut_.groups * kLinearGroupRows;
  const std::int64_t first = row_tile * width;
  const std::int64_t rows = std::min(width, p_.m - first);
  append_tile(p_.w, first, rows, tile, AccessKind::kStream, out);
  if (p_.swiglu) {
    append_tile(p_.w, p_.m + first, rows, tile, AccessKind::kStream, out);
  }
  append_tile(p_.x, first_node, std::min(tile_nodes(p_), p_.n - first_node), tile,
              AccessKind::kKept, out);
  return true;
}

// Nothing brings pairs together that stay for a whole launch: the sixth tile of one is another's
// fifth. Chosen by the bytes of 4,096 rows of k4096m8192 on an H100 (MEASURED.md).
constexpr double kGemmPaceSpread = 0.15;

// Of many rows (kernels/linear/gemm.cu). A CTA: goes through tiles, in pairs that load half of what
// both read, each pair through those as many apart as there are pairs; or has a share of a tile's
// slices of K, whose cluster then shares out its nodes.
class GemmTrace final : public LaunchTrace {
 public:
  GemmTrace(const LinearLaunch& launch, const GemmCut& cut)
      : LaunchTrace({.path = "linear",
                     .ctas = cut.blocks,
                     .cluster = cut.cluster,
                     .threads = 384,
                     .registers = 168,
                     .shared_bytes = 200 * 1024,
                     .step_cycles = 6.4 * static_cast<double>(gemm_rate(cut.nodes)),
                     .issue_cycles = 4.0 * static_cast<double>(cut.nodes),
                     .steps_in_flight = 4.0,
                     .pace_spread = cut.split ? 0.0 : kGemmPaceSpread}),
        p_(launch),
        cut_(cut) {}

  bool append_step(std::int64_t cta, std::int64_t step, std::vector<Access>& out) const override;
  bool meets_cluster(std::int64_t cta, std::int64_t step) const override {
    return cut_.split &&
           step == first_tile(cta % cut_.cluster + 1) - first_tile(cta % cut_.cluster);
  }

 private:
  struct Tile {
    std::int64_t row, node;  // of y
  };
  std::int64_t first_tile(std::int64_t rank) const {
    const std::int64_t k_tiles = (p_.k + kLinearTileK - 1) / kLinearTileK;
    return cut_.split ? k_tiles * rank / cut_.cluster : rank == 0 ? 0 : k_tiles;
  }
  std::int64_t width() const { return p_.swiglu ? kGemmTileRows / 2 : kGemmTileRows; }
  // The unit that a CTA has after `walked` others.
  std::int64_t unit_of(std::int64_t cta, std::int64_t walked) const {
    return (cta + walked * cut_.blocks) / cut_.cluster;
  }
  Tile tile_of(std::int64_t unit, std::int64_t rank) const;
  void append_k_tile(const Tile& tile, std::int64_t rank, std::int64_t k_tile,
                     std::vector<Access>& out) const;
  void append_output(const Tile& tile, std::int64_t rank, std::vector<Access>& out) const;

  LinearLaunch p_;
  GemmCut cut_;
};

GemmTrace::Tile GemmTrace::tile_of(std::int64_t unit, std::int64_t rank) const {
  const std::int64_t band = unit / (cut_.row_units * cut_.band);
  const std::int64_t in_band = unit - band * cut_.row_units * cut_.band;
  const std::int64_t width = std::min(cut_.band, cut_.node_units - band * cut_.band);
  const std::int64_t row = in_band / width, node = band * cut_.band + in_band % width;
  if (cut_.split) {
    return {row, node};
  }
  return cut_.shares_nodes ? Tile{kGemmPair * row + rank, node}
                           : Tile{row, kGemmPair * node + rank};
}

void GemmTrace::append_k_tile(const Tile& tile, std::int64_t rank, std::int64_t k_tile,
                              std::vector<Access>& out) const {
  const std::int64_t from = k_tile * kLinearTileK;
  // Of rows [first, first + count) that are there: all, or the pair's half.
  const auto load = [&](std::uint64_t matrix, std::int64_t first, std::int64_t count,
                        std::int64_t end, bool shared) {
    first += shared ? rank * count / 2 : 0;
    const std::int64_t rows = std::min(shared ? count / 2 : count, end - first);
    if (rows > 0) {
      out.push_back(
          {.address = matrix + static_cast<std::uint64_t>((first * p_.k + from) * p_.element_bytes),
           .bytes =
               static_cast<std::uint32_t>(std::min(kLinearTileK, p_.k - from) * p_.element_bytes),
           .count = static_cast<std::uint32_t>(rows),
           .stride = static_cast<std::uint64_t>(p_.k * p_.element_bytes),
           .kind = AccessKind::kBulkRead});
    }
  };
  const bool shares_weights = !cut_.split && !cut_.shares_nodes;
  load(p_.w, tile.row * width(), width(), p_.m, shares_weights);
  if (p_.swiglu) {
    load(p_.w, p_.m + tile.row * width(), width(), 2 * p_.m, shares_weights);
  }
  load(p_.x, tile.node * cut_.nodes, cut_.nodes, p_.n, cut_.shares_nodes);
}

void GemmTrace::append_output(const Tile& tile, std::int64_t rank, std::vector<Access>& out) const {
  const std::int64_t share = cut_.split ? cut_.nodes / cut_.cluster : cut_.nodes;
  const std::int64_t node = tile.node * cut_.nodes + (cut_.split ? rank * share : 0);
  const std::int64_t first = tile.row * width();
  const std::int64_t columns = std::min(width(), p_.m - first);
  const std::int64_t rows = std::min(share, p_.n - node);
  if (columns <= 0 || rows <= 0) {
    return;
  }
  const auto touch = [&](std::uint64_t matrix, std::uint64_t stride, AccessKind kind) {
    if (matrix != 0) {
      out.push_back({.address = matrix + static_cast<std::uint64_t>(node) * stride +
                                static_cast<std::uint64_t>(first * p_.element_bytes),
                     .bytes = static_cast<std::uint32_t>(columns * p_.element_bytes),
                     .count = static_cast<std::uint32_t>(rows),
                     .stride = stride,
                     .kind = kind});
    }
  };
  const std::uint64_t stride = static_cast<std::uint64_t>(p_.m * p_.element_bytes);
  touch(p_.residual, stride, AccessKind::kRead);
  touch(p_.y, stride, AccessKind::kWrite);
  touch(p_.weighted, stride, AccessKind::kWrite);
  touch(p_.copy, p_.copy_stride, AccessKind::kWrite);
}

bool GemmTrace::append_step(std::int64_t cta, std::int64_t step, std::vector<Access>& out) const {
  const std::int64_t rank = cta % cut_.cluster;
  const std::int64_t first = cut_.split ? first_tile(rank) : 0;
  const std::int64_t steps = (cut_.split ? first_tile(rank + 1) : first_tile(1)) - first;
  // A tile's output is written beside the next one's first products.
  const std::int64_t walked = step / (steps + 1), in_tile = step % (steps + 1);
  const std::int64_t unit = unit_of(cta, walked);
  if (unit >= cut_.row_units * cut_.node_units) {
    return false;
  }
  const Tile tile = tile_of(unit, cut_.split ? 0 : rank);
  in_tile < steps ? append_k_tile(tile, rank, first + in_tile, out)
                  : append_output(tile, rank, out);
  return true;
}

}  // namespace

std::unique_ptr<LaunchTrace> trace_linear(const LinearLaunch& launch) {
  const GemmCut gemm =
      linear_gemm_cut(launch.n, launch.k, launch.m, launch.swiglu, launch.weighted != 0);
  if (launch.element_bytes == 2 && gemm.nodes > 0) {
    return std::make_unique<GemmTrace>(launch, gemm);
  }
  return std::make_unique<LinearTrace>(launch, linear_cut(launch.k, launch.m, launch.swiglu));
}

}  // namespace versieve::engine
