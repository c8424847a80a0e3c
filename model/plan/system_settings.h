// The settings of ReSA and SpecAttn that a plan goes over.
#pragma once

#include <cstdint>
#include <vector>

namespace versieve {

struct SystemSettings {
  // Rectified Sparse Attention: tokens of a block (b), share of the blocks that a step reads (p),
  // steps between two dense passes (f); tuples that never rectify are planned beside all periods.
  std::vector<std::int64_t> resa_key_blocks = {16, 32, 64};
  std::vector<double> resa_active_ratios = {0.02, 0.05, 0.1, 0.2};
  std::vector<std::int64_t> resa_periods = {16, 32, 64, 128};
  // SpecAttn: share of the attention that the chosen tokens carry (p).
  std::vector<double> specattn_shares = {0.9, 0.95, 0.97, 0.99};

  bool operator==(const SystemSettings&) const = default;
};

}  // namespace versieve
