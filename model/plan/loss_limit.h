// Which tuples a plan's limit of losses leaves out: those whose KL may be larger, by the upper end
// of its interval, and those of which nothing was measured. What loses nothing and both baselines
// stay.
#pragma once

#include <vector>

#include "model/plan/planner.h"

namespace versieve {

struct WithinLoss {
  std::vector<bool> kept;                // [tuple]
  std::vector<ExclusionCount> excluded;  // of the plan's classes
};
// Keeps all where the options set no limit.
WithinLoss within_loss(const std::vector<Strategy>& tuples, const PlanOptions& options);
// Those that are kept.
std::vector<Strategy> kept_of(std::vector<Strategy> tuples, const WithinLoss& within);
// Counts of one reason are one count.
void add_excluded(const std::vector<ExclusionCount>& more, std::vector<ExclusionCount>& excluded);
// The same over the candidates of all buckets. REQUIRES: they are one list.
Candidates candidates_within_loss(Candidates candidates, const PlanOptions& options);
// "At most 0.02 nats a token of KL: …"; empty without a limit.
std::string loss_limit_text(const PlanTable& table);
// Whose losses the entries show: "losses own", "losses not measured"; empty where none may lose.
std::string losses_text(const PlanTable& table);

}  // namespace versieve
