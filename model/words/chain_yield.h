// How many tokens a step yields of a chain that is verified, or drafted, by reading a part of the
// cache: SpecAttn's, and those of a target that drafts for itself. Counted on generated text.
#pragma once

#include <cstdint>
#include <string>

#include "model/words/pair_id.h"

namespace versieve {

struct ChainYield {
  std::string strategy;  // canonical text
  std::int64_t context_len = 0;
  double mean = 1.0;       // tokens a step, the bonus token counted
  double log_error = 0.0;  // standard deviation of its logarithm, over texts
  std::int64_t texts = 0;
  PairId pair;       // that was measured
  bool own = false;  // it is the one that is planned for, or that pair's dense model
};

}  // namespace versieve
