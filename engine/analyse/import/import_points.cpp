#include "engine/analyse/import/import_points.h"

#include <utility>

namespace versieve::engine {
namespace {

// What no foreign record says stays unstated; caches are as that program left them.
PointMeasurement imported_point(WorkloadKind workload, const Strategy& strategy,
                                std::int64_t context_len) {
  PointMeasurement point{.key = {.workload = workload,
                                 .strategy = strategy.text(),
                                 .dtype = "unstated",
                                 .backend = kImportedBackend,
                                 .cache_state = "as_is",
                                 .launch = "unstated",
                                 .context_len = context_len,
                                 .num_queries = strategy.draft.nodes}};
  point.stop_reason = "fixed";
  point.reliability = "unchecked";
  return point;
}

}  // namespace

Strategy imported_strategy(AttentionMethod attention, const DraftChoice& draft) {
  const Strategy strategy{.attention = attention, .draft = draft};
  return Strategy::parse(strategy.text());
}

std::int64_t most_emitted(const DraftChoice& draft) {
  return draft.levels() + 1;
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
