#include "kernels/cpu.h"

#include <cmath>
#include <limits>
#include <vector>

#include "model/words/assert.h"

namespace versieve::kernels {
namespace {

constexpr double kForbidden = std::numeric_limits<double>::infinity();

// dp[i, j] = D[i, j] + min over k <= i of dp[k, j - 1], D = -similarity: the least cost of verifier
// layers 0..j with layer j on draft layer i; best[i, j] is the lowest k that attains it.
struct CostTable {
  std::int64_t rows = 0;
  std::vector<double> cost;        // [m, n]
  std::vector<std::int32_t> best;  // [m, n]

  std::size_t at(std::int64_t i, std::int64_t j) const {
    return static_cast<std::size_t>(j * rows + i);
  }
};

CostTable fill(const LayerMapParams& p) {
  const std::size_t cells = static_cast<std::size_t>(p.draft_layers * p.verifier_layers);
  CostTable table{.rows = p.draft_layers,
                  .cost = std::vector<double>(cells),
                  .best = std::vector<std::int32_t>(cells, 0)};
  for (std::int64_t j = 0; j < p.verifier_layers; ++j) {
    double least = kForbidden;
    std::int32_t least_row = 0;
    for (std::int64_t i = 0; i < p.draft_layers; ++i) {
      if (j > 0 && table.cost[table.at(i, j - 1)] < least) {
        least = table.cost[table.at(i, j - 1)];
        least_row = static_cast<std::int32_t>(i);
      }
      table.cost[table.at(i, j)] = -p.similarity[i * p.verifier_layers + j] + (j > 0 ? least : 0.0);
      table.best[table.at(i, j)] = least_row;
    }
  }
  return table;
}

}  // namespace

void layer_map_cpu(const LayerMapParams& p) {
  VERSIEVE_ASSERT(p.draft_layers >= 1 && p.verifier_layers >= 1, "there are layers to map");
  const CostTable table = fill(p);
  const std::int64_t last = p.verifier_layers - 1;
  std::int32_t row = 0;
  for (std::int64_t i = 1; i < p.draft_layers; ++i) {
    if (table.cost[table.at(i, last)] < table.cost[table.at(row, last)]) {
      row = static_cast<std::int32_t>(i);
    }
  }
  const bool exists = table.cost[table.at(row, last)] < kForbidden;
  *p.score = exists ? 0.0 : -kForbidden;
  // Backwards: of the optimal maps the lowest end, then the lowest before it.
  for (std::int64_t j = last; j >= 0; --j) {
    p.map[j] = exists ? row : -1;
    row = table.best[table.at(row, j)];
  }
  for (std::int64_t j = 0; exists && j < p.verifier_layers; ++j) {
    *p.score += p.similarity[p.map[j] * p.verifier_layers + j];
  }
}

}  // namespace versieve::kernels
