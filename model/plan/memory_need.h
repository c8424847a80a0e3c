// How many requests a machine's memory holds: weights once, a cache a request.
#pragma once

#include <cstdint>
#include <string>

#include "model/words/hardware.h"
#include "model/words/llm_shape.h"
#include "model/words/strategy.h"

namespace versieve {

// Of the machine's memory, what weights and caches may take; the rest is for a step's rows, for
// kernels and for what else runs there. What serving engines take if nobody says (vLLM's
// gpu_memory_utilization).
inline constexpr double kUsableMemory = 0.9;

// Bytes.
struct MemoryNeed {
  double weights = 0.0;  // of the target
  double draft = 0.0;    // its weights
  double request = 0.0;  // caches of one request, the draft's too
  double usable = 0.0;   // of the machine

  // Requests that fit at once; 0: not even the weights, or one request beside them.
  std::int64_t requests() const;
};

// Requests of `tokens` tokens each, which that strategy runs on `target` (what attends: a dense
// target of ReSA and SpecAttn). `model`: of a draft that is one of its own, else null.
MemoryNeed memory_need(const Strategy& strategy, const LlmShape& target, const DraftShape& draft,
                       const LlmShape* model, std::int64_t tokens, std::int64_t element_bytes,
                       const HardwareSpec& hardware);
// "64 requests of 16384 tokens do not fit into h100-sxm: ..., so that 51 do".
std::string not_fitting_text(const MemoryNeed& need, std::int64_t requests, std::int64_t tokens,
                             const std::string& machine);
// "2.5 GB of weights, 0.6 of the draft, 0.41 a request of 16384 tokens: 170 fit into 76.6".
std::string text_of(const MemoryNeed& need, std::int64_t tokens);

}  // namespace versieve
