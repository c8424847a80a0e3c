// The launches of a decode point: attention over a dense cache, ReSA's or SpecAttn's.
#pragma once

#include "engine/analyse/sim/dense_case.h"
#include "engine/analyse/sim/measured_choice.h"
#include "engine/analyse/sim/simulated_run.h"
#include "engine/measure/sweep/pair_source.h"
#include "model/words/measurement.h"
#include "model/words/strategy.h"

namespace versieve::engine {

// Why a strategy has no rectification.
inline constexpr const char* kNoPass = "a strategy that never rectifies has no pass";

// What a layer of that strategy attends over, buffers not placed: ReSA's blocks are drawn,
// SpecAttn's tokens are those that the sweep of that seed chooses.
// `choice`: measured, in the place of that law where it knows the strategy; or null.
DenseCase attended_case(const LlmShape& shape, const Strategy& strategy, std::int64_t context_len,
                        std::int64_t element_bytes, std::uint64_t seed,
                        const MeasuredChoice* choice = nullptr);
// Tokens that SpecAttn chooses of that context, ascending: the engine's own choice on the CPU.
std::vector<std::int32_t> chosen_by_draft(const Strategy& strategy, std::int64_t context_len,
                                          std::uint64_t seed);
// A chain of tokens whose rows are written anew over that context: rectification.
DenseCase rewritten_case(const LlmShape& shape, std::int64_t tokens, std::int64_t context_len,
                         std::int64_t element_bytes);
// One layer's attention; `a` has its buffers.
void append_attention(const DenseCase& a, LaunchSequence& out);

// A set of buffers of its own for each copy of the cache that a sweep rotates through, at most
// `most`: so many that `cold_bytes` pass between two uses of one.
std::vector<LaunchSequence> decode_sequences(const PointKey& key, std::uint64_t seed,
                                             double cold_bytes, std::int64_t most,
                                             const PairSource* pair = nullptr,
                                             const MeasuredChoice* choice = nullptr);

}  // namespace versieve::engine
