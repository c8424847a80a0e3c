// WorkloadKind::kAcceptance of a dense pair on real text. What the selections of ReSA and SpecAttn
// share along true text, and how many they are: ReSA's queries are tokens one after the other, its
// passes included; SpecAttn's the steps of a draft chain, each with the tokens that carry the share
// p of its own attention, in runs of 16. And how many tokens a step emits, generated text by text:
// of chains that SpecAttn verifies, of drafts that dense attention verifies, and of a target that
// drafts for itself. No times.
#pragma once

#include <memory>

#include "engine/measure/sweep/pair_source.h"
#include "engine/measure/sweep/point_runner.h"
#include "kernels/ops.h"

namespace versieve::engine {

// Whether the pair's target is a dense model, whose points these are. Reads its configuration.
bool reads_all_tokens(const PairSource& pair);

// The draft is a model of its own, or a head, or there is none.
template <class T>
std::unique_ptr<PointRunner> make_selection_runner(const SweepPlan& plan,
                                                   std::unique_ptr<kernels::Ops<T>> ops,
                                                   const PairSource& pair);

}  // namespace versieve::engine
