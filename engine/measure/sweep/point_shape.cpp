#include "engine/measure/sweep/point_shape.h"

#include "engine/io/model_config.h"
#include "engine/run/speculate/step.h"
#include "model/plan/system_grid.h"
#include "model/words/assert.h"

namespace versieve::engine {

LlmShape shape_for(const Strategy& strategy, const LlmShape& target) {
  const bool reads_all = strategy.attention != AttentionMethod::kNsa;
  return reads_all && target.attention == AttentionKind::kNsa ? dense_sibling(target) : target;
}

PointShape point_shape(const PointKey& key, const Strategy& strategy, const PairSource* pair) {
  PointShape out;
  if (key.pair.empty()) {
    out.shape = named_llm_shape(key.model);
  } else {
    VERSIEVE_ASSERT(pair != nullptr, "a campaign of a pair's points has the pair");
    out.refusal = other_pair_because(key, *pair);
    if (!out.refusal.empty()) {
      return out;
    }
    out.shape = shape_for(strategy, read_target_config(pair->model).shape);
  }
  out.refusal = illegal_because(strategy, out.shape);
  if (out.refusal.empty() && strategy.drafts_itself) {
    out.refusal = unavailable_because(strategy, out.shape);
  }
  return out;
}

}  // namespace versieve::engine
