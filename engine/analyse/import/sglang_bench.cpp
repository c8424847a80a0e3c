// Results of SGLang's bench_speculative.py: JSON Lines, one measured configuration a row. README.md
// says what each field is and what is made of it.
#include <algorithm>
#include <cmath>
#include <utility>

#include "engine/analyse/import/import_points.h"
#include "engine/analyse/import/text_lines.h"
#include "engine/io/strict_json.h"
#include "model/words/error.h"

namespace versieve::engine {
namespace {

using nlohmann::json;

constexpr int kMaxDepth = 8;  // of a row's JSON; further fields may be objects
constexpr std::int64_t kMaxBatch = 1 << 20;
constexpr std::int64_t kMaxSetting =
    1024;  // steps, topk, tokens; the strategy's bounds are tighter
constexpr double kMaxTokens = 1e9;
constexpr double kLeastStepSeconds = 1e-5;  // the last digit that is written
constexpr double kMostStepSeconds = 100.0;
// A request's first token comes from its prompt but is counted: one in some hundreds.
constexpr double kSlack = 1.01;
constexpr double kSpeedSlack = 0.02;

struct Row {
  std::int64_t batch_size = 0, steps = 0, topk = 0, num_draft_tokens = 0;
  double acc_length = 0.0;         // tokens a step, bonus counted
  double step_time = 0.0;          // s, the 20th percentile
  double completion_tokens = 0.0;  // of a request, mean
};

const json& field(const LinePlace& place, const json& row, const char* name) {
  const auto found = row.find(name);
  if (found == row.end()) {
    place.refuse(std::string("lacks the field ") + name + ": this is no row of bench_speculative");
  }
  if (!found->is_number()) {
    place.refuse(std::string(name) + " is not a number");
  }
  return *found;
}

std::int64_t whole(const LinePlace& place, const json& row, const char* name, std::int64_t low,
                   std::int64_t high) {
  return whole_number(place, name, field(place, row, name).dump(), low, high);
}

double decimal(const LinePlace& place, const json& row, const char* name, double low, double high) {
  return checked(place, name, field(place, row, name).get<double>(), low, high);
}

// The row's own speed must follow from its other two numbers: else it is of something else.
void check_speed(const LinePlace& place, const json& object, const Row& row) {
  if (!object.contains("speed")) {
    return;
  }
  const double speed = decimal(place, object, "speed", 0.0, 1e9);
  const double slack = kSpeedSlack + kLeastStepSeconds / row.step_time;
  if (std::abs(speed * row.step_time / row.acc_length - 1.0) > slack) {
    place.refuse("speed does not follow from acc_length and step_time");
  }
}

Row row_of(const LinePlace& place, std::string_view line) {
  const json object = parse_strict_json(line, kMaxDepth, place.text());
  if (!object.is_object()) {
    place.refuse("is not a JSON object");
  }
  Row row;
  row.batch_size = whole(place, object, "batch_size", 1, kMaxBatch);
  row.steps = whole(place, object, "steps", 0, kMaxSetting);
  row.topk = whole(place, object, "topk", 0, kMaxSetting);
  row.num_draft_tokens = whole(place, object, "num_draft_tokens", 0, kMaxSetting);
  row.acc_length = decimal(place, object, "acc_length", 1.0, kMaxTokens);
  row.step_time = decimal(place, object, "step_time", kLeastStepSeconds, kMostStepSeconds);
  row.completion_tokens = decimal(place, object, "completion_tokens", 1.0, kMaxTokens);
  check_speed(place, object, row);
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

Strategy strategy_of(const LinePlace& place, AttentionMethod attention, const Row& row) {
  const DraftChoice draft = draft_of(place, row);
  try {
    return imported_strategy(attention, draft);
  } catch (const Error& error) {
    place.refuse(error.what());
  }
}

void check_length(const LinePlace& place, const DraftChoice& draft, double acc_length) {
  const std::int64_t most = most_emitted(draft);
  if (acc_length > kSlack * static_cast<double>(most)) {
    place.refuse("acc_length is more than the " + std::to_string(most) +
                 " tokens that a step of this tree can emit");
  }
}

// Rows of one strategy, of several runs of the benchmark or of settings that come to the same.
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
  std::map<std::string, Rows> groups;
  for_each_line(input.text, input.file, [&](const LinePlace& place, std::string_view line) {
    const Row row = row_of(place, line);
    const Strategy strategy = strategy_of(place, input.attention, row);
    check_length(place, strategy.draft, row.acc_length);
    if (row.batch_size != 1) {
      out.left_out["batch size " + std::to_string(row.batch_size) + ", not 1"] += 1;
      return;
    }
    Rows& rows = groups[strategy.text()];
    rows.strategy = strategy;
    rows.add(row);
    out.rows_taken += 1;
  });
  for (auto& [text, rows] : groups) {
    out.points.push_back(imported_acceptance(rows.strategy, input.context_len, rows.acceptance));
    out.points.push_back(imported_step(rows.strategy, input.context_len, std::move(rows.time_ns)));
  }
  out.remarks = {
      "step times are the benchmark's 20th percentiles, one a row, not samples",
      "steps and tokens are those of a mean request, without a histogram of accepted tokens"};
  return out;
}

}  // namespace versieve::engine
