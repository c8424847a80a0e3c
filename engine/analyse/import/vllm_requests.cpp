// Responses of a vLLM server (0.33) started with --per-request-spec-decode-metrics: the object
// metrics.speculative_decoding of each, wherever a program that kept them has put it. AIPerf's
// SpecDecodeAcceptanceRecord (2026), which it fills of vLLM's and of TensorRT-LLM's responses, has
// the same fields.
#include <set>

#include "engine/analyse/import/chain_counts.h"
#include "engine/analyse/import/json_rows.h"
#include "model/words/error.h"

namespace versieve::engine {
namespace {

using nlohmann::json;

constexpr const char* kRecord = "metrics.speculative_decoding of vLLM";
constexpr std::int64_t kMostSteps = 1'000'000'000;
constexpr std::int64_t kMostPositions = 256;

// Steps whose draft had position p, where the length of every step's draft is stated.
std::vector<std::int64_t> reached_of(const JsonRow& row, std::size_t positions,
                                     std::int64_t steps) {
  const auto drafted = row.object.find("per_step_drafted");
  std::vector<std::int64_t> reached;
  if (drafted == row.object.end() || !drafted->is_array() ||
      drafted->size() != static_cast<std::size_t>(steps)) {
    return reached;
  }
  reached.resize(positions);
  for (const json& tokens : *drafted) {
    const std::int64_t length = tokens.is_number_integer() ? tokens.get<std::int64_t>() : -1;
    if (length < 0 || length > static_cast<std::int64_t>(positions)) {
      row.place.refuse("per_step_drafted holds " + tokens.dump() +
                       ", not a number of tokens up to num_spec_tokens");
    }
    for (std::int64_t p = 0; p < length; ++p) {
      reached[static_cast<std::size_t>(p)] += 1;
    }
  }
  return reached;
}

ChainCounts counts_of(const JsonRow& row) {
  // [j]: steps that accepted j draft tokens, the bonus not counted.
  const std::vector<std::int64_t> histogram = histogram_field(row, "acceptance_histogram");
  const std::int64_t longest = static_cast<std::int64_t>(histogram.size()) - 1;
  const std::int64_t positions =
      has_number(row.object, "num_spec_tokens")
          ? count_field(row, "num_spec_tokens", kRecord, 1, kMostPositions)
          : std::max<std::int64_t>(1, longest);
  ChainCounts counts;
  counts.accepted.resize(static_cast<std::size_t>(positions));
  for (std::int64_t tokens = 0; tokens <= longest; ++tokens) {
    const std::int64_t steps = histogram[static_cast<std::size_t>(tokens)];
    counts.drafts += steps;
    if (tokens > positions && steps > 0) {
      row.place.refuse("acceptance_histogram counts " + std::to_string(tokens) +
                       " accepted tokens, more than num_spec_tokens");
    }
    for (std::int64_t p = 0; p < std::min(tokens, positions); ++p) {
      counts.accepted[static_cast<std::size_t>(p)] += steps;
    }
  }
  const std::int64_t steps = count_field(row, "num_spec_steps", kRecord, 0, kMostSteps);
  if (steps != counts.drafts) {
    row.place.refuse("num_spec_steps is " + std::to_string(steps) +
                     ", but acceptance_histogram has " + std::to_string(counts.drafts) + " steps");
  }
  counts.draft_tokens = count_field(row, "num_draft_tokens", kRecord, 0, kMostSteps);
  if (has_number(row.object, "num_accepted_draft_tokens")) {
    counts.accepted_tokens = count_field(row, "num_accepted_draft_tokens", kRecord, 0, kMostSteps);
  }
  counts.reached = reached_of(row, counts.accepted.size(), steps);
  return counts;
}

// The fields of vLLM's object and of AIPerf's record.
std::string unread_of(const JsonRow& metrics) {
  return unread_fields(
      metrics.object,
      {"acceptance_histogram", "num_spec_steps", "num_spec_tokens", "num_draft_tokens",
       "num_accepted_draft_tokens", "per_step_drafted", "per_step_accepted", "engine",
       "mean_acceptance_length", "draft_acceptance_rate", "completion_tokens"});
}

}  // namespace

ImportedPoints read_vllm_requests(const ImportText& input) {
  std::set<std::string> unread;
  std::map<std::size_t, ChainCounts> chains;  // by positions
  ImportedPoints out;
  for (const JsonRow& row : json_rows(input.text, input.file)) {
    const std::vector<JsonRow> found = rows_with(row, "acceptance_histogram");
    for (const JsonRow& metrics : found) {
      const ChainCounts counts = counts_of(metrics);
      if (counts.drafts == 0) {
        out.left_out["responses without a draft"] += 1;
        continue;
      }
      chains[counts.accepted.size()].add(counts);
      unread.insert(unread_of(metrics));
      out.rows_taken += 1;
    }
    if (found.empty()) {
      out.left_out["objects without metrics.speculative_decoding"] += 1;
    }
  }
  for (const auto& [positions, counts] : chains) {
    add_points(out, chain_points(counts, input, context_of(input, {}), input.file));
  }
  out.remarks.push_back(
      "acceptance_histogram leaves the bonus token out; the points count it, as everywhere here");
  unread.erase("");
  out.remarks.insert(out.remarks.end(), unread.begin(), unread.end());
  return out;
}

}  // namespace versieve::engine
