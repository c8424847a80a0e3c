// How many pages of keys and values a batch may take: counted before anything is taken.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "engine/run/batch/batch_session.h"

namespace versieve::engine {

struct MemoryPlan {
  std::int64_t page_bytes = 0;      // a draft model's rows counted
  std::int64_t own_page_bytes = 0;  // of the target's alone, which requests share
  std::int64_t sequence_bytes = 0;  // of each request that runs, beside its pages
  std::int64_t idle_bytes = 0;      // of pages that idle requests read; 0: there are none
  std::int64_t step_bytes = 0;      // of a step's rows, at most, and of long pieces of prompts
  std::int64_t pages = 0;           // that the session takes
  std::int64_t concurrency = 1;     // requests that may run at once: all that were asked for, if
                                    // there is memory for one beside what each takes
};

// `given`: bytes for keys and values; none: nine tenths of what is free, less a step's rows.
// `draft`, `draft_model`: or null. Throws Error(kAnswerNo), naming the request, where one alone
// needs more.
template <class T>
MemoryPlan plan_memory(kernels::Ops<T>& ops, bool on_gpu, const LlmShape& shape,
                       const DraftShape* draft, const LlmShape* draft_model,
                       std::span<const BatchRequest> requests, const SessionOptions& options,
                       std::optional<std::int64_t> given);

}  // namespace versieve::engine
