// Results of SGLang's bench_serving (0.5.23, sglang.benchmark.serving): JSON Lines, a run a row,
// with the server's mean accepted length and, under server_info, what it was started with; of a
// server without speculation its times alone. README.md says which fields are read.
#include <algorithm>
#include <cmath>

#include "engine/analyse/import/import_points.h"
#include "engine/analyse/import/json_rows.h"

namespace versieve::engine {
namespace {

using nlohmann::json;

constexpr const char* kRecord = "result of bench_serving";
constexpr double kMost = 1e12;
constexpr std::int64_t kMaxSetting = 1024;
constexpr std::int64_t kMaxConcurrency = 1 << 20;

double accepted_length(const JsonRow& row) {
  const auto found = row.object.find("accept_length");
  if (found == row.object.end() || found->is_null()) {
    row.place.refuse(
        "is a result of bench_serving without an accept_length: the server did not speculate "
        "(--draft ar takes its times as plain decoding's), or its /server_info was not read");
  }
  return number_field(row, "accept_length", kRecord, 1.0, 1e6);
}

// What the server was started with, where server_info says it.
std::optional<DraftChoice> started_draft(const JsonRow& row) {
  const auto info = row.object.find("server_info");
  const char* names[] = {"speculative_num_steps", "speculative_eagle_topk",
                         "speculative_num_draft_tokens"};
  const bool is_said = info != row.object.end() && info->is_object() &&
                       std::all_of(std::begin(names), std::end(names),
                                   [&](const char* name) { return has_number(*info, name); });
  if (!is_said) {
    return {};
  }
  const JsonRow server{row.place, *info};
  const std::int64_t steps = count_field(server, names[0], kRecord, 1, kMaxSetting);
  const std::int64_t topk = count_field(server, names[1], kRecord, 1, kMaxSetting);
  const std::int64_t tokens = count_field(server, names[2], kRecord, 1, kMaxSetting);
  return DraftChoice{steps, topk, topk == 1 ? steps + 1 : tokens};
}

// Drafts whose length the server chose by load and acceptance.
bool adapts(const JsonRow& row) {
  const auto info = row.object.find("server_info");
  return info != row.object.end() && info->is_object() &&
         info->value("speculative_adaptive", json()) == json(true);
}

// What was stated, else what the server was started with.
DraftChoice draft_of(const JsonRow& row, const ImportText& input) {
  const std::optional<DraftChoice> started = started_draft(row);
  if (started && !adapts(row)) {
    check_stated(row.place, input.draft, *started);
  }
  if (!input.draft && !started) {
    row.place.refuse(
        "is a result of bench_serving whose server_info does not say what was drafted: give "
        "--draft d<steps>k<topk>n<draft tokens>");
  }
  return input.draft ? *input.draft : *started;
}

void make_lower_bound(PointMeasurement& point) {
  point.reliability = Reliability::kAtLeast;
  point.reason =
      "the server adapted its drafts (speculative_adaptive), and the result does not say how long "
      "they were: the length is a lower bound for the longest";
}

// Requests that ran at a time; none where nothing says it.
std::optional<std::int64_t> concurrency_of(const JsonRow& row) {
  BenchmarkLoad load{.at_rate = sends_at_rate(row.object)};
  if (has_number(row.object, "max_concurrency")) {
    load.limit = count_field(row, "max_concurrency", kRecord, 1, kMaxConcurrency);
  }
  if (has_number(row.object, "concurrency")) {
    load.mean = number_field(row, "concurrency", kRecord, 0.0, kMaxConcurrency);
  }
  return load.requests();
}

// Half of the answer lies before a step in the mean.
std::optional<double> context_shown(const JsonRow& row) {
  if (!has_number(row.object, "completed") || !has_number(row.object, "total_input_tokens")) {
    return {};
  }
  return (number_field(row, "total_input_tokens", kRecord, 0.0, kMost) +
          0.5 * number_field(row, "total_output_tokens", kRecord, 1.0, kMost)) /
         number_field(row, "completed", kRecord, 1.0, kMost);
}

void check_no_length(const JsonRow& row) {
  if (has_number(row.object, "accept_length")) {
    row.place.refuse("has an accept_length, so the server speculated: leave --draft ar out");
  }
}

// Where it was said how many requests ran.
void add_time(const JsonRow& row, const ImportText& input, const Strategy& strategy, double length,
              std::optional<std::int64_t> concurrency, ImportedPoints& out) {
  const std::optional<double> token_ms = token_time(row, kRecord);
  if (!token_ms || !concurrency) {
    out.left_out[token_ms ? "times of nobody knows how many requests"
                          : "runs without token times"] += 1;
    return;
  }
  out.points.push_back(
      step_of_token_time(strategy, context_of(input, context_shown(row)), *token_ms, length));
  set_concurrency(out.points.back(), *concurrency, *concurrency);
}

}  // namespace

ImportedPoints read_sglang_serving(const ImportText& input) {
  ImportedPoints out;
  out.details["rows"] = json::array();
  for (const JsonRow& row : json_rows(input.text, input.file)) {
    const std::optional<std::int64_t> concurrency = concurrency_of(row);
    if (input.is_plain()) {
      check_no_length(row);
      add_time(row, input, imported_strategy(input.attention, {}), 1.0, concurrency, out);
      out.rows_taken += 1;
      continue;
    }
    const double length = accepted_length(row);
    const DraftChoice draft = draft_of(row, input);
    const Strategy strategy = strategy_of(row.place, input.attention, draft);
    check_length(row.place, "accept_length", draft, length);
    const double tokens = number_field(row, "total_output_tokens", kRecord, 1.0, kMost);
    PointMeasurement point = imported_acceptance(
        strategy, context_of(input, context_shown(row)),
        acceptance_of_mean(length, std::max<std::int64_t>(1, std::llround(tokens / length))));
    set_concurrency(point, concurrency.value_or(0), concurrency.value_or(0));
    if (adapts(row)) {
      make_lower_bound(point);
      add_remark(out, point.reason);
      out.left_out["times of drafts whose length the result does not say"] += 1;
    }
    out.points.push_back(std::move(point));
    if (!adapts(row)) {
      add_time(row, input, strategy, length, concurrency, out);
    }
    out.details["rows"].push_back(
        {{"concurrency", concurrency ? json(*concurrency) : json()}, {"accept_length", length}});
    out.rows_taken += 1;
  }
  add_remark(out, kTokenTimes);
  if (!input.is_plain()) {
    out.remarks.insert(out.remarks.begin(),
                       {"accept_length counts the bonus token, and so do the points",
                        "accept_length is the server's mean since it was started, warm-up and "
                        "earlier runs included"});
  }
  return out;
}

}  // namespace versieve::engine
