// What a chain is priced by beside its launches, out of what was measured of the pair that is
// planned for.
#pragma once

#include <optional>
#include <vector>

#include "model/words/chain_share.h"
#include "model/words/strategy.h"

namespace versieve {

class ChainShares {
 public:
  explicit ChainShares(const std::vector<ChainShare>& rows);

  // Of rows of the same share p or sampler: at the chain's own depth, between two measured depths
  // on a line in the logarithm of depth, beyond them the nearest one's. None: nothing was measured.
  std::optional<Estimate95> of(const Strategy& strategy) const;

 private:
  struct Row {
    Strategy strategy;
    Estimate95 share;
  };
  std::vector<Row> rows_;  // by depth
};

}  // namespace versieve
