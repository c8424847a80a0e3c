// A schedule in words.
#pragma once

#include <string>

#include "engine/analyse/serve/serving_schedule.h"

namespace versieve::engine {

// A line a cell: what pays, from how many tokens on, and how sure that is.
std::string serving_text(const ServingSchedule& schedule);
// "requests 5-8", "one request".
std::string requests_text(const ServingCell& cell);
std::string draft_text(const DraftChoice& draft);  // "d5k1n6", "no draft"

}  // namespace versieve::engine
