// A fitted cost model and the timed steps of one trained pair: the machine's parameters stay, and
// what they miss of this pair's steps is learned from those alone.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "model/cost/fitted_model.h"
#include "model/words/hardware.h"
#include "model/words/llm_shape.h"
#include "model/words/measurement.h"

namespace versieve::engine {

struct PlannedPair {
  std::string sha256;  // PairId's
  LlmShape target;
  DraftShape draft;
};

// Puts the pair's steps in the place of those of the fit's geometry, a correction of predicted
// steps learned from them on top of the fit's own, and, where there are ten or more, the width that
// steps of the pair need which the correction has not seen in the place of the fit's. Steps of
// another dtype or launch mode than the fit's, of the CPU, of the vanilla form and of another kind
// of attention than the target's are left alone; of the others those that cannot be used are
// counted in `left_out` (may be null), by reason. A dense target's steps correct the fit to the
// other systems. Returns how many are used; of none the fit stays as it is. REQUIRES: all are of
// that pair.
std::int64_t use_pair_steps(const std::vector<PointMeasurement>& steps, const PlannedPair& pair,
                            FittedModel& fit,
                            std::map<std::string, std::int64_t>* left_out = nullptr);

}  // namespace versieve::engine
