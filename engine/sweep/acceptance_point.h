// WorkloadKind::kAcceptance: a trained pair on held-out text; how many tokens a step emits, and how
// much the queries of a step share of their blocks. Its times are not kept: they say nothing of a
// deployment's model.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "engine/sweep/point_runner.h"
#include "kernels/common/bf16.h"

namespace versieve::engine {

// Whether greedy output fell into a loop: some 64 tokens in a row repeat with a period of at most
// 16. Such output is easy to draft and would flatter the means.
bool is_looping(std::span<const std::int32_t> tokens);

// T = float, or Bf16 on a GPU. `demo_folder` holds the pairs (nsa/) and prompts/index.json.
// Throws Error(kBadInput) when they cannot be read.
template <class T>
std::unique_ptr<PointRunner> make_acceptance_runner(const SweepPlan& plan, Instrument& instrument,
                                                    bool on_gpu, int threads,
                                                    const std::string& demo_folder);

extern template std::unique_ptr<PointRunner> make_acceptance_runner<float>(const SweepPlan&,
                                                                           Instrument&, bool, int,
                                                                           const std::string&);
extern template std::unique_ptr<PointRunner> make_acceptance_runner<Bf16>(const SweepPlan&,
                                                                          Instrument&, bool, int,
                                                                          const std::string&);

}  // namespace versieve::engine
