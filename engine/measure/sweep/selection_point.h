// WorkloadKind::kAcceptance of a dense pair: what the selections of ReSA and SpecAttn share on real
// text that is walked along, and how many they are. ReSA's queries are tokens one after the other,
// its passes included; SpecAttn's the steps of a draft chain, each with the tokens that carry the
// share p of its own attention, in runs of 16. No tokens a step, no times.
#pragma once

#include <memory>

#include "engine/measure/sweep/pair_source.h"
#include "engine/measure/sweep/point_runner.h"
#include "kernels/common/bf16.h"

namespace versieve::engine {

// Whether the pair's target is a dense model, whose points these are. Reads its configuration.
bool reads_all_tokens(const PairSource& pair);

// As make_acceptance_runner. The draft, needed for SpecAttn alone, is a model of its own.
template <class T>
std::unique_ptr<PointRunner> make_selection_runner(const SweepPlan& plan, Instrument& instrument,
                                                   bool on_gpu, int threads,
                                                   const PairSource& pair);

extern template std::unique_ptr<PointRunner> make_selection_runner<float>(const SweepPlan&,
                                                                          Instrument&, bool, int,
                                                                          const PairSource&);
extern template std::unique_ptr<PointRunner> make_selection_runner<Bf16>(const SweepPlan&,
                                                                         Instrument&, bool, int,
                                                                         const PairSource&);

}  // namespace versieve::engine
