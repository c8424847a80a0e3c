// speculation_profile.json, which Model-Optimizer writes beside a draft: how many steps emitted how
// many tokens, the bonus counted.
#include "engine/analyse/import/import_points.h"
#include "engine/analyse/import/json_rows.h"
#include "model/words/error.h"

namespace versieve::engine {
namespace {

using nlohmann::json;

constexpr const char* kRecord = "speculation_profile.json";
constexpr std::int64_t kMostSteps = 1'000'000'000'000;
constexpr std::int64_t kMostPositions = 255;

std::vector<std::int64_t> histogram_of(const JsonRow& row, std::int64_t positions) {
  const auto given = row.object.find("acceptance_length_histogram");
  if (given == row.object.end() || !given->is_object() || given->empty()) {
    row.place.refuse(
        "has no acceptance_length_histogram: rates alone do not say how many steps they rest on");
  }
  std::vector<std::int64_t> histogram(static_cast<std::size_t>(positions) + 2);
  for (const auto& [tokens, steps] : given->items()) {
    const std::int64_t emitted =
        whole_number(row.place, "acceptance_length_histogram's key", tokens, 1, positions + 1);
    const double count = steps.is_number() ? steps.get<double>() : -1.0;
    histogram[static_cast<std::size_t>(emitted)] = static_cast<std::int64_t>(checked(
        row.place, "acceptance_length_histogram", count, 0.0, static_cast<double>(kMostSteps)));
  }
  return histogram;
}

PointMeasurement point_of(const JsonRow& row, const ImportText& input) {
  if (const auto measured = row.object.find("measured");
      measured != row.object.end() && *measured == json(false)) {
    row.place.refuse("says measured: false, so nothing was measured yet");
  }
  const std::int64_t positions =
      count_field(row, "num_speculative_tokens", kRecord, 1, kMostPositions);
  const AcceptanceMeasurement acceptance = acceptance_of(histogram_of(row, positions));
  if (acceptance.steps == 0) {
    row.place.refuse("counts no step in acceptance_length_histogram");
  }
  const std::int64_t context_len = context_of(input, {});
  const DraftChoice draft = input.draft.value_or(DraftChoice{positions, 1, positions + 1});
  check_length(row.place, "the longest step", draft, static_cast<double>(positions + 1));
  return imported_acceptance(strategy_of(row.place, input.attention, draft), context_len,
                             acceptance);
}

}  // namespace

ImportedPoints read_speculation_profile(const ImportText& input) {
  ImportedPoints out;
  std::string unread;
  for (const JsonRow& row : json_rows(input.text, input.file)) {
    out.points.push_back(point_of(row, input));
    out.rows_taken += 1;
    unread = unread_fields(row.object, {"schema_version", "measured", "num_speculative_tokens",
                                        "acceptance_length_histogram", "conditional_accept_rates",
                                        "marginal_accept_rates", "mean_acceptance_length"});
  }
  if (out.points.size() > 1) {
    throw Error(ExitCode::kBadInput, input.file + ": holds several profiles: import each alone");
  }
  out.remarks = {"acceptance lengths count the bonus token, in the file as in the points"};
  if (!unread.empty()) {
    out.remarks.push_back(unread);
  }
  return out;
}

}  // namespace versieve::engine
