// What every reader of a foreign format makes of its text: points of acceptance and of step times.
// The readers fill what the file says of a point; who measured what, where, is the import's.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "model/words/measurement.h"
#include "model/words/strategy.h"

namespace versieve::engine {

struct ImportText {
  std::string file;  // as sentences call it
  std::string_view text;
  AttentionMethod attention = AttentionMethod::kDense;  // where the format does not say it
  std::int64_t context_len = 0;                         // the same
};

struct ImportedPoints {
  std::vector<PointMeasurement> points;
  std::int64_t rows_taken = 0;
  std::map<std::string, std::int64_t> left_out;       // reason -> rows
  std::vector<std::string> remarks;                   // what the numbers mean, a sentence each
  nlohmann::json details = nlohmann::json::object();  // of the file, for the run's configuration
};

// The formats; README.md says what each holds. All throw Error(kBadInput) on the first wrong line.
ImportedPoints read_step_log(const ImportText& input);       // csv
ImportedPoints read_sglang_bench(const ImportText& input);   // sglang
ImportedPoints read_vllm_counters(const ImportText& input);  // vllm

// The canonical strategy of a foreign tree: level by level, each row its own group, no reuse.
Strategy imported_strategy(AttentionMethod attention, const DraftChoice& draft);
// The most tokens that one step of this tree can emit, bonus counted.
std::int64_t most_emitted(const DraftChoice& draft);

PointMeasurement imported_acceptance(const Strategy& strategy, std::int64_t context_len,
                                     AcceptanceMeasurement acceptance);
PointMeasurement imported_step(const Strategy& strategy, std::int64_t context_len,
                               std::vector<double> time_ns);
// Steps, tokens and mean of a histogram whose entry [a] counts steps that emitted a tokens.
AcceptanceMeasurement acceptance_of(std::vector<std::int64_t> histogram);

}  // namespace versieve::engine
