// Which layers may inherit blocks? The greedy, training-free search over F/R schedules in the
// manner of IndexCache (Sparse Speculative Verification, schedules): from all-F, turn into R the
// layer that raises the loss least, until no layer's change keeps the rise within the budget. Knows
// nothing of models or texts.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace versieve::engine {

// Mean loss under a schedule, in nats a token. The same schedule always gives the same loss.
using ScheduleLoss = std::function<double(const std::string& schedule)>;

struct ScheduleCandidate {
  std::int64_t layer = 0;  // turned into R
  double loss = 0.0;       // nats a token
};

// One point of the loss curve.
struct ScheduleStep {
  std::int64_t layer = -1;                    // turned into R by this step; -1: the all-F start
  std::string schedule;                       // one letter a layer
  double loss = 0.0;                          // nats a token
  double rise = 0.0;                          // over all-F
  std::vector<ScheduleCandidate> candidates;  // all that were tried, by layer
};

struct ScheduleSearch {
  std::vector<ScheduleStep> curve;      // first all-F, last the schedule found
  std::optional<ScheduleStep> refused;  // the next best, beyond the budget; none: only F is layer 0

  const std::string& schedule() const { return curve.back().schedule; }
};

// Layer 0 stays F. Among equal losses the lower layer goes first. `most_tried`: layers tried a step
// after the first, those whose newest losses were least; 0: all that are left. REQUIRES: layers >=
// 1, budget >= 0 (nats a token over all-F). Calls `loss` layers (layers - 1) / 2 + 1 times at most.
ScheduleSearch search_schedule(std::int64_t layers, double budget, const ScheduleLoss& loss,
                               std::int64_t most_tried = 0);
// What the search with that budget, no larger than its own, would have found.
const ScheduleStep& step_within(const ScheduleSearch& search, double budget);

}  // namespace versieve::engine
