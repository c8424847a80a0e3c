// WorkloadKind::kStep: a whole speculative step (draft, verification, acceptance, commit) of a
// geometry with synthetic weights and a context that was never prefilled, or of a trained pair on
// real text, through the engine itself. The time is the host's: launch
// `graph` times recorded steps one after the other as generation runs them (the next is enqueued
// while one runs), `stream` steps that the host leads. Ranges are the host-led step's kernels. Of a
// target that drafts for itself, `graph`: its sparse steps are recorded, and the host leads their
// verification.
// WorkloadKind::kRectifiedStep: the time of a step of ReSA of f recorded ones and the dense pass
// that ends their period; its ranges are the pass's kernels alone, as the host leads them.
#pragma once

#include <memory>

#include "engine/measure/sweep/pair_source.h"
#include "engine/measure/sweep/point_runner.h"
#include "kernels/common/bf16.h"

namespace versieve::engine {

// Nodes of the path that is committed whatever the untrained target says (fewer where a tree is
// less deep, one without a tree): a trained pair yields some four tokens a step, and a commit's
// cost grows with them.
inline constexpr std::int64_t kCommittedNodes = 4;

class StepPointRunner : public PointRunner {
 public:
  // The time of verification, acceptance and commit alone, in `time_ns`; no ranges. Launch `graph`:
  // recorded steps without a draft that verify one full tree again and again; `stream`: those
  // phases of steps that the host leads, by its clock. Refused where run() is.
  virtual PointMeasurement run_verification(const PointKey& key) = 0;
};

// As make_attention_runner. `pair`: for points of a trained pair; outlives the runner.
template <class T>
std::unique_ptr<StepPointRunner> make_step_runner(const SweepPlan& plan, Instrument& instrument,
                                                  bool on_gpu, int threads,
                                                  const PairSource* pair = nullptr);

extern template std::unique_ptr<StepPointRunner> make_step_runner<float>(const SweepPlan&,
                                                                         Instrument&, bool, int,
                                                                         const PairSource*);
extern template std::unique_ptr<StepPointRunner> make_step_runner<Bf16>(const SweepPlan&,
                                                                        Instrument&, bool, int,
                                                                        const PairSource*);

}  // namespace versieve::engine
