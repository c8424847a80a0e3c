#include "model/launches/step_shape.h"

#include <algorithm>
#include <string>

#include "model/launches/launch_parts.h"

namespace versieve {

StepShape asked_step(const Strategy& strategy, const LlmShape& target, const DraftShape& draft,
                     std::int64_t context_len, std::int64_t element_bytes) {
  const std::string letters = strategy.schedule_for(target.layers);
  return {.target = target,
          .draft = draft,
          .tree = strategy.draft,
          .context_len = context_len,
          .num_queries = strategy.draft.nodes,
          .refresh_layers = std::count(letters.begin(), letters.end(), 'F'),
          .reuse_layers = std::count(letters.begin(), letters.end(), 'R'),
          .element_bytes = element_bytes,
          .form = strategy.form,
          .group_size = strategy.group_size,
          .group_mode = strategy.group_mode};
}

DenseRead asked_read(const Strategy& strategy) {
  DenseRead read{.method = strategy.attention,
                 .key_block = strategy.resa_key_block,
                 .active_ratio = strategy.resa_active_ratio,
                 .n_min = strategy.resa_n_min,
                 .n_local = strategy.resa_n_local};
  set_indexer(strategy, read);
  return read;
}

void set_indexer(const Strategy& strategy, DenseRead& read) {
  if (strategy.attention == AttentionMethod::kIndexer) {
    read.indexer_k = strategy.indexer_k;
    read.indexer_window = strategy.indexer_window;
    read.indexer_topk = strategy.topk.value_or(TopkAlgorithm::kGvr);
  }
}

double committed_tokens(const StepShape& s) {
  return s.tree.speculates() ? 1.0 + 0.5 * number(s.tree.depth) : 1.0;
}

bool reads_chosen(const StepShape& s) {
  return s.dense.method == AttentionMethod::kSpecAttn ||
         s.dense.method == AttentionMethod::kIndexer;
}

double dense_keys(const StepShape& s) {
  if (s.dense.method == AttentionMethod::kIndexer) {
    return number(std::min(s.dense.indexer_k + s.dense.indexer_window, s.context_len));
  }
  return reads_chosen(s) ? std::min(s.dense.chosen_tokens, number(s.context_len))
                         : number(s.context_len);
}

TrafficTerm dense_term(const StepShape& s) {
  return reads_chosen(s) ? TrafficTerm::kSelectedBlocks : TrafficTerm::kWindow;
}

double token_bytes(const StepShape& s) {
  return number(2 * s.target.num_kv_heads * s.target.head_dim * s.element_bytes);
}

}  // namespace versieve
