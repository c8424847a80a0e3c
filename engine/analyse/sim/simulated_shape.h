// The geometry that a simulated point is of, and the draft beside it: by name, or a trained pair's
// as its folder has it.
#pragma once

#include "engine/measure/sweep/pair_source.h"
#include "model/words/llm_shape.h"
#include "model/words/measurement.h"
#include "model/words/strategy.h"

namespace versieve::engine {

// Throw Error(kAnswerNo) for what the engine would refuse or what has no traces. `pair`: null where
// points are of geometries by name.
LlmShape simulated_shape(const PointKey& key, const Strategy& strategy, const PairSource* pair);
DraftShape simulated_draft(const PointKey& key, const LlmShape& target, const PairSource* pair);

}  // namespace versieve::engine
