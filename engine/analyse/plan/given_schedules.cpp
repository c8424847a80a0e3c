#include "engine/analyse/plan/given_schedules.h"

#include <algorithm>

#include "engine/io/schedule_file.h"
#include "model/plan/planner.h"
#include "model/words/error.h"

namespace versieve::engine {
namespace {

bool refreshes_everywhere(const std::string& schedule, const LlmShape& target) {
  return schedule == "F*" ||
         schedule == std::string(static_cast<std::size_t>(target.layers), 'F');
}

}  // namespace

std::vector<std::string> planned_schedules(const std::vector<std::string>& given,
                                           const LlmShape& target) {
  if (given.empty()) {
    return default_schedules();
  }
  std::vector<std::string> schedules = {"F*"};
  for (const std::string& one : given) {
    const bool is_file = one.find_first_not_of("FR()*") != std::string::npos;
    const std::string schedule = is_file ? read_schedule(one) : one;
    if (refreshes_everywhere(schedule, target)) {  // which every plan has
      continue;
    }
    const std::string reason =
        illegal_because(Strategy::parse("nsa/ar/bfs/c1/" + schedule), target);
    if (!reason.empty()) {
      throw Error(ExitCode::kUsage, "the schedule '" + one + "': " + reason);
    }
    if (std::find(schedules.begin(), schedules.end(), schedule) == schedules.end()) {
      schedules.push_back(schedule);
    }
  }
  return schedules;
}

}  // namespace versieve::engine
