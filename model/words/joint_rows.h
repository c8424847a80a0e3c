// Rows of a target's joint projection: queries, keys, values, for NSA three gates a query head, and
// rows of zeros up to a multiple of 8. Whole words of 16 bytes then hold a row's elements, which
// 27 gates (SmolLM2's 9 heads) would leave out of step. No sum depends on them.
#pragma once

#include <cstdint>

#include "model/words/llm_shape.h"

namespace versieve {

inline std::int64_t joint_gates(const LlmShape& shape) {
  return shape.attention == AttentionKind::kNsa ? 3 * shape.num_heads : 0;
}
inline std::int64_t joint_rows(const LlmShape& shape) {
  return (shape.q_width() + 2 * shape.kv_width() + joint_gates(shape) + 7) / 8 * 8;
}

}  // namespace versieve
