// A serving schedule as files: JSON (everything; read back by export), CSV (a line a choice), a
// C++17 header of constants (rows of engine/measure/door/guard). Both axes are in each.
#pragma once

#include <string>

#include "engine/analyse/serve/serving_schedule.h"

namespace versieve::engine {

std::string serving_schedule_json(const ServingSchedule& schedule);
// Is it a file of that kind? False for what is no JSON object at all, which its reader then says.
bool is_serving_schedule(const std::string& path);
// Throws Error(kBadInput).
ServingSchedule read_serving_schedule(const std::string& path);

std::string serving_schedule_csv(const ServingSchedule& schedule);
// `name`: of its namespace within versieve_plan; empty: serving_schedule.
std::string serving_schedule_cpp(const ServingSchedule& schedule, const std::string& name);

}  // namespace versieve::engine
