#include "engine/run/batch/tree_batch.h"

#include <algorithm>
#include <cmath>

#include "engine/run/model/uniform.h"

namespace versieve::engine {

std::int64_t draft_slots(const DraftChoice& choice) {
  return std::max<std::int64_t>(1, choice.width * (choice.levels() - 1));
}

// Null: the draft's vocabulary is the target's.
template <class T>
const std::int32_t* TreeBatch<T>::target_token() {
  if (!own_tokens_.empty() && target_token_.count() == 0) {
    target_token_ = {*ops_, own_tokens_};
  }
  return target_token_.data();
}

template <class T>
kernels::RowDraw TreeBatch<T>::draw_of(const WantedTree<T>& tree) {
  return {.seed = tree.seed, .temperature = tree.is_coupled() ? tree.temperature : 0.0};
}

// The best `width` tokens of each node's row: the likeliest, or draws that share the target's
// noise. A list's beginning does not depend on its length.
template <class T>
void TreeBatch<T>::list_children(const std::vector<Growing*>& level, std::int64_t rows,
                                 std::int64_t width) {
  std::vector<kernels::RowDraw> draws;
  std::vector<std::int32_t> position;
  for (const Growing* tree : level) {
    for (const std::int32_t node : tree->nodes) {
      const std::int32_t depth = tree->growth.candidates().depth[static_cast<std::size_t>(node)];
      position.push_back(static_cast<std::int32_t>(tree->wanted->position + depth));
    }
    draws.resize(position.size(), draw_of(*tree->wanted));
  }
  ensure_count(*ops_, index_, rows * width);
  ensure_count(*ops_, score_, rows * width);
  PackedInts packed;
  const std::int64_t draw = packed.add(draws);
  const std::int64_t positions = packed.add(position);
  const std::int32_t* const uploaded = positions_.upload(*ops_, packed.ints());
  list_rows(draws, PackedInts::at<kernels::RowDraw>(uploaded, draw), uploaded + positions, width);
}

// Of all rows, by `draws` of each, which lie in `uploaded`, too. A row that is not drawn keeps the
// list of its own elements, whose log-probabilities have other bits in f32.
template <class T>
void TreeBatch<T>::list_rows(std::span<const kernels::RowDraw> draws,
                             const kernels::RowDraw* uploaded, const std::int32_t* position,
                             std::int64_t width) {
  const auto is_drawn = [](const kernels::RowDraw& draw) { return draw.temperature > 0.0; };
  const std::int64_t vocab = draft_->vocab();
  if (!std::all_of(draws.begin(), draws.end(), is_drawn)) {
    ops_->top_logits({.rows = static_cast<std::int64_t>(draws.size()),
                      .vocab = vocab,
                      .k = width,
                      .logits = draft_->logits(),
                      .index = index_.data(),
                      .log_probability = score_.data()});
  }
  for (auto end = draws.begin(); end != draws.end();) {
    const auto begin = std::find_if(end, draws.end(), is_drawn);
    end = std::find_if_not(begin, draws.end(), is_drawn);
    if (begin != end) {
      const std::int64_t first = begin - draws.begin();
      ensure_count(*ops_, perturbed_, (end - begin) * vocab);
      kernels::gumbel_rows<T>(*ops_, {.rows = end - begin,
                                      .vocab = vocab,
                                      .k = width,
                                      .draw = uploaded + first,
                                      .logits = draft_->logits() + first * vocab,
                                      .position = position + first,
                                      .token = target_token(),
                                      .perturbed = perturbed_.data(),
                                      .index = index_.data() + first * width,
                                      .log_probability = score_.data() + first * width});
    }
  }
}

// The newest node's row, each logit in the place of the target's token.
template <class T>
void TreeBatch<T>::keep_law(const Growing& tree) {
  const std::int64_t vocab = draft_->vocab();
  const std::int64_t level = tree.growth.candidates().size() - 1;
  const bool scatters = !own_tokens_.empty();
  ops_->copy_rows({.rows = scatters ? vocab : 1,
                   .width = scatters ? 1 : vocab,
                   .dst_row = target_token(),
                   .src = draft_->logits() + tree.first_row * vocab,
                   .dst = tree.wanted->chain_logits + level * tree.wanted->chain_vocab,
                   .term = TrafficTerm::kDraft});
}

// From softmax(logits / temperature): the sampler of a chain without drafted tokens.
template <class T>
std::vector<std::int32_t> TreeBatch<T>::draw_tokens(const std::vector<Growing*>& level) {
  using Sum = kernels::SumOf<T>;
  const std::int64_t vocab = draft_->vocab();
  std::vector<const Growing*> chains;
  std::vector<Sum> uniforms;
  for (const Growing* tree : level) {
    const WantedTree<T>& wanted = *tree->wanted;
    if (wanted.chain_logits != nullptr) {
      chains.push_back(tree);
      uniforms.push_back(static_cast<Sum>(uniform_at(
          wanted.seed, wanted.position, UniformUse::kDraft, tree->growth.candidates().size() - 1)));
    }
  }
  if (chains.empty()) {
    return {};
  }
  const std::int64_t count = static_cast<std::int64_t>(chains.size());
  ensure_count(*ops_, drawn_, 2 * count);
  ensure_count(*ops_, tau_, 1);
  PackedInts packed;
  const std::int64_t place = packed.add(uniforms);
  const Sum* const uploaded = PackedInts::at<Sum>(uniforms_.upload(*ops_, packed.ints()), place);
  std::vector<kernels::SpecSampleParams<T>> calls;
  for (std::int64_t i = 0; i < count; ++i) {
    const Growing& tree = *chains[static_cast<std::size_t>(i)];
    const T* const logits = draft_->logits() + tree.first_row * vocab;
    std::int32_t* const drawn = drawn_.data() + 2 * i;
    keep_law(tree);
    calls.push_back({.samples = 1,
                     .gamma = 0,
                     .vocab = vocab,
                     .temperature = tree.wanted->temperature,
                     .target_logits = logits,
                     .draft_logits = logits,
                     .draft_tokens = drawn,
                     .uniforms = uploaded + i,
                     .accepted = drawn,
                     .tokens = drawn + 1,
                     .tau = tau_.data(),
                     .truncation = tree.wanted->truncation});
  }
  kernels::spec_sample_together<T>(*ops_, calls);
  std::vector<std::int32_t> drawn(static_cast<std::size_t>(2 * count));
  ops_->download(drawn.data(), drawn_.data(), drawn.size() * sizeof(std::int32_t));
  std::vector<std::int32_t> tokens;
  for (std::size_t i = 1; i < drawn.size(); i += 2) {
    tokens.push_back(drawn[i]);
  }
  return tokens;
}

template <class T>
void TreeBatch<T>::expand(const std::vector<Growing*>& level) {
  std::int64_t width = 0, rows = 0;
  for (Growing* tree : level) {
    width = std::max(width, tree->wanted->choice.width);
    tree->first_row = rows;
    rows += static_cast<std::int64_t>(tree->nodes.size());
  }
  width = std::min(width, draft_->vocab());
  list_children(level, rows, width);
  const std::vector<std::int32_t> drawn = draw_tokens(level);
  std::vector<std::int32_t> index(static_cast<std::size_t>(rows * width));
  std::vector<float> score(index.size());
  ops_->download(index.data(), index_.data(), index.size() * sizeof(std::int32_t));
  ops_->download(score.data(), score_.data(), score.size() * sizeof(float));
  std::size_t row = 0, chain = 0;
  for (Growing* tree : level) {
    if (tree->wanted->chain_logits != nullptr) {
      tree->growth.add_child(tree->nodes[0], draft_->target_token(drawn[chain++]), 0.0F);
      ++row;
      continue;
    }
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
void TreeBatch<T>::run_nodes(const std::vector<Growing*>& level) {
  std::vector<typename BatchDrafter<T>::Nodes> run;
  for (Growing* tree : level) {
    const DraftTree& all = tree->growth.candidates();
    tree->slots.resize(static_cast<std::size_t>(all.size()), -1);
    typename BatchDrafter<T>::Nodes nodes{.sequence = tree->sequence, .nodes = {}};
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
  draft_->step(run);
}

template <class T>
std::vector<DraftTree> TreeBatch<T>::grow(std::span<const WantedTree<T>> wanted) {
  return grows_by_levels(wanted) ? grow_levels(wanted) : grow_by_host(wanted);
}

template <class T>
std::vector<DraftTree> TreeBatch<T>::grow_by_host(std::span<const WantedTree<T>> wanted) {
  std::vector<Growing> trees;
  for (const WantedTree<T>& tree : wanted) {
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
      run_nodes(level);
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
