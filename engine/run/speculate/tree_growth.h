// How a draft tree grows: level by level the best `width` nodes are expanded into `width` children
// each, down to `depth`; then the best `nodes` - 1 of all candidates by cumulative log-probability
// are kept with the root. A child never scores above its parent, so what is kept is connected.
// Ties: the lower level, then the earlier candidate. Pure host code: who computes children is the
// caller's matter.
#pragma once

#include <cstdint>
#include <vector>

#include "model/words/draft_tree.h"
#include "model/words/strategy.h"

namespace versieve::engine {

class TreeGrowth {
 public:
  TreeGrowth(const DraftChoice& choice, std::int32_t root_token);

  // Candidates are numbered in the order they were added; 0 is the root.
  const DraftTree& candidates() const { return candidates_; }
  // Adds a child with the log-probability of its token given its parent. Children are added level
  // after level, best first.
  void add_child(std::int32_t parent, std::int32_t token, float log_probability);
  // The candidates of the newest level to expand, best first; empty when growth is over. Nodes
  // whose children could not be kept are left out: the tree is the same without them.
  std::vector<std::int32_t> frontier() const;
  // The kept tree in order of level.
  DraftTree finish() const;

 private:
  bool ranks_before(std::int32_t a, std::int32_t b) const;
  // The score that a deeper candidate must exceed to be kept.
  float threshold() const;

  DraftChoice choice_;
  DraftTree candidates_;
};

// The tree that a draft sure of its order grows, from a vocabulary of that size: child j of a node
// has token j and probability 2^-(j + 1).
DraftTree ranked_tree(const DraftChoice& choice, std::int64_t vocab, std::int32_t root_token);

}  // namespace versieve::engine
