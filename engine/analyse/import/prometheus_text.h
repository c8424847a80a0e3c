// One line of Prometheus' text form or of OpenMetrics: name{label="value",...} number [time]
// [# exemplar]. What a comment holds is not read.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "engine/analyse/import/text_lines.h"

namespace versieve::engine {

struct CounterSample {
  std::string name;
  std::map<std::string, std::string> labels;
  std::int64_t count = 0;
};

struct NumberSample {
  std::string name;
  std::map<std::string, std::string> labels;
  double value = 0.0;
};

// The first word; of a comment it is "#".
std::string sample_name(std::string_view line);
// Throws Error(kBadInput) unless the line has that form and its value is a number.
NumberSample number_sample(const LinePlace& place, std::string_view line);
// Throws Error(kBadInput) unless the line has that form and its value is a whole count.
CounterSample counter_sample(const LinePlace& place, std::string_view line);

}  // namespace versieve::engine
