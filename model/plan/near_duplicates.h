// When two tuples of a cell are one choice: each of a cell's ranks is to say something that the
// ranks above it do not.
#pragma once

#include <cstddef>
#include <vector>

#include "model/words/strategy.h"

namespace versieve {

// A tuple as the rule looks at it.
struct RankedTuple {
  const Strategy* strategy = nullptr;
  double log_throughput = 0.0;
  double half_width = 0.0;  // of its interval, in log
};

// Same attention, group mode, schedule and sampling; depth, width and nodes each at most a step of
// the grid apart (tuple_grid.h); throughputs within the wider of the two intervals' half widths,
// and `slack` clear of it. Group size and order of nodes may differ.
bool are_near_duplicates(const RankedTuple& a, const RankedTuple& b, double slack = 0.0);

// Of tuples best first, the places of the best `count` that are near duplicates of none before them
// among these.
std::vector<std::size_t> distinct_places(const std::vector<RankedTuple>& best_first,
                                         std::size_t count);

}  // namespace versieve
