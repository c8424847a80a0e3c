// One bucket and class of a planner table as a replay needs it: the tuples that the guard can
// reach from the best one that can be played, and the two baselines.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "engine/analyse/replay/walks.h"
#include "model/plan/planner.h"

namespace versieve::engine {

// A tuple that a policy may use, with what the table says of its steps.
struct Choice {
  Strategy strategy;
  double step_us = 0.0;
  double expected_accepted = 1.0;
};

struct Cell {
  std::vector<Choice> ranked;      // as many as the guard can reach, best first
  std::vector<Choice> with_plain;  // the same and plain decoding
  std::optional<Choice> base, autoregressive;

  std::vector<Choice> needed() const;  // whose walks must be recorded. REQUIRES: a base
};

// The guard begins behind `passed_over`, the better-ranked tuples that cannot be played, at the
// class's own best one; baselines that rank between stay within its reach.
Cell cell_of(const PlanTable& table, std::int64_t bucket, PrecisionClass precision,
             const std::vector<Strategy>& passed_over = {});
// The tuples that do not play and are ranked before the best one that `plays`, in their order;
// nothing where none does. A baseline among its ranks is that best one only as the first.
std::optional<std::vector<Strategy>> ranked_before_playable(
    const PlanTable& table, std::int64_t bucket, PrecisionClass precision,
    const std::function<bool(const Strategy&)>& plays);
// Why the table alone forbids playing a cell, or an empty text.
std::string unplayable_because(const PlanTable& table, std::int64_t bucket,
                               PrecisionClass precision, const Cell& cell);
// Those of the choices that no request has a walk of.
std::vector<Strategy> unrecorded(const Walks& walks, const std::vector<ReplayRequest>& requests,
                                 const std::vector<Choice>& choices);

}  // namespace versieve::engine
