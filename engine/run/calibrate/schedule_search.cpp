#include "engine/run/calibrate/schedule_search.h"

#include <algorithm>

#include "model/words/assert.h"

namespace versieve::engine {
namespace {

std::string with_reuse(std::string schedule, std::int64_t layer) {
  schedule[static_cast<std::size_t>(layer)] = 'R';
  return schedule;
}

// The layers that `schedule` may still turn, at most so many of the least newest losses; ascending.
std::vector<std::int64_t> layers_to_try(const std::string& schedule, std::int64_t most_tried,
                                        const std::vector<double>& newest) {
  std::vector<std::int64_t> layers;
  for (std::int64_t layer = 1; layer < static_cast<std::int64_t>(schedule.size()); ++layer) {
    if (schedule[static_cast<std::size_t>(layer)] == 'F') {
      layers.push_back(layer);
    }
  }
  if (most_tried > 0 && static_cast<std::int64_t>(layers.size()) > most_tried) {
    std::stable_sort(layers.begin(), layers.end(), [&](std::int64_t a, std::int64_t b) {
      return newest[static_cast<std::size_t>(a)] < newest[static_cast<std::size_t>(b)];
    });
    layers.resize(static_cast<std::size_t>(most_tried));
    std::sort(layers.begin(), layers.end());
  }
  return layers;
}

// The best single change of `schedule`; none when only layer 0 is left.
std::optional<ScheduleStep> best_change(const std::string& schedule,
                                        const std::vector<std::int64_t>& layers,
                                        const ScheduleLoss& loss, std::vector<double>& newest) {
  std::optional<ScheduleStep> best;
  std::vector<ScheduleCandidate> tried;
  for (const std::int64_t layer : layers) {
    const std::string changed = with_reuse(schedule, layer);
    tried.push_back({layer, loss(changed)});
    newest[static_cast<std::size_t>(layer)] = tried.back().loss;
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

ScheduleSearch search_schedule(std::int64_t layers, double budget, const ScheduleLoss& loss,
                               std::int64_t most_tried) {
  VERSIEVE_ASSERT(layers >= 1 && budget >= 0.0, "there is a layer, and a budget is not negative");
  const std::string all_refresh(static_cast<std::size_t>(layers), 'F');
  ScheduleSearch search;
  search.curve.push_back({.schedule = all_refresh, .loss = loss(all_refresh)});
  std::vector<double> newest(static_cast<std::size_t>(layers));
  std::int64_t most = 0;  // the first step tries all
  while (std::optional<ScheduleStep> next = best_change(
             search.schedule(), layers_to_try(search.schedule(), most, newest), loss, newest)) {
    next->rise = next->loss - search.curve.front().loss;
    if (!(next->rise <= budget)) {
      search.refused = next;
      break;
    }
    search.curve.push_back(*next);
    most = most_tried;
  }
  return search;
}

const ScheduleStep& step_within(const ScheduleSearch& search, double budget) {
  const ScheduleStep* last = &search.curve.front();
  for (const ScheduleStep& step : search.curve) {
    if (!(step.rise <= budget)) {
      break;
    }
    last = &step;
  }
  return *last;
}

}  // namespace versieve::engine
