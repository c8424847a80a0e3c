#include "model/cost/self_drafted.h"

#include <cmath>

#include "model/launches/launch_parts.h"
#include "model/launches/step_composition.h"

namespace versieve {
namespace {

// Launches of such a step, so many times.
void add_times(const StepShape& shape, double times, const ResidualField& field, StepWork& out) {
  StepWork part;
  add_step(shape, 1.0, part);
  correct_dense_attention(shape, field, part);
  const double factor = std::exp(field.at(step_regime(shape)));
  for (LaunchWork launch : part) {
    launch.launches *= times;
    launch.time_factor *= factor;
    launch.led = !shape.recorded;
    out.add(launch);
  }
  out.led_trips += times * part.host_trips;
}

}  // namespace

StepWork self_drafted_work(const StepShape& step, const ResidualField& field) {
  StepShape draft = step, verify = step;
  draft.tree = verify.tree = {};
  draft.num_queries = 1;
  draft.dense.method = AttentionMethod::kResa;
  verify.dense = {};
  verify.recorded = false;
  StepWork out;
  add_times(draft, number(step.tree.levels()), field, out);
  add_times(verify, 1.0, field, out);
  return out;
}

}  // namespace versieve
