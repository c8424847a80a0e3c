// Trees grown where the draft runs: all levels are enqueued, and the host waits once, for the trees
// that came out. Each is the tree of tree_growth, tie by tie (kernels/draft_tree).
#include <algorithm>
#include <numeric>

#include "engine/run/batch/tree_batch.h"

namespace versieve::engine {

// A tree at the level that is being expanded.
template <class T>
struct TreeBatch<T>::Level {
  std::size_t tree = 0;        // among those wanted
  std::int64_t rows = 0;       // of its frontier
  std::int64_t first_row = 0;  // among the call's
};

template <class T>
bool TreeBatch<T>::grows_by_levels(std::span<const WantedTree<T>> wanted) const {
  return draft_->takes_levels() &&
         std::all_of(wanted.begin(), wanted.end(), [&](const WantedTree<T>& tree) {
           return tree.chain_logits == nullptr && tree.choice.levels() >= 1 &&
                  kernels::grows_together(tree.choice, branch_of(tree));
         });
}

// Room for states, frontiers and slots, and what of them does not change while trees grow.
template <class T>
void TreeBatch<T>::make_room(std::span<const WantedTree<T>> wanted) {
  std::int64_t rows = 0, slots = 0, most = 1;
  std::size_t levels = 0;
  std::vector<std::int32_t> roots;
  for (const WantedTree<T>& tree : wanted) {
    const std::int64_t own = draft_slots(tree.choice);
    rows += tree.choice.width;
    slots += own;
    most = std::max(most, own);
    levels = std::max(levels, static_cast<std::size_t>(tree.choice.levels()));
    roots.push_back(static_cast<std::int32_t>(tree.position));
  }
  ensure_count(*ops_, states_, static_cast<std::int64_t>(wanted.size()));
  ensure_count(*ops_, node_token_, rows);
  ensure_count(*ops_, node_position_, rows);
  ensure_count(*ops_, node_source_, rows);
  ensure_count(*ops_, slot_parent_, slots);
  ensure_count(*ops_, slot_position_, slots);
  if (slot_number_.count() < most) {
    std::vector<std::int32_t> numbers(static_cast<std::size_t>(2 * most));
    std::iota(numbers.begin(), numbers.end(), 0);
    slot_number_ = {*ops_, numbers};
  }
  level_draws_.assign(levels, {});
  for (std::size_t level = 0; level < levels; ++level) {
    for (const WantedTree<T>& tree : wanted) {
      if (static_cast<std::int64_t>(level) < tree.choice.levels()) {
        const std::int64_t own = level == 0 ? 1 : tree.choice.width;
        level_draws_[level].resize(level_draws_[level].size() + static_cast<std::size_t>(own),
                                   draw_of(tree));
      }
    }
  }
  upload_roots(roots);
}

// And what draws the rows of each level.
template <class T>
void TreeBatch<T>::upload_roots(const std::vector<std::int32_t>& roots) {
  PackedInts packed;
  std::vector<std::int64_t> places;
  for (const std::vector<kernels::RowDraw>& draws : level_draws_) {
    places.push_back(packed.add(draws));
  }
  const std::int64_t root = packed.add(roots);
  const std::int32_t* const uploaded = positions_.upload(*ops_, packed.ints());
  root_position_ = uploaded + root;
  uploaded_draws_.clear();
  for (const std::int64_t place : places) {
    uploaded_draws_.push_back(PackedInts::at<kernels::RowDraw>(uploaded, place));
  }
}

template <class T>
void TreeBatch<T>::list_level(const std::vector<Level>& level, std::int64_t number,
                              std::int64_t width, const std::int32_t* position) {
  const std::int64_t rows = level.back().first_row + level.back().rows;
  ensure_count(*ops_, index_, rows * width);
  ensure_count(*ops_, score_, rows * width);
  const std::size_t at = static_cast<std::size_t>(number);
  list_rows(level_draws_[at], uploaded_draws_[at], position, width);
}

// `outputs`: rows of the draft's outputs before those of this level's nodes. Rows of the next
// frontier are those that the trees which go on have there.
template <class T>
void TreeBatch<T>::grow_level(std::span<const WantedTree<T>> wanted,
                              const std::vector<Level>& level, std::int64_t number,
                              std::int64_t width, std::int64_t outputs) {
  std::vector<kernels::LevelGrowth> calls;
  std::int64_t next = 0;
  for (const Level& own : level) {
    const WantedTree<T>& tree = wanted[own.tree];
    const std::int64_t listed = own.first_row * width;
    calls.push_back({.tree = {.choice = tree.choice,
                              .branch = branch_of(tree),
                              .level = number,
                              .scores_by_rank = tree.scores_by_rank,
                              .index = index_.data() + listed,
                              .log_probability = score_.data() + listed,
                              .target_token = target_token(),
                              .state = states_.data() + own.tree,
                              .node_token = node_token_.data() + next,
                              .slot_parent = slot_parent_.data() + first_slot_[own.tree],
                              .slot_position = slot_position_.data() + first_slot_[own.tree]},
                     .stride = width,
                     .root_position = static_cast<std::int32_t>(tree.position),
                     .first_source = static_cast<std::int32_t>(outputs + own.first_row),
                     .node_position = node_position_.data() + next,
                     .node_source = node_source_.data() + next});
    next += number + 1 < tree.choice.levels() ? tree.choice.width : 0;
  }
  kernels::grow_levels<T>(*ops_, calls);
}

template <class T>
void TreeBatch<T>::run_level(const std::vector<Level>& level, std::int64_t number) {
  std::vector<typename Draft<T>::LevelTree> trees;
  std::int64_t rows = 0;
  for (const Level& own : level) {
    trees.push_back({.sequence = own.tree,
                     .first = (number - 1) * own.rows,
                     .count = own.rows,
                     .slot = slot_number_.data() + (number - 1) * own.rows,
                     .parent = slot_parent_.data() + first_slot_[own.tree],
                     .position = slot_position_.data() + first_slot_[own.tree]});
    rows += own.rows;
  }
  draft_->step_level({.rows = rows,
                      .token = node_token_.data(),
                      .position = node_position_.data(),
                      .feature_row = node_source_.data(),
                      .trees = trees});
}

template <class T>
std::vector<DraftTree> TreeBatch<T>::grow_levels(std::span<const WantedTree<T>> wanted) {
  make_room(wanted);
  first_slot_.clear();
  std::vector<Level> level;
  std::int64_t slots = 0, outputs = 0, levels = 0, rows = 0;
  for (const WantedTree<T>& tree : wanted) {
    first_slot_.push_back(slots);
    slots += draft_slots(tree.choice);
    levels = std::max(levels, tree.choice.levels());
    level.push_back(
        {.tree = level.size(), .rows = 1, .first_row = static_cast<std::int64_t>(level.size())});
  }
  for (std::int64_t number = 0; number < levels; ++number) {
    if (number > 0) {
      std::erase_if(level,
                    [&](const Level& own) { return number >= wanted[own.tree].choice.levels(); });
      outputs += rows;
      rows = 0;
      for (Level& own : level) {
        own.rows = wanted[own.tree].choice.width;
        own.first_row = rows;
        rows += own.rows;
      }
      run_level(level, number);
    }
    rows = level.back().first_row + level.back().rows;
    std::int64_t width = 0;
    for (const Level& own : level) {
      width = std::max(width, branch_of(wanted[own.tree]));
    }
    list_level(level, number, width, number == 0 ? root_position_ : node_position_.data());
    grow_level(wanted, level, number, width, outputs);
  }
  return grown_trees(wanted);
}

// The kept candidates of each pool, in the order asked for. Waits.
template <class T>
std::vector<DraftTree> TreeBatch<T>::grown_trees(std::span<const WantedTree<T>> wanted) const {
  std::vector<kernels::StepState> states(wanted.size());
  ops_->download(states.data(), states_.data(), states.size() * sizeof(kernels::StepState));
  std::vector<DraftTree> out;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const kernels::TreePool& pool = states[i].pool;
    DraftTree tree{
        .parent = {-1}, .depth = {0}, .token = {wanted[i].token}, .log_probability = {0.0F}};
    for (std::int32_t node = 0; node < pool.count; ++node) {
      tree.parent.push_back(pool.parent[node] + 1);
      tree.depth.push_back(pool.depth[node]);
      tree.token.push_back(pool.token[node]);
      tree.log_probability.push_back(pool.log_probability[node]);
    }
    out.push_back(reordered(tree, traversal_order(tree, wanted[i].order)));
  }
  return out;
}

template bool TreeBatch<double>::grows_by_levels(std::span<const WantedTree<double>>) const;
template std::vector<DraftTree> TreeBatch<double>::grow_levels(std::span<const WantedTree<double>>);
template bool TreeBatch<float>::grows_by_levels(std::span<const WantedTree<float>>) const;
template std::vector<DraftTree> TreeBatch<float>::grow_levels(std::span<const WantedTree<float>>);
template bool TreeBatch<Bf16>::grows_by_levels(std::span<const WantedTree<Bf16>>) const;
template std::vector<DraftTree> TreeBatch<Bf16>::grow_levels(std::span<const WantedTree<Bf16>>);

}  // namespace versieve::engine
