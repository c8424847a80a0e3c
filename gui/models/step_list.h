// Which points of a snapshot are whole steps that can be looked into.
#pragma once

#include <cstdint>
#include <vector>

namespace versieve::gui {

struct Snapshot;

// Indices into the overview's points: whole steps that were timed, those that were traced first, then
// those of trained pairs, of one model those that were counted. REQUIRES: words and their order are filled in.
std::vector<std::int32_t> timed_steps(const Snapshot& snapshot);

}  // namespace versieve::gui
