// Results of SGLang's bench_speculative.py: JSON Lines, one measured configuration a row. README.md
// says what each field is and what is made of it.
#include <algorithm>
#include <cmath>
#include <utility>

#include "engine/analyse/import/import_points.h"
#include "engine/analyse/import/json_rows.h"

namespace versieve::engine {
namespace {

constexpr const char* kRecord = "row of bench_speculative";
constexpr std::int64_t kMaxBatch = 1 << 20;
constexpr std::int64_t kMaxSetting =
    1024;  // steps, topk, tokens; the strategy's bounds are tighter
constexpr double kMaxTokens = 1e9;
constexpr double kLeastStepSeconds = 1e-5;  // the last digit that is written
constexpr double kMostStepSeconds = 100.0;
constexpr double kSpeedSlack = 0.02;
// Eight short prompts are asked for 512 tokens each: all of it lies below.
constexpr double kPromptTokens = 1024.0;

struct Row {
  std::int64_t batch_size = 0, steps = 0, topk = 0, num_draft_tokens = 0;
  double acc_length = 0.0;         // tokens a step, bonus counted
  double step_time = 0.0;          // s, the 20th percentile
  double completion_tokens = 0.0;  // of a request, mean
};

// The row's own speed must follow from its other two numbers: else it is of something else.
void check_speed(const JsonRow& given, const Row& row) {
  if (!given.object.contains("speed")) {
    return;
  }
  const double speed = number_field(given, "speed", kRecord, 0.0, 1e9);
  const double slack = kSpeedSlack + kLeastStepSeconds / row.step_time;
  if (std::abs(speed * row.step_time / row.acc_length - 1.0) > slack) {
    given.place.refuse("speed does not follow from acc_length and step_time");
  }
}

Row row_of(const JsonRow& given) {
  Row row;
  row.batch_size = count_field(given, "batch_size", kRecord, 1, kMaxBatch);
  row.steps = count_field(given, "steps", kRecord, 0, kMaxSetting);
  row.topk = count_field(given, "topk", kRecord, 0, kMaxSetting);
  row.num_draft_tokens = count_field(given, "num_draft_tokens", kRecord, 0, kMaxSetting);
  row.acc_length = number_field(given, "acc_length", kRecord, 1.0, kMaxTokens);
  row.step_time = number_field(given, "step_time", kRecord, kLeastStepSeconds, kMostStepSeconds);
  row.completion_tokens = number_field(given, "completion_tokens", kRecord, 1.0, kMaxTokens);
  check_speed(given, row);
  return row;
}

// Draft tokens include the root there and here. With one child a node SGLang drafts steps + 1
// tokens, whatever it was asked for.
DraftChoice draft_of(const LinePlace& place, const Row& row) {
  const bool plain = row.steps == 0 && row.topk == 0 && row.num_draft_tokens == 0;
  if (plain) {
    return {};
  }
  if (row.steps == 0 || row.topk == 0 || row.num_draft_tokens == 0) {
    place.refuse("steps, topk and num_draft_tokens must be all zero, or none of them");
  }
  return {row.steps, row.topk, row.topk == 1 ? row.steps + 1 : row.num_draft_tokens};
}

// Rows of one strategy and batch, of several runs of the benchmark or of settings that come to the
// same.
struct Rows {
  Strategy strategy;
  AcceptanceMeasurement acceptance;
  double accepted = 0.0;  // over all steps
  std::vector<double> time_ns;

  void add(const Row& row) {
    const std::int64_t steps =
        std::max<std::int64_t>(1, std::llround(row.completion_tokens / row.acc_length));
    acceptance.steps += steps;
    acceptance.generated_tokens += std::llround(row.completion_tokens);
    accepted += row.acc_length * static_cast<double>(steps);
    acceptance.accepted_per_step = accepted / static_cast<double>(acceptance.steps);
    time_ns.push_back(row.step_time * 1e9);
  }
};

}  // namespace

ImportedPoints read_sglang_bench(const ImportText& input) {
  ImportedPoints out;
  std::map<std::pair<std::string, std::int64_t>, Rows> groups;
  for_each_json_row(input.text, input.file, [&](const JsonRow& given) {
    const Row row = row_of(given);
    const Strategy strategy = strategy_of(given.place, input.attention, draft_of(given.place, row));
    check_length(given.place, "acc_length", strategy.draft, row.acc_length);
    Rows& rows = groups[{strategy.text(), row.batch_size}];
    rows.strategy = strategy;
    rows.add(row);
    out.rows_taken += 1;
  });
  const std::int64_t context_len = context_of(input, kPromptTokens);
  for (auto& [key, rows] : groups) {
    const std::int64_t batch = key.second;
    out.points.push_back(imported_acceptance(rows.strategy, context_len, rows.acceptance));
    set_concurrency(out.points.back(), batch, batch);
    out.points.push_back(imported_step(rows.strategy, context_len, std::move(rows.time_ns)));
    set_concurrency(out.points.back(), batch, batch);
  }
  out.remarks = {
      "acc_length counts the bonus token, and so do the points",
      "step times are the benchmark's 20th percentiles, one a row, not samples",
      "steps and tokens are those of a mean request, without a histogram of accepted tokens"};
  return out;
}

}  // namespace versieve::engine
