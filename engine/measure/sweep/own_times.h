// What each launch of a traced step adds to the time that the GPU is busy (profiler/busy_time.h):
// launches begin before the one before them ends and then wait for it, so that their durations add
// up to more than the step.
#pragma once

#include <vector>

#include "model/words/step_trace.h"

namespace versieve::engine {

// ns of each launch, in the trace's order; they sum to StepTrace::busy_ns().
std::vector<double> own_times_ns(const StepTrace& trace);

}  // namespace versieve::engine
