// Tokens a step of chains that a plan knows by points of their own method alone (ChainYield).
#pragma once

#include <optional>
#include <vector>

#include "model/cost/acceptance.h"
#include "model/words/chain_yield.h"
#include "model/words/strategy.h"

namespace versieve {

// Tokens of a chain of which each stays with that probability, the bonus token counted.
double tokens_kept(double stays, std::int64_t depth);

class ChainYields {
 public:
  ChainYields() = default;
  explicit ChainYields(const std::vector<ChainYield>& rows);

  struct Found {
    AcceptedTokens tokens;
    PairId lender;  // without a name: the pair itself
  };
  // By the pair's own rows, else by another's: those of the same method and settings at the nearest
  // context, and of them the nearest depth; at another depth each token stays as often as there.
  // None: nobody counted that method with these settings.
  std::optional<Found> of(const Strategy& strategy, std::int64_t context_low,
                          std::int64_t context_high) const;
  bool knows(const Strategy& strategy) const { return of(strategy, 0, 0).has_value(); }

 private:
  struct Row {
    Strategy strategy;
    ChainYield yield;
  };
  std::vector<Row> rows_;
};

}  // namespace versieve
