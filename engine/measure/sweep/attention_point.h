// WorkloadKind::kAttention: one NSA layer's verification of a tree at a geometry, on synthetic
// tensors of a declared overlap. Overlap and distinct blocks are measured from the kernel's own
// indices and stored beside the declared ones.
#pragma once

#include <memory>

#include "engine/measure/sweep/pair_source.h"
#include "engine/measure/sweep/point_runner.h"
#include "kernels/common/bf16.h"

namespace versieve::engine {

// T = float, or Bf16 on a GPU (`instrument` then owns its stream). Both outlive the runner. `pair`:
// whose geometry a trained pair's points have; outlives it too.
template <class T>
std::unique_ptr<PointRunner> make_attention_runner(const SweepPlan& plan, Instrument& instrument,
                                                   bool on_gpu, int threads,
                                                   const PairSource* pair = nullptr);

extern template std::unique_ptr<PointRunner> make_attention_runner<float>(const SweepPlan&,
                                                                          Instrument&, bool, int,
                                                                          const PairSource*);
extern template std::unique_ptr<PointRunner> make_attention_runner<Bf16>(const SweepPlan&,
                                                                         Instrument&, bool, int,
                                                                         const PairSource*);

}  // namespace versieve::engine
