// What the door does not hand to CUDA: exit 1 with the reason, before a GPU is looked for. Shapes
// whose refusal takes more to state (nsa_verify's selection blocks) are refused by their launch.
#pragma once

#include <cstdint>
#include <string>

#include "engine/measure/door/door.h"
#include "model/words/error.h"

namespace versieve::engine {

inline constexpr std::int64_t kCudaMaxHeadDim = 128;
inline constexpr std::int64_t kCudaHeadDimStep = 16;
inline constexpr std::int64_t kCudaMaxGroup = 16;
inline constexpr std::int64_t kCudaMaxKvHeads = 65535;  // second dimension of a grid
inline constexpr std::int64_t kCudaMaxIndex = INT32_MAX;
inline constexpr std::int64_t kCudaMaxVocab = std::int64_t{1} << 30;
inline constexpr std::int64_t kCudaMaxGamma = 1 << 20;
inline constexpr std::int64_t kCudaMaxNodes = 4096;   // of a tree_sample
inline constexpr std::int64_t kCudaMaxBatch = 65535;  // third dimension of a grid
inline constexpr std::int64_t kCudaMaxRows = 1 << 27;

// `limit`: what CUDA takes, as the rest of "CUDA takes ...".
inline void require_on_cuda(const DoorRequest& request, bool takes, const std::string& limit) {
  if (request.backend == DoorBackend::kCuda && !takes) {
    throw Error(ExitCode::kAnswerNo, "CUDA takes " + limit + "; the CPU takes every shape");
  }
}

inline void require_heads_on_cuda(const DoorRequest& request, std::int64_t heads,
                                  std::int64_t kv_heads, std::int64_t head_dim) {
  require_on_cuda(request,
                  head_dim % kCudaHeadDimStep == 0 && head_dim <= kCudaMaxHeadDim &&
                      heads / kv_heads <= kCudaMaxGroup && kv_heads <= kCudaMaxKvHeads,
                  "a head size that is a multiple of 16 up to 128, at most 16 query heads a KV "
                  "head and at most 65,535 KV heads, not d = " +
                      std::to_string(head_dim) + ", H/G = " + std::to_string(heads / kv_heads) +
                      " and G = " + std::to_string(kv_heads));
}

}  // namespace versieve::engine
