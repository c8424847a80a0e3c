#include "engine/analyse/import/import_points.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "model/words/error.h"
#include "model/words/request_range.h"

namespace versieve::engine {
namespace {

constexpr std::int64_t kContextUnit = 1024;
// A request's first token comes from its prompt but is counted: one in some hundreds.
constexpr double kSlack = 1.01;

// What no foreign record says stays unstated; caches are as that program left them.
PointMeasurement imported_point(WorkloadKind workload, const Strategy& strategy,
                                std::int64_t context_len) {
  PointMeasurement point{.key = {.workload = workload,
                                 .strategy = strategy.text(),
                                 .dtype = Dtype::kUnstated,
                                 .backend = Backend::kImported,
                                 .cache_state = CacheState::kAsIs,
                                 .launch = LaunchMode::kUnstated,
                                 .context_len = context_len,
                                 .num_queries = strategy.draft.nodes}};
  point.stop_reason = "fixed";
  point.reliability = Reliability::kUnchecked;
  return point;
}

void add_counts(AcceptanceMeasurement& to, const AcceptanceMeasurement& from) {
  const double tokens = to.accepted_per_step * static_cast<double>(to.steps) +
                        from.accepted_per_step * static_cast<double>(from.steps);
  const bool counted = !to.accepted_histogram.empty() && !from.accepted_histogram.empty();
  to.accepted_histogram.resize(
      counted ? std::max(to.accepted_histogram.size(), from.accepted_histogram.size()) : 0);
  for (std::size_t i = 0; counted && i < from.accepted_histogram.size(); ++i) {
    to.accepted_histogram[i] += from.accepted_histogram[i];
  }
  to.steps += from.steps;
  to.generated_tokens += from.generated_tokens;
  to.accepted_per_step = tokens / static_cast<double>(to.steps);
}

void join(PointMeasurement& to, const PointMeasurement& from) {
  to.time_ns.insert(to.time_ns.end(), from.time_ns.begin(), from.time_ns.end());
  const bool to_is_bound = to.reliability == Reliability::kAtLeast;
  const bool from_is_bound = from.reliability == Reliability::kAtLeast;
  if (to_is_bound && !from_is_bound) {
    to = from;
  } else if (to.acceptance && from.acceptance && to_is_bound == from_is_bound) {
    add_counts(*to.acceptance, *from.acceptance);
    to.reason = to.reason.empty() ? from.reason : to.reason;
  }
}

}  // namespace

Strategy imported_strategy(AttentionMethod attention, const DraftChoice& draft) {
  const Strategy strategy{.attention = attention, .draft = draft};
  return Strategy::parse(strategy.text());
}

Strategy strategy_of(const LinePlace& place, AttentionMethod attention, const DraftChoice& draft) {
  try {
    return imported_strategy(attention, draft);
  } catch (const Error& error) {
    place.refuse(error.what());
  }
}

std::string tree_text(const DraftChoice& draft) {
  return "d" + std::to_string(draft.depth) + "k" + std::to_string(draft.width) + "n" +
         std::to_string(draft.nodes);
}

void check_stated(const LinePlace& place, const std::optional<DraftChoice>& stated,
                  const DraftChoice& said) {
  if (stated && !(*stated == said)) {
    place.refuse("says that " + tree_text(said) + " was drafted" + ", and --draft says " +
                 tree_text(*stated) + ": leave it out");
  }
}

std::int64_t most_emitted(const DraftChoice& draft) {
  return draft.levels() + 1;
}

void check_length(const LinePlace& place, const std::string& name, const DraftChoice& draft,
                  double length) {
  const std::int64_t most = most_emitted(draft);
  if (length > kSlack * static_cast<double>(most)) {
    place.refuse(name + " is more than the " + std::to_string(most) +
                 " tokens that a step of this tree can emit");
  }
}

PointMeasurement imported_acceptance(const Strategy& strategy, std::int64_t context_len,
                                     AcceptanceMeasurement acceptance) {
  PointMeasurement point = imported_point(WorkloadKind::kAcceptance, strategy, context_len);
  point.acceptance = std::move(acceptance);
  return point;
}

PointMeasurement imported_step(const Strategy& strategy, std::int64_t context_len,
                               std::vector<double> time_ns) {
  PointMeasurement point = imported_point(WorkloadKind::kStep, strategy, context_len);
  point.time_ns = std::move(time_ns);
  return point;
}

PointMeasurement step_of_token_time(const Strategy& strategy, std::int64_t context_len,
                                    double token_ms, double length) {
  return imported_step(strategy, context_len, {1e6 * token_ms * length});
}

AcceptanceMeasurement acceptance_of_mean(double accepted_per_step, std::int64_t steps) {
  return {.steps = steps,
          .generated_tokens = std::llround(accepted_per_step * static_cast<double>(steps)),
          .accepted_per_step = accepted_per_step};
}

std::int64_t context_of(const ImportText& input, std::optional<double> shown_tokens) {
  if (input.context_len) {
    return *input.context_len;
  }
  if (!shown_tokens) {
    throw Error(ExitCode::kUsage,
                input.file + " does not say how long the texts were: --context does");
  }
  const double units = std::ceil(std::max(1.0, *shown_tokens) / static_cast<double>(kContextUnit));
  return static_cast<std::int64_t>(units) * kContextUnit;
}

void set_concurrency(PointMeasurement& point, std::int64_t low, std::int64_t high) {
  if (high >= 1) {
    point.key.regime = text_of(RequestRange{low, high});
  }
}

std::int64_t requests_range_end(std::int64_t requests) {
  std::int64_t end = 1;
  while (end < requests) {
    end *= 2;
  }
  return end;
}

std::int64_t requests_range_low(std::int64_t end) {
  return end <= 2 ? end : end / 2 + 1;
}

void add_remark(ImportedPoints& to, std::string remark) {
  if (std::find(to.remarks.begin(), to.remarks.end(), remark) == to.remarks.end()) {
    to.remarks.push_back(std::move(remark));
  }
}

void add_points(ImportedPoints& to, ImportedPoints from) {
  std::move(from.points.begin(), from.points.end(), std::back_inserter(to.points));
  to.rows_taken += from.rows_taken;
  for (const auto& [reason, rows] : from.left_out) {
    to.left_out[reason] += rows;
  }
  for (std::string& remark : from.remarks) {
    add_remark(to, std::move(remark));
  }
}

void join_same_keys(std::vector<PointMeasurement>& points) {
  std::vector<PointMeasurement> joined;
  for (PointMeasurement& point : points) {
    const auto same = std::find_if(joined.begin(), joined.end(),
                                   [&](const PointMeasurement& p) { return p.key == point.key; });
    if (same == joined.end()) {
      joined.push_back(std::move(point));
    } else {
      join(*same, point);
    }
  }
  points = std::move(joined);
}

AcceptanceMeasurement acceptance_of(std::vector<std::int64_t> histogram) {
  AcceptanceMeasurement out;
  for (std::size_t tokens = 0; tokens < histogram.size(); ++tokens) {
    out.steps += histogram[tokens];
    out.generated_tokens += static_cast<std::int64_t>(tokens) * histogram[tokens];
  }
  out.accepted_per_step =
      static_cast<double>(out.generated_tokens) / static_cast<double>(out.steps);
  out.accepted_histogram = std::move(histogram);
  return out;
}

}  // namespace versieve::engine
