#include "engine/measure/bench/batch_plan.h"

#include <algorithm>

#include "model/plan/concurrency.h"
#include "model/words/error.h"

namespace versieve::engine {
namespace {

BatchTuple tuple_of(const Evaluation& e, const char* role) {
  return {.strategy = e.strategy,
          .tokens = e.expected_accepted,
          .role = role,
          .predicted_us = e.cost->time_us,
          .predicted_interval_us = e.latency_interval_us};
}

std::int64_t bucket_of(const PlanTable& table, std::int64_t context) {
  const auto found = std::find_if(
      table.buckets.begin(), table.buckets.end(),
      [context](const ContextBucket& b) { return b.low < context && context <= b.high; });
  if (found == table.buckets.end()) {
    throw Error(ExitCode::kUsage,
                "no bucket of the table holds a context of " + std::to_string(context) + " tokens");
  }
  return found - table.buckets.begin();
}

}  // namespace

std::vector<BatchTuple> played_tuples(const PlanTable& table, std::int64_t context,
                                      std::int64_t requests, PrecisionClass precision) {
  const PlanTable& own = table_of(table, requests);
  const std::int64_t bucket = bucket_of(table, context);
  const PlanEntry* const best = best_of(own, bucket, precision);
  const Evaluation* const plain = plain_of(own, bucket);
  const auto base = std::find_if(
      own.baselines.begin(), own.baselines.end(),
      [bucket](const PlanBaseline& b) { return b.bucket == bucket && b.role == "fixed"; });
  if (best == nullptr || plain == nullptr || base == own.baselines.end()) {
    throw Error(ExitCode::kAnswerNo, std::string("the table plans no tuple of class ") +
                                         name_of(precision) + " for " + std::to_string(requests) +
                                         " requests of " + std::to_string(context) + " tokens");
  }
  return {tuple_of(*plain, "plain"), tuple_of(base->evaluation, "baseline"),
          tuple_of(best->evaluation, "planned")};
}

}  // namespace versieve::engine
