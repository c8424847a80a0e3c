// WorkloadKind::kStep: a whole verification step (draft, verify, accept, commit) of a named
// geometry with synthetic weights, for time and bytes. Never used for acceptance.
#pragma once

#include <memory>

#include "engine/sweep/point_runner.h"
#include "kernels/common/bf16.h"

namespace versieve::engine {

// T = float, or Bf16 on a GPU (`instrument` then owns its stream). Both outlive the runner.
template <class T>
std::unique_ptr<PointRunner> make_step_runner(const SweepPlan& plan, Instrument& instrument,
                                              bool on_gpu, int threads);

extern template std::unique_ptr<PointRunner> make_step_runner<float>(const SweepPlan&, Instrument&,
                                                                     bool, int);
extern template std::unique_ptr<PointRunner> make_step_runner<Bf16>(const SweepPlan&, Instrument&,
                                                                    bool, int);

}  // namespace versieve::engine
