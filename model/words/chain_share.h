// What verifying a chain depends on beside its law, as measured along true texts: of SpecAttn what
// share of the context the layers that choose read, of sigmoids the probability that a drafted
// token stays.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/words/quality_point.h"

namespace versieve {

struct ChainShare {
  std::string strategy;  // canonical text
  Estimate95 share;
  std::int64_t counted = 0;  // places of the context in all layers that choose; drafted tokens
};

// Rows of a pair that another's plan borrows from.
struct LentShares {
  std::string lender;  // "name (hash)"; empty: there is none
  std::vector<ChainShare> rows;
};

// Source of the diagnostic of a quality run that holds them, JSON.
inline constexpr const char* kChainShares = "chain shares";

}  // namespace versieve
