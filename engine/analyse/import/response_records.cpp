// What servers say of each request's drafts in its response, wherever a program that kept them has
// put it: vLLM's metrics.speculative_decoding (0.33, --per-request-spec-decode-metrics), with it
// AIPerf's SpecDecodeAcceptanceRecord (0.13.0: spec_decode_acceptance of each record, a histogram
// by count instead of a list), and TensorRT-LLM's speculative_decoding of each choice (2026-11).
#include <algorithm>
#include <set>

#include "engine/analyse/import/chain_counts.h"
#include "engine/analyse/import/json_rows.h"
#include "model/words/error.h"

namespace versieve::engine {
namespace {

using nlohmann::json;

constexpr const char* kHistogram = "acceptance_histogram";
constexpr std::int64_t kMostSteps = 1'000'000'000;
constexpr std::int64_t kMostPositions = 256;
constexpr std::size_t kVarying = 0;  // positions of drafts without a fixed length

struct Record {
  const char* name;
  const char* draft_tokens;
  const char* accepted_tokens;
};
constexpr Record kVllm = {"metrics.speculative_decoding of vLLM", "num_draft_tokens",
                          "num_accepted_draft_tokens"};
constexpr Record kTrtllm = {"speculative_decoding of TensorRT-LLM", "total_draft_tokens",
                            "total_accepted_draft_tokens"};

// The length of each step's draft, where it is stated.
std::vector<std::int64_t> drafted_of(const JsonRow& row, std::int64_t steps) {
  const auto drafted = row.object.find("per_step_drafted");
  std::vector<std::int64_t> lengths;
  if (drafted == row.object.end() || !drafted->is_array() ||
      drafted->size() != static_cast<std::size_t>(steps)) {
    return lengths;
  }
  for (const json& tokens : *drafted) {
    const std::int64_t length = tokens.is_number_integer() ? tokens.get<std::int64_t>() : -1;
    if (length < 0 || length > kMostPositions) {
      row.place.refuse("per_step_drafted holds " + tokens.dump() + ", not a number of tokens");
    }
    lengths.push_back(length);
  }
  return lengths;
}

void check_longest(const JsonRow& row, const Record& record, std::int64_t longest) {
  if (has_number(row.object, "num_spec_tokens") &&
      longest > count_field(row, "num_spec_tokens", record.name, 1, kMostPositions)) {
    row.place.refuse(std::string(kHistogram) + " counts " + std::to_string(longest) +
                     " accepted tokens, more than num_spec_tokens");
  }
}

// Of drafts without a fixed length it is that of the longest: of a step, of what was accepted, or
// of the mean.
std::int64_t positions_of(const JsonRow& row, const Record& record, std::int64_t longest,
                          const std::vector<std::int64_t>& drafted, const ChainCounts& counts) {
  if (has_number(row.object, "num_spec_tokens")) {
    return count_field(row, "num_spec_tokens", record.name, 1, kMostPositions);
  }
  std::int64_t positions = std::max<std::int64_t>(1, longest);
  for (const std::int64_t length : drafted) {
    positions = std::max(positions, length);
  }
  const std::int64_t mean =
      counts.drafts > 0 ? (*counts.draft_tokens + counts.drafts - 1) / counts.drafts : 0;
  return std::min(kMostPositions, std::max(positions, mean));
}

ChainCounts counts_of(const JsonRow& row, const Record& record) {
  // [j]: steps that accepted j draft tokens, the bonus not counted.
  std::vector<std::int64_t> histogram = histogram_field(row, kHistogram);
  while (!histogram.empty() && histogram.back() == 0) {
    histogram.pop_back();
  }
  ChainCounts counts;
  for (const std::int64_t steps : histogram) {
    counts.drafts += steps;
  }
  const std::int64_t steps = count_field(row, "num_spec_steps", record.name, 0, kMostSteps);
  if (steps != counts.drafts) {
    row.place.refuse("num_spec_steps is " + std::to_string(steps) + ", but " + kHistogram +
                     " has " + std::to_string(counts.drafts) + " steps");
  }
  const std::int64_t longest = static_cast<std::int64_t>(histogram.size()) - 1;
  check_longest(row, record, longest);
  counts.draft_tokens = count_field(row, record.draft_tokens, record.name, 0, kMostSteps);
  if (has_number(row.object, record.accepted_tokens)) {
    counts.accepted_tokens = count_field(row, record.accepted_tokens, record.name, 0, kMostSteps);
  }
  const std::vector<std::int64_t> drafted = drafted_of(row, steps);
  counts.accepted.resize(
      static_cast<std::size_t>(positions_of(row, record, longest, drafted, counts)));
  for (std::size_t tokens = 1; tokens < histogram.size(); ++tokens) {
    for (std::size_t p = 0; p < tokens; ++p) {
      counts.accepted[p] += histogram[tokens];
    }
  }
  counts.reached.resize(drafted.empty() ? 0 : counts.accepted.size());
  for (const std::int64_t length : drafted) {
    if (length > static_cast<std::int64_t>(counts.reached.size())) {
      row.place.refuse("per_step_drafted holds " + std::to_string(length) +
                       ", not a number of tokens up to num_spec_tokens");
    }
    for (std::int64_t p = 0; p < length; ++p) {
      counts.reached[static_cast<std::size_t>(p)] += 1;
    }
  }
  return counts;
}

// The fields of vLLM's object, of AIPerf's record and of TensorRT-LLM's.
std::string unread_of(const JsonRow& metrics) {
  return unread_fields(
      metrics.object,
      {kHistogram, "num_spec_steps", "num_spec_tokens", "num_draft_tokens",
       "num_accepted_draft_tokens", "total_draft_tokens", "total_accepted_draft_tokens",
       "per_step_drafted", "per_step_accepted", "engine", "mean_acceptance_length",
       "acceptance_rate", "draft_acceptance_rate", "completion_tokens"});
}

// Of a tree that was stated; how long its drafts were by position is not a chain's matter.
PointMeasurement tree_point(const ChainCounts& counts, const ImportText& input) {
  const LinePlace place{.file = input.file, .line = 1};
  std::vector<std::int64_t> emitted = {0};
  std::int64_t before = counts.drafts;
  for (const std::int64_t count : counts.accepted) {
    emitted.push_back(before - count);
    before = count;
  }
  emitted.push_back(before);
  while (emitted.back() == 0) {
    emitted.pop_back();
  }
  check_length(place, "the longest step", *input.draft, static_cast<double>(emitted.size() - 1));
  PointMeasurement point =
      imported_acceptance(strategy_of(place, input.attention, *input.draft), context_of(input, {}),
                          acceptance_of(std::move(emitted)));
  const double whole =
      static_cast<double>(counts.drafts) * static_cast<double>(input.draft->nodes - 1);
  if (static_cast<double>(counts.draft_tokens.value_or(0)) * (1.0 + kTornRead) < whole) {
    point.reliability = Reliability::kAtLeast;
    point.reason =
        "drafts had fewer tokens in the mean than the tree that was stated: the length "
        "is a lower bound";
  }
  return point;
}

// Chains of the length that was stated, or the one that the responses have.
void check_chain(const ChainCounts& counts, const ImportText& input) {
  const std::int64_t positions = static_cast<std::int64_t>(counts.accepted.size());
  const double most = static_cast<double>(counts.drafts) * static_cast<double>(positions);
  if (static_cast<double>(counts.draft_tokens.value_or(0)) > (1.0 + kTornRead) * most) {
    throw Error(ExitCode::kBadInput,
                input.file + ": has more draft tokens than steps of " + std::to_string(positions) +
                    " positions, so a tree was drafted: give --draft d<depth>k<top-k>n<draft "
                    "tokens and the root>");
  }
  if (input.draft && input.draft->levels() != positions) {
    throw Error(ExitCode::kBadInput, input.file + ": has drafts of " + std::to_string(positions) +
                                         " tokens, which is not what --draft says: leave it out");
  }
}

// AIPerf's record of a request with which it warmed the server up: no part of its run.
bool warms_up(const json& object) {
  const auto metadata = object.find("metadata");
  return metadata != object.end() && metadata->is_object() &&
         metadata->value("benchmark_phase", json()) == json("warmup");
}

ImportedPoints read_responses(const ImportText& input, const Record& record) {
  std::set<std::string> unread;
  std::map<std::size_t, ChainCounts> chains;  // by positions
  ImportedPoints out;
  const bool tree = input.draft && input.draft->width > 1;
  for_each_json_row(input.text, input.file, [&](const JsonRow& row) {
    if (warms_up(row.object)) {
      out.left_out["records of a warm-up"] += 1;
      return;
    }
    const std::vector<JsonRow> found = rows_with(row, kHistogram);
    for (const JsonRow& metrics : found) {
      const ChainCounts counts = counts_of(metrics, record);
      if (counts.drafts == 0) {
        out.left_out["responses without a draft"] += 1;
        continue;
      }
      // By what a response happened to accept no chain may be told from another.
      const bool varies = !has_number(metrics.object, "num_spec_tokens");
      chains[tree || varies ? kVarying : counts.accepted.size()].add(counts);
      unread.insert(unread_of(metrics));
      out.rows_taken += 1;
    }
    if (found.empty()) {
      out.left_out[std::string("objects without ") + kHistogram] += 1;
    }
  });
  for (const auto& [positions, counts] : chains) {
    if (tree) {
      out.points.push_back(tree_point(counts, input));
      continue;
    }
    ChainCounts chain = counts;
    if (positions == kVarying) {
      out.remarks.push_back(
          "num_spec_tokens is not said, as of drafts whose length varies: they are taken for cut "
          "from the longest");
      const std::size_t levels = input.draft ? static_cast<std::size_t>(input.draft->levels()) : 0;
      chain.accepted.resize(std::max(chain.accepted.size(), levels));
      chain.reached.resize(chain.reached.empty() ? 0 : chain.accepted.size());
    }
    check_chain(chain, input);
    add_points(out, chain_points(chain, input, context_of(input, {}), input.file));
  }
  out.remarks.push_back(std::string(kHistogram) +
                        " leaves the bonus token out; the points count it, as everywhere here");
  unread.erase("");
  out.remarks.insert(out.remarks.end(), unread.begin(), unread.end());
  return out;
}

}  // namespace

ImportedPoints read_vllm_requests(const ImportText& input) {
  return read_responses(input, kVllm);
}

ImportedPoints read_trtllm_responses(const ImportText& input) {
  return read_responses(input, kTrtllm);
}

}  // namespace versieve::engine
