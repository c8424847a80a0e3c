// WorkloadKind::kAcceptance: a trained pair on real text. How many tokens a step emits (generated
// greedily, text by text, and along the author's own continuation), and what its queries' selected
// blocks share; above temperature 0 sampled, text by text alone.
// Of a dense pair selection_point.h. No times: those come from points with synthetic weights.
#pragma once

#include <memory>

#include "engine/measure/sweep/pair_source.h"
#include "engine/measure/sweep/point_runner.h"
#include "kernels/common/bf16.h"

namespace versieve::engine {

// `pair` outlives the runner.
template <class T>
std::unique_ptr<PointRunner> make_acceptance_runner(const SweepPlan& plan, Instrument& instrument,
                                                    bool on_gpu, int threads,
                                                    const PairSource& pair);

extern template std::unique_ptr<PointRunner> make_acceptance_runner<float>(const SweepPlan&,
                                                                           Instrument&, bool, int,
                                                                           const PairSource&);
extern template std::unique_ptr<PointRunner> make_acceptance_runner<Bf16>(const SweepPlan&,
                                                                          Instrument&, bool, int,
                                                                          const PairSource&);

}  // namespace versieve::engine
