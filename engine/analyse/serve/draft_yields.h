// What the drafts of a cell yield a step, and how well that is known: those that were measured, and
// shorter chains cut from a chain.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "engine/analyse/serve/serving_evidence.h"

namespace versieve::engine {

// A number and its relative standard error.
struct Estimate {
  double value = 1.0, error = 0.0;
};

struct DraftYield {
  Estimate tokens;
  TokenSource source = TokenSource::kCounted;
  bool at_least = false;
};

// Drafts that a cell may choose, with what they yield: those that were measured, and shorter chains
// of a chain; of two that come to the same the one with more steps behind it.
std::map<DraftChoice, DraftYield, ByDraft> draft_yields(
    const std::map<DraftChoice, DraftTokens, ByDraft>& measured);

}  // namespace versieve::engine
