// All layers of one token in one launch (kernels/decode_layers): which targets it takes, and what
// it moves. One rule for the launch, which the engine asks before each step, and for the prices.
#pragma once

#include <cstdint>

#include "model/launches/linear.h"
#include "model/words/llm_shape.h"
#include "model/words/traffic.h"

namespace versieve {

struct StepShape;  // model/launches/step_shape.h
struct StepWork;   // model/launches/launch_work.h

inline constexpr std::int64_t kDecodeMostHeads = 8;     // query heads of a KV head
inline constexpr std::int64_t kDecodeMostChosen = 64;   // blocks that a token attends
inline constexpr std::int64_t kDecodeMostSpans = 128;   // of compressed tokens
inline constexpr std::int64_t kDecodeBlockTokens = 64;  // of a selection block: a tile of keys
// Of a CTA: the inputs of its slice of a product, or the softmax weights of its selection blocks.
inline constexpr std::int64_t kDecodeWorkBytes = 16 * 1024;
inline constexpr std::int64_t kDecodeRingBytes = 192 * 1024;  // weights that a CTA has ahead
inline constexpr std::int64_t kDecodeSegments = 8;  // CTAs of a KV head that attend tokens

// Whether a target's layers run in one launch at that context (bf16; the first layer refreshes).
// `sms`: of the chip, a CTA each.
bool decodes_in_one_launch(const LlmShape& target, std::int64_t context_len,
                           std::int64_t sms = kLinearBlocksWanted);

namespace traffic {

struct DecodeLayersShape {
  std::int64_t context_len = 0;  // L
  std::int64_t refresh_layers = 0, reuse_layers = 0;
  std::int64_t pooled = 0;    // compressed tokens that the token completes: 0 or 1
  std::int64_t captures = 0;  // streams kept for a draft
  std::int64_t element_bytes = 2;
};

// Sums of the launches that it replaces: linear, rope_append with its compressed tokens, nsa_route
// and nsa_attend or nsa_reuse of one query. What one hands the next stays in L2.
Traffic decode_layers(const LlmShape& target, const DecodeLayersShape& shape);

}  // namespace traffic

void add_decode_layers(const StepShape& shape, double growth, StepWork& out);

}  // namespace versieve
