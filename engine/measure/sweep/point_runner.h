// One kind of workload at work: measures points one after the other and may keep what neighbours
// share (tensors, a loaded model, a prefilled prompt).
#pragma once

#include <memory>
#include <string>

#include "engine/measure/sweep/instrument.h"
#include "engine/measure/sweep/sweep.h"
#include "model/words/llm_shape.h"
#include "model/words/measurement.h"
#include "model/words/step_trace.h"
#include "model/words/strategy.h"

namespace versieve::engine {

class PointRunner {
 public:
  virtual ~PointRunner() = default;
  // The measured point, or one with status "refused" and the reason. Throws Error for what went
  // wrong; the campaign stores it as "failed".
  virtual PointMeasurement run(const PointKey& key) = 0;
  // What the step of the last run() did, handed over; empty of other workloads.
  virtual StepDetail take_detail() { return {}; }
};

// A point that will not be measured, and why.
PointMeasurement refused_point(const PointKey& key, const std::string& reason);

}  // namespace versieve::engine
