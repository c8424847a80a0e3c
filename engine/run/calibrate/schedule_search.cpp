#include "engine/run/calibrate/schedule_search.h"

#include "model/words/assert.h"

namespace versieve::engine {
namespace {

std::string with_reuse(std::string schedule, std::int64_t layer) {
  schedule[static_cast<std::size_t>(layer)] = 'R';
  return schedule;
}

// The best single change of `schedule`; none when only layer 0 is left.
std::optional<ScheduleStep> best_change(const std::string& schedule, const ScheduleLoss& loss) {
  std::optional<ScheduleStep> best;
  std::vector<ScheduleCandidate> tried;
  for (std::int64_t layer = 1; layer < static_cast<std::int64_t>(schedule.size()); ++layer) {
    if (schedule[static_cast<std::size_t>(layer)] == 'R') {
      continue;
    }
    const std::string changed = with_reuse(schedule, layer);
    tried.push_back({layer, loss(changed)});
    if (!best || tried.back().loss < best->loss) {
      best = ScheduleStep{.layer = layer, .schedule = changed, .loss = tried.back().loss};
    }
  }
  if (best) {
    best->candidates = tried;
  }
  return best;
}

}  // namespace

ScheduleSearch search_schedule(std::int64_t layers, double budget, const ScheduleLoss& loss) {
  VERSIEVE_ASSERT(layers >= 1 && budget >= 0.0, "there is a layer, and a budget is not negative");
  const std::string all_refresh(static_cast<std::size_t>(layers), 'F');
  ScheduleSearch search;
  search.curve.push_back({.schedule = all_refresh, .loss = loss(all_refresh)});
  while (std::optional<ScheduleStep> next = best_change(search.schedule(), loss)) {
    next->rise = next->loss - search.curve.front().loss;
    if (!(next->rise <= budget)) {
      search.refused = next;
      break;
    }
    search.curve.push_back(*next);
  }
  return search;
}

}  // namespace versieve::engine
