// What every reader of a foreign format makes of its text: points of acceptance and of step times.
// The readers fill what the file says of a point; who measured what, where, is the import's.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/analyse/import/text_lines.h"
#include "model/words/measurement.h"
#include "model/words/strategy.h"

namespace versieve::engine {

struct ImportText {
  std::string file;  // as sentences call it
  std::string_view text;
  std::string_view before;  // an earlier scrape of the same counters, to be taken off; or empty
  // Stated by the request, where the source does not say it.
  AttentionMethod attention = AttentionMethod::kDense;
  std::optional<std::int64_t> context_len;
  std::optional<DraftChoice> draft;
  std::optional<std::int64_t> steps;

  // A server without speculation, as `--draft ar` states: its times alone are taken.
  bool is_plain() const { return draft && !draft->speculates(); }
};

struct ImportedPoints {
  std::vector<PointMeasurement> points;
  std::int64_t rows_taken = 0;
  std::map<std::string, std::int64_t> left_out;       // reason -> rows
  std::vector<std::string> remarks;                   // what the numbers mean, a sentence each
  nlohmann::json details = nlohmann::json::object();  // of the file, for the run's configuration
};

// The records of each format; README.md says what each holds. All throw Error(kBadInput) on the
// first wrong line, Error(kUsage) where something must be stated.
ImportedPoints read_step_log(const ImportText& input);             // csv
ImportedPoints read_sglang_bench(const ImportText& input);         // sglang
ImportedPoints read_sglang_serving(const ImportText& input);       //
ImportedPoints read_sglang_log(const ImportText& input);           //
ImportedPoints read_sglang_requests(const ImportText& input);      //
ImportedPoints read_sglang_counters(const ImportText& input);      //
ImportedPoints read_vllm_counters(const ImportText& input);        // vllm
ImportedPoints read_vllm_log(const ImportText& input);             //
ImportedPoints read_vllm_bench(const ImportText& input);           //
ImportedPoints read_vllm_requests(const ImportText& input);        //
ImportedPoints read_aiperf_summary(const ImportText& input);       //
ImportedPoints read_trtllm_iterations(const ImportText& input);    // trtllm
ImportedPoints read_trtllm_responses(const ImportText& input);     //
ImportedPoints read_speculation_profile(const ImportText& input);  // profile
ImportedPoints read_sequoia_vector(const ImportText& input);       // sequoia

// The canonical strategy of a foreign tree: level by level, each row its own group, no reuse.
Strategy imported_strategy(AttentionMethod attention, const DraftChoice& draft);
// The same; refuses the place where no strategy can have that tree.
Strategy strategy_of(const LinePlace& place, AttentionMethod attention, const DraftChoice& draft);
// "d5k1n6".
std::string tree_text(const DraftChoice& draft);
// Refuses the place whose source says that something else was drafted than was stated.
void check_stated(const LinePlace& place, const std::optional<DraftChoice>& stated,
                  const DraftChoice& said);
// The most tokens that one step of this tree can emit, bonus counted.
std::int64_t most_emitted(const DraftChoice& draft);
// Refuses a length (bonus counted) above that, by more than what servers miscount.
void check_length(const LinePlace& place, const std::string& name, const DraftChoice& draft,
                  double length);

PointMeasurement imported_acceptance(const Strategy& strategy, std::int64_t context_len,
                                     AcceptanceMeasurement acceptance);
PointMeasurement imported_step(const Strategy& strategy, std::int64_t context_len,
                               std::vector<double> time_ns);
// Time of a step from that of a token in the mean, which a benchmark of requests gives (median or
// mean): plain decoding's if `length` is 1.
PointMeasurement step_of_token_time(const Strategy& strategy, std::int64_t context_len,
                                    double token_ms, double length);
// Of a length that the source gives as a mean alone.
AcceptanceMeasurement acceptance_of_mean(double accepted_per_step, std::int64_t steps);

// What was stated, else what the source shows (tokens, rounded up to a multiple of 1,024). Throws
// Error(kUsage) where neither is there.
std::int64_t context_of(const ImportText& input, std::optional<double> shown_tokens);
// Requests at a time, from `low` to `high`: a part of the point's regime; 0: nobody said.
void set_concurrency(PointMeasurement& point, std::int64_t low, std::int64_t high);
// Requests at a time are distinguished by doubling ranges: 1, 2, 3 to 4, 5 to 8 ... The end of the
// range of so many, and the fewest of a range.
std::int64_t requests_range_end(std::int64_t requests);
std::int64_t requests_range_low(std::int64_t end);
void add_remark(ImportedPoints& to, std::string remark);  // once
// Takes over points, rows, remarks (each once) and what was left out.
void add_points(ImportedPoints& to, ImportedPoints from);

// Points of the same key become one: counts are added up, means weighed by steps, times joined; a
// lower bound beside a mean that is known is dropped.
void join_same_keys(std::vector<PointMeasurement>& points);

// Steps, tokens and mean of a histogram whose entry [a] counts steps that emitted a tokens.
AcceptanceMeasurement acceptance_of(std::vector<std::int64_t> histogram);

}  // namespace versieve::engine
