// All levels of a draft tree in one launch (kernels/draft_levels): which drafts it takes, and what
// it moves. One rule for the launch, which the engine asks before each step, and for the prices.
#pragma once

#include <cstdint>

#include "model/launches/linear.h"
#include "model/words/llm_shape.h"
#include "model/words/strategy.h"
#include "model/words/traffic.h"

namespace versieve {

struct StepShape;  // model/launches/step_shape.h
struct StepWork;   // model/launches/launch_work.h

inline constexpr std::int64_t kDraftRows = 8;      // nodes of a level: a product's columns
inline constexpr std::int64_t kDraftEntries = 16;  // newest tokens that a step begins with
inline constexpr std::int64_t kDraftHeadDim = 64;
inline constexpr std::int64_t kDraftGroupHeads = 4;  // query heads of a KV head
inline constexpr std::int64_t kDraftMostWindow = 512;
inline constexpr std::int64_t kDraftMostHidden = 1024;
inline constexpr std::int64_t kDraftMostVocab = 1024;  // the target's too
inline constexpr std::int64_t kDraftSliceK = 512;      // that a warpgroup receives of a row
inline constexpr std::int64_t kDraftWarpgroups = 4;    // of a CTA: slices of K, gate and up
inline constexpr std::int64_t kDraftCtaBytes = 224 * 1024;

// CTAs by what they do, for all levels; each keeps its weights, or its window, in shared memory.
struct DraftCtas {
  std::int64_t fuse = 0, feature = 0, attention = 0, output = 0, gate_up = 0, down = 0, head = 0;

  std::int64_t total() const {  // and one that grows the tree
    return fuse + feature + attention + output + gate_up + down + head + 1;
  }
};
DraftCtas draft_ctas(const DraftShape& draft, const DraftChoice& choice);

// Shared memory of a CTA that multiplies `groups` times 64 rows of k inputs with `rows` rows.
constexpr std::int64_t draft_product_bytes(std::int64_t k, std::int64_t groups, std::int64_t rows) {
  constexpr std::int64_t kPartialRow = (kLinearGroupRows + 4) * 4;
  return (groups * kLinearGroupRows + rows) * k * 2 + kDraftWarpgroups * rows * kPartialRow;
}
// Of one that attends: the window, `slots` of its path and of the tree, joint rows as they come,
// states.
constexpr std::int64_t draft_attention_bytes(std::int64_t window, std::int64_t slots) {
  return (window + slots) * kDraftHeadDim * 2 * 2 + kDraftEntries * 3 * kDraftHeadDim * 4 +
         16 * 1024;
}

// Whether the levels of a draft run in one launch, of a greedy tree of that choice (bf16), for a
// target of that vocabulary. `sms`: of the chip, a CTA each.
bool drafts_in_one_launch(const DraftShape& draft, std::int64_t target_vocab,
                          const DraftChoice& choice, std::int64_t sms = kLinearBlocksWanted);

// Whether any tree of that draft does: of a pair so small that launches, not bytes, are its steps.
bool is_small_pair(const DraftShape& draft, std::int64_t target_vocab);

namespace traffic {

// Weights and window once, whatever the number of levels; the tokens' rows of the table, captured
// streams, and the entries' keys and values. What one link hands the next stays in L2.
Traffic draft_levels(const DraftShape& draft, const DraftChoice& choice, std::int64_t context_len,
                     std::int64_t element_bytes);

}  // namespace traffic

void add_draft_levels(const StepShape& shape, StepWork& out);

}  // namespace versieve
