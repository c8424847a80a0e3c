// How texts differ (model/cost/text_spread.h), from points that were counted text by text.
#pragma once

#include <vector>

#include "engine/analyse/fit/acceptance_evidence.h"
#include "model/cost/acceptance.h"

namespace versieve::engine {

// Of pairs that nobody counted text by text: as of the real pair that ships, walked along 8 texts a
// context (test split in db/measured/h100.db; along the calibration split's, 0.089 too). `texts`:
// two of each of four kinds, as campaigns before such counts took.
// tests/engine/analyse/fit/text_spread_test.cpp finds it again.
inline constexpr TextSpread kTextLaw{.rate = 0.089, .texts = 8, .evidence = TextEvidence::kLaw};

// Of the pair's own tuples, those that it decoded before those that it was walked along; the law's
// where none was counted on four texts or more. `positional`: as fitted to the same evidence.
TextSpread fit_text_spread(const AcceptanceEvidence& evidence,
                           const std::vector<AcceptanceModel::Positional>& positional);

// Of a pair that nobody measured, whose best child's rate is assumed: that rate holds for all
// texts.
TextSpread assumed_text_spread(double rate);

}  // namespace versieve::engine
