// WorkloadKind::kMachine: what a machine gives, by copies, matrix products and launches that do
// next to nothing. Texts: model/words/kernel_case.h. The kernels are those that the engine runs.
#pragma once

#include <memory>

#include "engine/measure/sweep/point_runner.h"
#include "kernels/common/bf16.h"

namespace versieve::engine {

// As make_attention_runner.
template <class T>
std::unique_ptr<PointRunner> make_machine_runner(const SweepPlan& plan, Instrument& instrument,
                                                 bool on_gpu, int threads);

}  // namespace versieve::engine
