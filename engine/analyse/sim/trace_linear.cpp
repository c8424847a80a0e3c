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

}  // namespace

std::unique_ptr<LaunchTrace> trace_linear(const LinearLaunch& launch) {
  return std::make_unique<LinearTrace>(launch, linear_cut(launch.k, launch.m, launch.swiglu));
}

}  // namespace versieve::engine
