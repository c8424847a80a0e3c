// The geometry that a point is of: by its name, or a trained pair's as its folder has it. A dense
// strategy of a sparse pair runs the pair's own weights with dense attention in the place of the
// sparse one: what is verified, without what makes it sparse.
#pragma once

#include <string>

#include "engine/measure/sweep/pair_source.h"
#include "model/words/llm_shape.h"
#include "model/words/strategy.h"

namespace versieve::engine {

// `target`, or its dense sibling where the strategy reads a dense cache.
LlmShape shape_for(const Strategy& strategy, const LlmShape& target);

// A pair may bear a geometry's name.
inline std::string model_of(const PointKey& key) {
  return key.model + "/" + key.pair;
}

struct PointShape {
  LlmShape shape;
  std::string refusal;  // why the point is none of this geometry, or empty
};
// `pair`: of a campaign of a pair's points. The pair's configuration is read, not its weights.
PointShape point_shape(const PointKey& key, const Strategy& strategy, const PairSource* pair);

}  // namespace versieve::engine
