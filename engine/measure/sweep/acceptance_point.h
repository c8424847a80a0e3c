// WorkloadKind::kAcceptance: the trained pair on real text. How many tokens a step emits (generated
// greedily, and along the author's own continuation), and what its queries' selected blocks share.
// No times: those come from points with synthetic weights.
#pragma once

#include <filesystem>
#include <memory>

#include "engine/measure/sweep/point_runner.h"
#include "kernels/common/bf16.h"

namespace versieve::engine {

// `demo`: the folder with nsa/ (target, draft/, tokenizer) and prompts/.
template <class T>
std::unique_ptr<PointRunner> make_acceptance_runner(const SweepPlan& plan, Instrument& instrument,
                                                    bool on_gpu, int threads,
                                                    const std::filesystem::path& demo);

extern template std::unique_ptr<PointRunner> make_acceptance_runner<float>(
    const SweepPlan&, Instrument&, bool, int, const std::filesystem::path&);
extern template std::unique_ptr<PointRunner> make_acceptance_runner<Bf16>(
    const SweepPlan&, Instrument&, bool, int, const std::filesystem::path&);

}  // namespace versieve::engine
