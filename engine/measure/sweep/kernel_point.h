// WorkloadKind::kTopk and kSampling: those kernels alone, on random scores and logits. Texts:
// model/words/kernel_case.h. Rows of the two models are independent, so that nearly every tested
// position rejects and draws: the slow case of the samplers.
#pragma once

#include <memory>

#include "engine/measure/sweep/point_runner.h"
#include "kernels/common/bf16.h"

namespace versieve::engine {

// As make_attention_runner.
template <class T>
std::unique_ptr<PointRunner> make_topk_runner(const SweepPlan& plan, Instrument& instrument,
                                              bool on_gpu, int threads);
template <class T>
std::unique_ptr<PointRunner> make_sampling_runner(const SweepPlan& plan, Instrument& instrument,
                                                  bool on_gpu, int threads);

}  // namespace versieve::engine
