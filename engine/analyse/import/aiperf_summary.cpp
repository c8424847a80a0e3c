// AIPerf's summary of a run (0.13.0, profile_export_aiperf.json): the histogram of all requests'
// verification steps by accepted draft tokens (the bonus left out), and what tokens took. README.md
// says which fields are read.
#include <algorithm>

#include "engine/analyse/import/chain_counts.h"
#include "engine/analyse/import/json_rows.h"

namespace versieve::engine {
namespace {

constexpr const char* kRecord = "summary of AIPerf";
constexpr const char* kHistogram = "pooled_spec_decode_acceptance_histogram";
constexpr double kMost = 1e12;
constexpr double kLeastMs = 1e-3, kMostMs = 1e6;  // of a token
constexpr std::int64_t kMaxConcurrency = 1 << 20;

// ms of a metric's unit.
double milliseconds_of(const JsonRow& row, const char* name) {
  constexpr std::pair<const char*, double> kUnits[] = {
      {"ms", 1.0}, {"sec", 1e3}, {"s", 1e3}, {"us", 1e-3}, {"ns", 1e-6}};
  const nlohmann::json unit = row.object[name].value("unit", nlohmann::json("ms"));
  for (const auto& [known, ms] : kUnits) {
    if (unit == known) {
      return ms;
    }
  }
  row.place.refuse(std::string(name) + " is in " + shown(unit.dump()) +
                   ", which is no unit of time that AIPerf writes");
}

// A metric's number, as {"unit": "ms", "avg": 5.1, "p50": 5.0}.
std::optional<double> metric(const JsonRow& row, const char* name,
                             std::initializer_list<const char*> kinds) {
  const auto found = row.object.find(name);
  if (found == row.object.end() || !found->is_object()) {
    return {};
  }
  for (const char* kind : kinds) {
    if (has_number(*found, kind)) {
      return number_field({row.place, *found}, kind, kRecord, 0.0, kMost);
    }
  }
  return {};
}

bool is_text(const nlohmann::json& object, const char* name, const char* text) {
  const auto found = object.find(name);
  return found != object.end() && *found == nlohmann::json(text);
}

// The limit of the phases whose requests are counted, where all of them have the same; a phase that
// sends requests at a rate has one that few may reach.
BenchmarkLoad phases_load(const JsonRow& row) {
  BenchmarkLoad load;
  const auto config = row.object.find("input_config");
  if (config == row.object.end() || !config->is_object()) {
    return load;
  }
  bool differ = false;
  for (const JsonRow& phase : rows_with({row.place, *config}, "concurrency")) {
    const bool warms_up = is_text(phase.object, "kind", "warmup") ||
                          is_text(phase.object, "name", "warmup") ||
                          phase.object.value("exclude_from_results", nlohmann::json()) == true;
    if (warms_up || !has_number(phase.object, "concurrency")) {
      continue;
    }
    const std::int64_t one = count_field(phase, "concurrency", kRecord, 1, kMaxConcurrency);
    differ = differ || (load.limit && *load.limit != one);
    load.limit = one;
    load.at_rate = load.at_rate || has_number(phase.object, "rate") ||
                   has_number(phase.object, "request_rate") ||
                   (phase.object.contains("type") && !is_text(phase.object, "type", "concurrency"));
  }
  if (differ) {
    load.limit.reset();
  }
  return load;
}

// Requests that ran at a time; 0: nothing says it.
std::int64_t concurrency_of(const JsonRow& row) {
  BenchmarkLoad load = phases_load(row);
  load.mean = metric(row, "effective_concurrency", {"avg"});
  return load.requests().value_or(0);
}

std::optional<double> context_shown(const JsonRow& row) {
  const std::optional<double> prompt = metric(row, "input_sequence_length", {"avg"});
  const std::optional<double> answer = metric(row, "output_sequence_length", {"avg"});
  return prompt ? std::optional(*prompt + 0.5 * answer.value_or(0.0)) : std::nullopt;
}

ChainCounts counts_of(const JsonRow& row, const DraftChoice& draft) {
  const std::vector<std::int64_t> histogram = histogram_field(row, kHistogram);
  ChainCounts counts;
  counts.accepted.resize(static_cast<std::size_t>(draft.levels()));
  for (std::size_t tokens = 0; tokens < histogram.size(); ++tokens) {
    counts.drafts += histogram[tokens];
    if (tokens > counts.accepted.size() && histogram[tokens] > 0) {
      row.place.refuse(std::string(kHistogram) + " counts " + std::to_string(tokens) +
                       " accepted tokens, more than --draft drafts");
    }
    for (std::size_t p = 0; p < std::min(tokens, counts.accepted.size()); ++p) {
      counts.accepted[p] += histogram[tokens];
    }
  }
  if (const auto drafted = metric(row, "total_draft_tokens", {"avg"})) {
    counts.draft_tokens = static_cast<std::int64_t>(*drafted);
  }
  return counts;
}

ImportedPoints acceptance_points(const JsonRow& row, const ImportText& input,
                                 std::int64_t context_len) {
  const DraftChoice& draft = *input.draft;
  if (draft.width == 1) {
    return chain_points(counts_of(row, draft), input, context_len, row.place.text());
  }
  std::vector<std::int64_t> emitted = histogram_field(row, kHistogram);
  emitted.insert(emitted.begin(), 0);
  while (emitted.back() == 0 && emitted.size() > 1) {
    emitted.pop_back();
  }
  check_length(row.place, "the longest step", draft, static_cast<double>(emitted.size() - 1));
  const AcceptanceMeasurement acceptance = acceptance_of(std::move(emitted));
  if (acceptance.steps == 0) {
    row.place.refuse(std::string(kHistogram) + " counts no step");
  }
  return {.points = {imported_acceptance(strategy_of(row.place, input.attention, draft),
                                         context_len, acceptance)}};
}

ImportedPoints read_row(const JsonRow& row, const ImportText& input) {
  const std::int64_t context_len = context_of(input, context_shown(row));
  ImportedPoints out;
  double length = 1.0;
  if (!input.is_plain()) {
    out = acceptance_points(row, input, context_len);
    length = out.points.back().acceptance->accepted_per_step;
  }
  const bool whole =
      input.is_plain() || input.draft->width > 1 || is_timed_whole(counts_of(row, *input.draft));
  const std::int64_t requests = concurrency_of(row);
  const char* const latency = "inter_token_latency";
  const std::optional<double> token = metric(row, latency, {"p50", "avg"});
  if (token && !whole) {
    out.left_out[kCutTimes] += 1;
  } else if (token && requests > 0) {
    const double ms =
        checked(row.place, latency, *token * milliseconds_of(row, latency), kLeastMs, kMostMs);
    out.points.push_back(step_of_token_time(strategy_of(row.place, input.attention, *input.draft),
                                            context_len, ms, length));
  } else {
    out.left_out["times of nobody knows how many requests"] += 1;
  }
  for (PointMeasurement& point : out.points) {
    set_concurrency(point, requests, requests);
  }
  out.rows_taken = 1;
  return out;
}

// A server without speculation has times alone, and no histogram.
void check_histogram(const JsonRow& row, bool plain) {
  const bool is_there = row.object.contains(kHistogram) && !row.object[kHistogram].is_null();
  if (plain && is_there) {
    row.place.refuse("counts drafts, so the server speculated: leave --draft ar out");
  }
  if (!plain && !is_there) {
    row.place.refuse(std::string("is a summary of AIPerf without ") + kHistogram +
                     ": the server did not speculate (--draft ar takes its times as plain "
                     "decoding's), or did not report it (vLLM: --per-request-spec-decode-metrics)");
  }
}

}  // namespace

ImportedPoints read_aiperf_summary(const ImportText& input) {
  ImportedPoints out;
  for (const JsonRow& row : json_rows(input.text, input.file)) {
    check_histogram(row, input.is_plain());
    if (!input.draft) {
      row.place.refuse(
          "is a summary of AIPerf, which does not say how many tokens were drafted: give --draft "
          "d<K>k1n<K+1> of a chain of K tokens");
    }
    add_points(out, read_row(row, input));
  }
  if (!input.is_plain()) {
    out.remarks.push_back(std::string(kHistogram) +
                          " leaves the bonus token out; the points count it, as everywhere here");
  }
  out.remarks.push_back(kTokenTimes);
  return out;
}

}  // namespace versieve::engine
