// draft_levels: a greedy draft tree from the newest tokens' entries to its last level in one
// launch, what a recorded step of an EAGLE-3 draft head enqueues between the commit and
// finish_tree. Same answers, bit for bit, as the launches that it replaces: copy_rows, linear,
// embed, rope_append, tree_attention and grow_tree_from, level by level. Shapes: H query heads, G
// KV heads, d head size, P entries, W the tree's width, V the draft's vocabulary.
#pragma once

#include <cstdint>

#include "kernels/common/element.h"
#include "kernels/draft_tree/params.h"
#include "model/words/llm_shape.h"
#include "model/words/strategy.h"

namespace versieve::kernels {

template <class T>
struct DraftLevelsParams {
  DraftShape shape;
  DraftChoice choice;  // W, nodes, depth
  bool scores_by_rank = false;
  std::int64_t target_vocab = 0;
  const T* embedding = nullptr;    // [target V, hidden]
  const T* input_norm = nullptr;   // [hidden]: normalises an embedding
  const T* hidden_norm = nullptr;  // [hidden]: normalises a feature
  const T* fuse = nullptr;         // [hidden, 3 hidden]
  const T* joint = nullptr;        // [(H + 2 G) d, 2 hidden]
  const T* output = nullptr;       // [hidden, H d]
  const T* post_norm = nullptr;    // [hidden]
  const T* gate_up = nullptr;      // [2 intermediate, hidden]
  const T* down = nullptr;         // [hidden, intermediate]
  const T* norm = nullptr;         // [hidden]
  const T* head = nullptr;         // [V, hidden]
  // [target V, (H + 2 G) d]: made by Ops::draft_token_rows from embedding, input_norm and joint.
  const SumOf<T>* token_rows = nullptr;
  const std::int32_t* target_token = nullptr;  // [V], or null: the same vocabulary
  // Entries, row 0 the newest at position L = state->counts.context_len; padding lies beyond it.
  std::int64_t entries = 0;                      // P
  const T* captured = nullptr;                   // [*, 3 hidden]
  const std::int32_t* entry_token = nullptr;     // [P]
  const std::int32_t* entry_row = nullptr;       // [P]: of `captured`
  const std::int32_t* entry_position = nullptr;  // [P]
  std::int64_t context_len = 0;                  // bound of L, for what is reported
  T* k = nullptr;  // [rows, G, d]: the draft's cache, row = position; gets the entries' rows
  T* v = nullptr;
  StepState* state = nullptr;  // counts are read, the pool is written
};

}  // namespace versieve::kernels
