// WorkloadKind::kBatch: a whole step of many requests (draft, verification, acceptance, commit) of
// a geometry with random weights, through the batched engine as it runs them (engine/run/batch).
// The time is the host's, of a step after another, each request's context as long as the key says
// at first and growing by what steps commit. Ranges are one step's launches, times and counters of
// a repetition each, of steps that are not recorded: nobody sees the launches of a replayed one. A
// launch that one of these steps has and another has not (compressed tokens come once in so many)
// is left out. What does not fit into memory is refused.
//
// A key with an overlap is of weights whose neighbouring queries share about so many blocks, as a
// trained pair's do: all embeddings have a part in common, as large as the search finds. What the
// first request's tree did share, in its last step, is the point's adjacent_overlap.
#pragma once

#include <memory>

#include "engine/measure/sweep/point_runner.h"
#include "kernels/common/bf16.h"

namespace versieve::engine {

// As make_attention_runner.
template <class T>
std::unique_ptr<PointRunner> make_batch_runner(const SweepPlan& plan, Instrument& instrument,
                                               bool on_gpu, int threads);

extern template std::unique_ptr<PointRunner> make_batch_runner<float>(const SweepPlan&, Instrument&,
                                                                      bool, int);
extern template std::unique_ptr<PointRunner> make_batch_runner<Bf16>(const SweepPlan&, Instrument&,
                                                                     bool, int);

}  // namespace versieve::engine
