// The launches of one layer's attention, each as a trace. One file a launch: trace_<root word>.cpp.
#pragma once

#include <memory>
#include <vector>

#include "engine/analyse/sim/attention_case.h"
#include "engine/analyse/sim/memory_trace.h"

namespace versieve::engine {

// Of the vanilla attention kernels: registers of a thread, arithmetic of a chunk of 64 keys, code.
inline constexpr std::int64_t kAttentionRegisters = 128;
inline constexpr double kChunkCycles = 2000.0;
inline constexpr double kChunkIssueCycles = 1350.0;

// The traces copy what they need of `a`.
std::unique_ptr<LaunchTrace> trace_nsa_compressed(const AttentionCase& a);
std::unique_ptr<LaunchTrace> trace_nsa_select(const AttentionCase& a);
std::unique_ptr<LaunchTrace> trace_nsa_selected(const AttentionCase& a);
std::unique_ptr<LaunchTrace> trace_nsa_window(const AttentionCase& a);
std::unique_ptr<LaunchTrace> trace_nsa_combine(const AttentionCase& a);
std::unique_ptr<LaunchTrace> trace_nsa_route(const AttentionCase& a);
std::unique_ptr<LaunchTrace> trace_nsa_attend(const AttentionCase& a);
std::unique_ptr<LaunchTrace> trace_nsa_reuse(const AttentionCase& a);

// In the order in which kernels/nsa_verify enqueues them.
std::vector<std::unique_ptr<LaunchTrace>> attention_traces(const AttentionCase& a);

}  // namespace versieve::engine
