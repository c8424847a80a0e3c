// What a step launches beside its target: the draft head, level by level as a step that the host
// leads enqueues it or all levels in one launch, and the tree's own launches.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/analyse/sim/address_space.h"
#include "engine/analyse/sim/simulated_run.h"
#include "model/words/llm_shape.h"
#include "model/words/strategy.h"

namespace versieve::engine {

struct DraftCase {
  DraftShape shape;
  DraftChoice choice;
  std::int64_t context_len = 0;
  std::int64_t element_bytes = 2;
  bool one_launch = false;      // of all levels (model/launches/draft_levels.h)
  std::uint64_t captured = 0;   // [N, 3 hidden]: the target's streams of the step before
  std::uint64_t embedding = 0;  // [V, hidden]: the target's
};

// The nodes that the draft runs behind the newest token, level by level: what a draft sure of its
// order expands. Slots of a level follow those of the one before; depths count from 0.
struct DraftLevels {
  std::vector<std::int32_t> parent, depth;  // of a slot; parent -1: the newest token
  std::vector<std::int64_t> rows;           // slots of each level
};
DraftLevels draft_levels_of(const DraftChoice& choice, std::int64_t vocab);

// From the newest token's entry to the last level's children.
void append_draft(const DraftCase& draft, AddressSpace& space, LaunchSequence& out);

// The kept tree in the verifier's order; the accepted path.
void append_finish_tree(std::int64_t nodes, AddressSpace& space, LaunchSequence& out);
void append_accept_tree(std::int64_t nodes, AddressSpace& space, LaunchSequence& out);

}  // namespace versieve::engine
