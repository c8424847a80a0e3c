// What the selections of verification steps share, summed over the steps of a run: by layer, by
// distance in either order and in positions, by group.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "model/words/block_sharing.h"
#include "model/words/draft_tree.h"

namespace versieve::engine {

// Whose rows are the tree's, in which order it was flattened, and what may be said of the other.
struct SharingStep {
  const DraftTree* tree = nullptr;
  // [layer]: [N, G, n] in the tree's order, ascending, then -1.
  const std::vector<std::vector<std::int32_t>>* selected = nullptr;
  std::int64_t num_kv_heads = 1;
  std::int64_t sel_count = 1;  // n
  Traversal order = Traversal::kBfs;
  // Each query chose for itself. Else rows share one list, by groups of that order: other orders
  // and distances would tell of the groups, not of the queries.
  bool own_choices = true;
};

class SharingSum {
 public:
  // Steps of one query tell nothing.
  void add(const SharingStep& step);
  // By distance kind, then layer. A tree flattened breadth first tells of depth-first order too:
  // its nodes are those, children in their own order. The other way round, the order of nodes
  // within a level is lost.
  std::vector<BlockSharing> mean() const;

 private:
  struct Mean {
    double sum = 0.0;
    double count = 0.0;

    void add(double value);
    std::optional<double> value() const;
  };
  struct Sums {
    std::int64_t steps = 0;
    std::array<Mean, kSharingDistances> overlap;
    std::array<Mean, kSharingGroups.size()> group_blocks, loads_saved;
    Mean next_layer;
  };

  std::map<std::pair<SharingAlong, std::int64_t>, Sums> sums_;
};

}  // namespace versieve::engine
