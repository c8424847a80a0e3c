// The values that drafts of a plan's tuples go over; why whole kinds of tuples are not planned,
// said of a tuple by tuple_grid.cpp, of a precision class by planner.cpp.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "model/words/strategy.h"

namespace versieve {

// Ascending.
struct DraftGrid {
  std::span<const std::int64_t> depths, widths, nodes;
};
DraftGrid draft_grid();

// Chains whose length follows what is accepted, of the grid's depths from the rule's first on:
// NSA's, a schedule each.
std::vector<Strategy> adapted_chains(const std::vector<std::string>& schedules);

inline constexpr const char* kOnlyNsa = "only nsa is planned in this version";
inline constexpr const char* kSigmoidUnknown =
    "what sampling=sigmoid accepts was not measured, and what other samplers accept says nothing "
    "about it";

}  // namespace versieve
