#include "engine/run/batch/tree_batch.h"

#include <algorithm>
#include <cmath>

namespace versieve::engine {

std::int64_t draft_slots(const DraftChoice& choice) {
  return std::max<std::int64_t>(1, choice.width * (choice.levels() - 1));
}

// The best `width` tokens of each node's row: the likeliest in one call for all rows, or request by
// request draws that share the target's noise. A list's beginning does not depend on its length.
template <class T>
void TreeBatch<T>::list_children(const std::vector<Growing*>& level, std::int64_t width) {
  std::int64_t rows = 0, most = 0;
  std::vector<std::int32_t> position;
  for (const Growing* tree : level) {
    const std::int64_t count = static_cast<std::int64_t>(tree->nodes.size());
    rows += count;
    most = std::max(most, count);
    for (const std::int32_t node : tree->nodes) {
      const std::int32_t depth = tree->growth.candidates().depth[static_cast<std::size_t>(node)];
      position.push_back(static_cast<std::int32_t>(tree->wanted->position + depth));
    }
  }
  const std::int64_t vocab = draft_->shape().vocab;
  ensure_count(*ops_, index_, rows * width);
  ensure_count(*ops_, score_, rows * width);
  ops_->top_logits({.rows = rows,
                    .vocab = vocab,
                    .k = width,
                    .logits = draft_->logits(),
                    .index = index_.data(),
                    .log_probability = score_.data()});
  if (std::all_of(level.begin(), level.end(),
                  [](const Growing* tree) { return tree->wanted->temperature == 0.0; })) {
    return;
  }
  ensure_count(*ops_, perturbed_, most * vocab);
  if (draft_->has_own_vocabulary() && target_token_.count() == 0) {
    target_token_ = {*ops_, draft_->target_tokens()};
  }
  const std::int32_t* const positions = positions_.upload(*ops_, position);
  std::int64_t row = 0;
  for (const Growing* tree : level) {
    const std::int64_t count = static_cast<std::int64_t>(tree->nodes.size());
    if (tree->wanted->temperature > 0.0) {
      ops_->gumbel_top({.rows = count,
                        .vocab = vocab,
                        .k = width,
                        .temperature = tree->wanted->temperature,
                        .seed = tree->wanted->seed,
                        .logits = draft_->logits() + row * vocab,
                        .position = positions + row,
                        .token = target_token_.data(),
                        .perturbed = perturbed_.data(),
                        .index = index_.data() + row * width,
                        .log_probability = score_.data() + row * width});
    }
    row += count;
  }
}

template <class T>
void TreeBatch<T>::expand(const std::vector<Growing*>& level) {
  std::int64_t width = 0, rows = 0;
  for (const Growing* tree : level) {
    width = std::max(width, tree->wanted->choice.width);
    rows += static_cast<std::int64_t>(tree->nodes.size());
  }
  width = std::min(width, draft_->shape().vocab);
  list_children(level, width);
  std::vector<std::int32_t> index(static_cast<std::size_t>(rows * width));
  std::vector<float> score(index.size());
  ops_->download(index.data(), index_.data(), index.size() * sizeof(std::int32_t));
  ops_->download(score.data(), score_.data(), score.size() * sizeof(float));
  std::size_t row = 0;
  for (Growing* tree : level) {
    const std::int64_t own = std::min(tree->wanted->choice.width, width);
    for (const std::int32_t node : tree->nodes) {
      for (std::int64_t j = 0; j < own; ++j) {
        const std::size_t at = row * static_cast<std::size_t>(width) + static_cast<std::size_t>(j);
        const float by_rank = -static_cast<float>(j + 1) * std::log(2.0F);
        tree->growth.add_child(node, draft_->target_token(index[at]),
                               tree->wanted->scores_by_rank ? by_rank : score[at]);
      }
      ++row;
    }
  }
}

template <class T>
void TreeBatch<T>::run_nodes(const typename Draft<T>::SharedEntries& entries,
                             const std::vector<Growing*>& level) {
  std::vector<typename Draft<T>::BatchNodes> run;
  for (Growing* tree : level) {
    const DraftTree& all = tree->growth.candidates();
    tree->slots.resize(static_cast<std::size_t>(all.size()), -1);
    typename Draft<T>::BatchNodes nodes{.sequence = tree->sequence, .nodes = {}};
    for (const std::int32_t node : tree->nodes) {
      const std::size_t at = static_cast<std::size_t>(node);
      nodes.nodes.token.push_back(all.token[at]);
      nodes.nodes.position.push_back(
          static_cast<std::int32_t>(tree->wanted->position + all.depth[at]));
      nodes.nodes.parent.push_back(tree->slots[static_cast<std::size_t>(all.parent[at])]);
    }
    for (const std::int32_t node : tree->nodes) {
      tree->slots[static_cast<std::size_t>(node)] = tree->next_slot++;
    }
    run.push_back(std::move(nodes));
  }
  draft_->step_batch(entries, run);
}

template <class T>
std::vector<DraftTree> TreeBatch<T>::grow(const typename Draft<T>::SharedEntries& entries,
                                          std::span<const WantedTree> wanted) {
  std::vector<Growing> trees;
  for (const WantedTree& tree : wanted) {
    trees.push_back({.wanted = &tree,
                     .growth = TreeGrowth(tree.choice, tree.token),
                     .nodes = {0},
                     .slots = {-1},
                     .sequence = trees.size()});
  }
  std::vector<Growing*> level;
  for (Growing& tree : trees) {
    level.push_back(&tree);
  }
  while (!level.empty()) {
    expand(level);
    std::vector<Growing*> next;
    for (Growing* tree : level) {
      tree->nodes = tree->growth.frontier();
      if (!tree->nodes.empty()) {
        next.push_back(tree);
      }
    }
    level = std::move(next);
    if (!level.empty()) {
      run_nodes(entries, level);
    }
  }
  std::vector<DraftTree> out;
  for (const Growing& tree : trees) {
    const DraftTree grown = tree.growth.finish();
    out.push_back(reordered(grown, traversal_order(grown, tree.wanted->order)));
  }
  return out;
}

template class TreeBatch<double>;
template class TreeBatch<float>;
template class TreeBatch<Bf16>;

}  // namespace versieve::engine
