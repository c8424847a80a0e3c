// WorkloadKind::kDecode: one layer's attention over a dense cache at a geometry, on random tensors:
// dense decoding and verification of chains (split over the keys) and trees, ReSA's decoding step
// with its block keys, SpecAttn's choice and attention over the chosen tokens. ReSA's vanilla form
// scores, selects and attends in launches of their own. WorkloadKind::kRectify: ReSA's dense pass
// of f queries over such a cache.
#pragma once

#include <memory>

#include "engine/measure/sweep/pair_source.h"
#include "engine/measure/sweep/point_runner.h"
#include "kernels/common/bf16.h"

namespace versieve::engine {

// As make_attention_runner.
template <class T>
std::unique_ptr<PointRunner> make_decode_runner(const SweepPlan& plan, Instrument& instrument,
                                                bool on_gpu, int threads,
                                                const PairSource* pair = nullptr);

extern template std::unique_ptr<PointRunner> make_decode_runner<float>(const SweepPlan&,
                                                                       Instrument&, bool, int,
                                                                       const PairSource*);
extern template std::unique_ptr<PointRunner> make_decode_runner<Bf16>(const SweepPlan&, Instrument&,
                                                                      bool, int, const PairSource*);

}  // namespace versieve::engine
