// What a quality run is given: judged, read and shortened before a model is loaded. All throw
// Error(kUsage) for what was asked wrongly and Error(kBadInput) for a file that does not hold.
#pragma once

#include <string>
#include <vector>

#include "engine/io/task_file.h"
#include "engine/io/tokenizer/tokenizer.h"
#include "engine/run/quality/lossy_quality.h"

namespace versieve::engine {

void check_quality_request(const LossyQualityRequest& request);
std::vector<Strategy> distinct_strategies(const std::vector<std::string>& texts);
std::vector<TaskSet> read_task_sets(const LossyQualityRequest& request);
// Evenly, as many as are asked for; all for 0.
TaskSet shortened(const TaskSet& set, std::int64_t questions);

struct ReadText {
  std::string group, name;
  TokenIds tokens;
  std::string hashed;  // what stands for it in its set's hash
};
std::vector<ReadText> texts_of(const LossyQualityRequest& request, const Tokenizer& tokenizer);

}  // namespace versieve::engine
