#include "engine/io/schedule_file.h"

#include <algorithm>

#include "engine/io/config_fields.h"
#include "engine/io/strict_json.h"

namespace versieve::engine {

std::string read_schedule(const std::filesystem::path& path) {
  const nlohmann::json document = read_json_object(path);
  const ConfigFields file(document, path.string());
  if (!file.has("format") || file.text("format") != kScheduleFormat ||
      file.integer("schema", 1) != kScheduleSchema) {
    file.refuse("this is no schedule of schema " + std::to_string(kScheduleSchema) +
                ", as versieve calibrate writes it");
  }
  const std::string schedule = file.text("schedule");
  if (schedule.empty() ||
      std::any_of(schedule.begin(), schedule.end(), [](char c) { return c != 'F' && c != 'R'; })) {
    file.refuse("schedule must be a letter a layer, F or R");
  }
  return schedule;
}

}  // namespace versieve::engine
