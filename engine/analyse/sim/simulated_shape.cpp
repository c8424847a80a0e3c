#include "engine/analyse/sim/simulated_shape.h"

#include "engine/io/model_config.h"
#include "engine/measure/sweep/point_shape.h"
#include "model/words/error.h"

namespace versieve::engine {

LlmShape simulated_shape(const PointKey& key, const Strategy& strategy, const PairSource* pair) {
  if (!key.pair.empty() && pair == nullptr) {
    throw Error(ExitCode::kAnswerNo,
                "the point is of a trained pair, whose shapes lie in a folder that nobody named");
  }
  const PointShape own = point_shape(key, strategy, pair);
  if (!own.refusal.empty()) {
    throw Error(ExitCode::kAnswerNo, own.refusal);
  }
  if (own.shape.has_windows()) {
    throw Error(ExitCode::kAnswerNo,
                "the simulator has no traces of layers that see a window of the tokens");
  }
  return own.shape;
}

DraftShape simulated_draft(const PointKey& key, const LlmShape& target, const PairSource* pair) {
  if (key.pair.empty()) {
    return draft_shape_for(target);
  }
  const std::filesystem::path folder = pair->model / "draft";
  if (is_draft_model(folder)) {
    throw Error(ExitCode::kAnswerNo,
                "the simulator has no traces of a pair whose draft is a model of its own");
  }
  return read_draft_config(folder, target).shape;
}

}  // namespace versieve::engine
