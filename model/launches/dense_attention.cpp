#include "model/launches/dense_attention.h"

#include <algorithm>

#include "model/launches/block_keys.h"
#include "model/launches/dense_pass.h"
#include "model/launches/flash_decode.h"
#include "model/launches/index_scores.h"
#include "model/launches/resa_decode.h"
#include "model/launches/specattn.h"

namespace versieve {
namespace {

// The first two layers read everything; the others what a draft of one layer attended to, whose
// weights are kept for each of its steps (engine/run/specattn).
void add_chosen_step(const StepShape& s, double layers, StepWork& out) {
  const double whole = std::min(2.0, layers);
  add_attention_weights(s, out);
  add_top_p(s, 1.0, out);
  StepShape dense = s;
  dense.dense.method = AttentionMethod::kDense;
  add_flash_decode(dense, whole, out);
  add_flash_decode(s, layers - whole, out);
}

}  // namespace

void add_dense_attention(const StepShape& s, double layers, StepWork& out) {
  switch (s.dense.method) {
    case AttentionMethod::kResa:
      add_resa_decode(s, layers, out);
      add_block_keys(s, layers, out);
      return;
    case AttentionMethod::kSpecAttn:
      if (s.dense.whole_step) {
        add_chosen_step(s, layers, out);
        return;
      }
      add_top_p(s, layers, out);
      break;
    case AttentionMethod::kIndexer:
      add_indexer(s, layers, out);
      break;
    case AttentionMethod::kDense:
    case AttentionMethod::kNsa:
      break;
  }
  if (takes_dense_pass(s)) {
    add_dense_pass(s, layers, out);
    return;
  }
  add_flash_decode(s, layers, out);
}

}  // namespace versieve
