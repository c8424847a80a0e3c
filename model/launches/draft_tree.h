// A draft tree as the device grows, finishes, accepts and commits it (kernels/draft_tree), and the
// passes that a draft takes to grow one. What trees are: model/words/draft_tree.h.
#pragma once

#include <cstdint>

#include "model/words/strategy.h"
#include "model/words/traffic.h"

namespace versieve {

struct StepShape;  // model/launches/step_shape.h
struct StepWork;   // model/launches/launch_work.h

// Forward passes of the draft in a step and their mean rows, for a tree whose j-th child has
// probability 2^-j: the passes that a confident draft runs. Allocates nothing.
struct DraftPasses {
  double passes = 0.0;
  double rows = 1.0;
};
DraftPasses draft_passes(const DraftChoice& choice);

namespace traffic {

// Ints a node, in and out; the last level's tree and the level's children grow.
Traffic grow_tree(std::int64_t nodes, std::int64_t children);
Traffic finish_tree(std::int64_t nodes);
Traffic accept_tree(std::int64_t nodes);
// Keys and values of a path in all layers.
Traffic commit_path(std::int64_t layers, std::int64_t max_path, std::int64_t width,
                    std::int64_t element_bytes);

}  // namespace traffic

// `times` launches, each of which grows the children of `parents` nodes.
void add_grow_tree(const StepShape& shape, double times, std::int64_t parents, StepWork& out);
void add_finish_tree(const StepShape& shape, StepWork& out);
void add_accept_tree(const StepShape& shape, StepWork& out);
// Accepted rows of all layers into the caches, by bounds.
void add_commit_path(const StepShape& shape, StepWork& out);

}  // namespace versieve
