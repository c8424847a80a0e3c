// speculation_profile.json, which Model-Optimizer writes beside a draft: how many steps emitted how
// many tokens, the bonus counted. Schema 1.0 (its examples/specdec_bench, 2026-11).
#include <utility>

#include "engine/analyse/import/import_points.h"
#include "engine/analyse/import/json_rows.h"
#include "model/words/error.h"

namespace versieve::engine {
namespace {

using nlohmann::json;

constexpr const char* kRecord = "speculation_profile.json";
constexpr std::int64_t kMostPositions = 255;
constexpr std::int64_t kMaxConcurrency = 1 << 20;

std::vector<std::int64_t> histogram_of(const JsonRow& row, std::int64_t positions) {
  const auto given = row.object.find("acceptance_length_histogram");
  if (given == row.object.end() || !given->is_object() || given->empty()) {
    row.place.refuse(
        "has no acceptance_length_histogram: rates alone do not say how many steps they rest on");
  }
  std::vector<std::int64_t> histogram =
      histogram_field(row, "acceptance_length_histogram", positions + 1);
  histogram.resize(static_cast<std::size_t>(positions) + 2);
  return histogram;
}

// What the file says that its histogram does not carry.
std::string reason_of(const JsonRow& row) {
  const auto says = [&row](const char* name, const char* value) {
    const auto found = row.object.find(name);
    return found != row.object.end() && *found == json(value);
  };
  if (says("verification_method", "block")) {
    return "drafts were verified by blocks, which accept other prefixes than token by token: of a "
           "shorter draft these counts say nothing";
  }
  if (says("accept_length_model", "measured_per_k")) {
    return "drafts of this method are made anew for each length (accept_length_model "
           "measured_per_k): of a shorter draft these counts are a guess";
  }
  return "";
}

// Requests at a time; 0: nobody said.
std::int64_t concurrency_of(const JsonRow& row) {
  const auto conditions = row.object.find("measurement_conditions");
  if (conditions == row.object.end() || !conditions->is_object() ||
      !has_number(*conditions, "concurrency")) {
    return 0;
  }
  return count_field({row.place, *conditions}, "concurrency", kRecord, 1, kMaxConcurrency);
}

// Answers of a server may hold chunks without a token, which are no steps.
std::int64_t take_empty(std::vector<std::int64_t>& histogram) {
  return std::exchange(histogram.front(), 0);
}

// Another version may count otherwise.
std::string version_remark(const JsonRow& row) {
  const auto found = row.object.find("schema_version");
  const std::string version = found != row.object.end() && found->is_string()
                                  ? found->get<std::string>()
                                  : std::string("1");
  return version.starts_with("1.") || version == "1"
             ? ""
             : "schema_version is " + shown(version) + ", and what is read here is that of 1.0";
}

PointMeasurement point_of(const JsonRow& row, const ImportText& input, ImportedPoints& out) {
  if (const auto measured = row.object.find("measured");
      measured != row.object.end() && *measured == json(false)) {
    row.place.refuse("says measured: false, so nothing was measured yet");
  }
  const std::int64_t positions =
      count_field(row, "num_speculative_tokens", kRecord, 1, kMostPositions);
  std::vector<std::int64_t> histogram = histogram_of(row, positions);
  if (const std::int64_t empty = take_empty(histogram); empty > 0) {
    out.left_out["steps that emitted nothing"] += empty;
  }
  const AcceptanceMeasurement acceptance = acceptance_of(std::move(histogram));
  if (acceptance.steps == 0) {
    row.place.refuse("counts no step in acceptance_length_histogram");
  }
  const std::int64_t context_len = context_of(input, {});
  const DraftChoice chain{positions, 1, positions + 1};
  const DraftChoice draft = input.draft.value_or(chain);
  if (draft.width == 1) {  // of a tree the file does not say its width
    check_stated(row.place, input.draft, chain);
  }
  check_length(row.place, "the longest step", draft, static_cast<double>(positions + 1));
  PointMeasurement point =
      imported_acceptance(strategy_of(row.place, input.attention, draft), context_len, acceptance);
  point.reason = reason_of(row);
  set_concurrency(point, concurrency_of(row), concurrency_of(row));
  return point;
}

}  // namespace

ImportedPoints read_speculation_profile(const ImportText& input) {
  ImportedPoints out;
  std::string unread, version;
  for (const JsonRow& row : json_rows(input.text, input.file)) {
    out.points.push_back(point_of(row, input, out));
    out.rows_taken += 1;
    version = version_remark(row);
    unread = unread_fields(
        row.object,
        {"schema_version", "measured", "num_speculative_tokens", "acceptance_length_histogram",
         "conditional_accept_rates", "marginal_accept_rates", "mean_accept_length",
         "mean_accept_length_per_request", "accept_length_model", "verification_method",
         "measurement_conditions", "method", "vectors_unavailable_reason"});
  }
  if (out.points.size() > 1) {
    throw Error(ExitCode::kBadInput, input.file + ": holds several profiles: import each alone");
  }
  out.remarks = {"acceptance lengths count the bonus token, in the file as in the points"};
  if (!out.points.empty() && !out.points.front().reason.empty()) {
    out.remarks.push_back(out.points.front().reason);
  }
  if (!version.empty()) {
    out.remarks.push_back(version);
  }
  if (!unread.empty()) {
    out.remarks.push_back(unread);
  }
  return out;
}

}  // namespace versieve::engine
