// A serving schedule in a serving engine's own words: of one context bucket, since no engine
// chooses by context, and by requests at a time as far as the engine does.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/analyse/serve/serving_schedule.h"

namespace versieve::engine {

struct ServingWish {
  std::optional<std::int64_t> context;  // tokens; none: the last bucket
  std::string draft_model;              // empty: a name that no engine can load
  std::string tiers_file;               // of SGLang's second file, as the first names it
};

struct ServingFiles {
  std::string settings;           // YAML
  std::string tiers;              // JSON that `settings` names; empty: there is none
  std::vector<std::string> lost;  // what the engine cannot take of the schedule, a sentence each
  bool speculates = false;
};

bool takes_serving_schedule(const std::string& format);  // sglang, vllm, trtllm
// Throws Error(kAnswerNo) for a context in no bucket. REQUIRES: takes_serving_schedule(format).
ServingFiles serving_files(const ServingSchedule& schedule, const std::string& format,
                           const ServingWish& wish);

}  // namespace versieve::engine
