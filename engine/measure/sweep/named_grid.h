// Grids whose points are named by whole texts instead of a product of parts: steps by "strategy",
// decode, topk and sampling always (README.md of this folder).
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "engine/measure/sweep/sweep.h"

namespace versieve::engine {

bool names_points(const nlohmann::json& grid);
// Adds the grid's points in order. Throws Error(kBadInput) naming the key that is wrong, and as
// Strategy::parse and kernel_case.h do.
void expand_named(const nlohmann::json& grid, const std::string& where, Backend backend,
                  SweepPlan& plan);

}  // namespace versieve::engine
