// From what the trace delivered of some runs of a step to one step, launch by launch, each in its
// range; and which blocks its tree's nodes chose. Pure functions.
#pragma once

#include <optional>
#include <vector>

#include "engine/run/speculate/step.h"
#include "model/words/measurement.h"
#include "model/words/step_trace.h"
#include "model/words/strategy.h"
#include "profiler/activity_trace.h"

namespace versieve::engine {

// One run of `runs`, whose turns are the runs in order: neither the first, which nothing runs
// before, nor the last, behind which no step begins; of the others the one that launches least (a
// run may begin a recording anew), the first of those. None where there are fewer than three.
// `led`: the same step launched within ranges, or one like it. Work that a graph launched lies in
// no range: the two sequences of kernels are aligned (longest common subsequence), and what is left
// takes the range of its kernel where all its launches there lie in one.
std::optional<StepTrace> traced_step(const std::vector<profiler::TracedWork>& runs,
                                     const std::vector<profiler::TracedWork>& led);

// Distinct blocks and adjacent overlap of a step's selections, means over its layers.
void add_block_statistics(const StepResult& step, PointMeasurement& point);

// Which blocks the nodes of a step's tree selected: of the first KV head, in the first layer from
// the middle on that selects for itself. None without a tree or where no layer selects blocks.
std::optional<BlockChoice> block_choice(const StepResult& step, const Strategy& strategy,
                                        std::int64_t kv_heads);

}  // namespace versieve::engine
