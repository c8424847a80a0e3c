// A result of `vllm bench serve` (0.33.0; one JSON object, or one a line): the counters' growth
// over the run, with the number of requests at a time; of a server without speculation its times
// alone. README.md says which fields are read.
#include <algorithm>
#include <cmath>

#include "engine/analyse/import/chain_counts.h"
#include "engine/analyse/import/json_rows.h"

namespace versieve::engine {
namespace {

constexpr const char* kRecord = "result of `vllm bench serve` against a server that speculates";
constexpr double kMost = 1e12;
constexpr std::int64_t kMostCount = 1'000'000'000'000;
constexpr std::int64_t kMaxConcurrency = 1 << 20;

// Rates of a position over all drafts, in the order of positions.
std::vector<std::int64_t> accepted_of(const JsonRow& row, std::int64_t drafts) {
  const char* name = "spec_decode_per_position_acceptance_rates";
  const auto rates = row.object.find(name);
  if (rates == row.object.end() || !rates->is_array() || rates->empty()) {
    row.place.refuse(std::string("lacks the list ") + name +
                     ", without which the length of the drafts is not known");
  }
  std::vector<std::int64_t> accepted;
  for (const nlohmann::json& rate : *rates) {
    if (!rate.is_number()) {
      row.place.refuse(std::string(name) + " holds " + rate.dump() + ", not a number");
    }
    accepted.push_back(std::llround(checked(row.place, name, rate.get<double>(), 0.0, 1.0) *
                                    static_cast<double>(drafts)));
  }
  return accepted;
}

ChainCounts counts_of(const JsonRow& row) {
  ChainCounts counts;
  counts.drafts = count_field(row, "spec_decode_num_drafts", kRecord, 1, kMostCount);
  counts.draft_tokens = count_field(row, "spec_decode_draft_tokens", kRecord, 0, kMostCount);
  counts.accepted_tokens = count_field(row, "spec_decode_accepted_tokens", kRecord, 0, kMostCount);
  counts.accepted = accepted_of(row, counts.drafts);
  return counts;
}

// Half of the answer lies before a step in the mean.
std::optional<double> context_shown(const JsonRow& row) {
  if (!has_number(row.object, "completed") || !has_number(row.object, "total_input_tokens")) {
    return {};
  }
  const double requests = number_field(row, "completed", kRecord, 1.0, kMost);
  const double answer = has_number(row.object, "total_output_tokens")
                            ? number_field(row, "total_output_tokens", kRecord, 0.0, kMost)
                            : 0.0;
  return (number_field(row, "total_input_tokens", kRecord, 0.0, kMost) + 0.5 * answer) / requests;
}

// What the run gave a second is what it counted over how long it took.
void check_rates(const JsonRow& row) {
  constexpr double kSlack = 0.02;
  constexpr const char* kRates[][2] = {{"request_throughput", "completed"},
                                       {"output_throughput", "total_output_tokens"}};
  if (!has_number(row.object, "duration")) {
    return;
  }
  const double seconds = number_field(row, "duration", kRecord, 0.0, kMost);
  for (const auto& [rate, count] : kRates) {
    if (!has_number(row.object, rate) || !has_number(row.object, count)) {
      continue;
    }
    const double counted = number_field(row, count, kRecord, 0.0, kMost);
    if (std::abs(number_field(row, rate, kRecord, 0.0, kMost) * seconds - counted) >
        kSlack * counted + kSlack) {
      row.place.refuse(std::string(rate) + " is " + row.object[rate].dump() + ", but " + count +
                       " of " + row.object[count].dump() + " in a duration of " +
                       row.object["duration"].dump() + " s are another");
    }
  }
}

// In the mean, by Little's law: how long all requests took together, over how long the run did.
std::optional<double> mean_requests(const JsonRow& row) {
  for (const char* name :
       {"duration", "completed", "total_output_tokens", "mean_ttft_ms", "mean_tpot_ms"}) {
    if (!has_number(row.object, name)) {
      return {};
    }
  }
  const double seconds = number_field(row, "duration", kRecord, 0.0, kMost);
  const double requests = number_field(row, "completed", kRecord, 0.0, kMost);
  const double tokens = number_field(row, "total_output_tokens", kRecord, 0.0, kMost);
  if (seconds <= 0.0 || requests < 1.0) {
    return {};
  }
  const double all_ms = requests * number_field(row, "mean_ttft_ms", kRecord, 0.0, kMost) +
                        std::max(0.0, tokens - requests) *
                            number_field(row, "mean_tpot_ms", kRecord, 0.0, kMost);
  return 1e-3 * all_ms / seconds;
}

// Requests that ran at a time; none where nothing says it.
std::optional<std::int64_t> concurrency_of(const JsonRow& row) {
  BenchmarkLoad load{
      .at_rate = sends_at_rate(row.object) || row.object.contains("ramp_up_strategy"),
      .mean = mean_requests(row)};
  if (has_number(row.object, "max_concurrency")) {
    load.limit = count_field(row, "max_concurrency", kRecord, 1, kMaxConcurrency);
  }
  return load.requests();
}

// The chain's own points, or none of a server without speculation.
ImportedPoints read_row(const JsonRow& row, const ImportText& input, bool requests_known) {
  const std::int64_t context_len = context_of(input, context_shown(row));
  const std::optional<double> token_ms = token_time(row, kRecord);
  check_rates(row);
  if (input.is_plain()) {
    if (has_number(row.object, "spec_decode_num_drafts")) {
      row.place.refuse("counts drafts, so the server speculated: leave --draft ar out");
    }
    ImportedPoints out;
    if (token_ms && requests_known) {
      out.points.push_back(
          step_of_token_time(imported_strategy(input.attention, {}), context_len, *token_ms, 1.0));
    } else {
      out.left_out["runs without token times, or of nobody knows how many requests"] = 1;
    }
    return out;
  }
  const ChainCounts counts = counts_of(row);
  ImportedPoints out = chain_points(counts, input, context_len, row.place.text());
  const std::int64_t levels = static_cast<std::int64_t>(counts.accepted.size());
  if (!is_timed_whole(counts)) {
    out.left_out[kCutTimes] += 1;
  } else if (token_ms && requests_known) {
    const double length =
        1.0 + static_cast<double>(*counts.accepted_tokens) / static_cast<double>(counts.drafts);
    out.points.push_back(step_of_token_time(
        imported_strategy(input.attention, {.depth = levels, .width = 1, .nodes = levels + 1}),
        context_len, *token_ms, length));
  }
  return out;
}

}  // namespace

ImportedPoints read_vllm_bench(const ImportText& input) {
  ImportedPoints out;
  out.details["rows"] = nlohmann::json::array();
  for (const JsonRow& row : json_rows(input.text, input.file)) {
    const std::optional<std::int64_t> requests = concurrency_of(row);
    ImportedPoints read = read_row(row, input, requests.has_value());
    for (PointMeasurement& point : read.points) {
      set_concurrency(point, requests.value_or(0), requests.value_or(0));
    }
    read.rows_taken = 1;
    out.details["rows"].push_back(
        {{"concurrency", requests ? nlohmann::json(*requests) : nlohmann::json()}});
    add_points(out, std::move(read));
  }
  if (!input.is_plain()) {
    out.remarks.push_back(
        "spec_decode_acceptance_length counts the bonus token, and so do the points");
  }
  out.remarks.push_back(kTokenTimes);
  return out;
}

}  // namespace versieve::engine
