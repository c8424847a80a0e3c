// What a guarded request needs of a planner table: for each context bucket the ranked tuples of one
// class, with what the table expects of their steps; and those that one request comes to.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "model/plan/planner.h"
#include "model/plan/runtime_guard.h"

namespace versieve {

struct GuardedBucket {
  ContextBucket range;
  // Best first, as many as the guard can reach one after the other; by promise plain decoding
  // stands last if it is none of them.
  std::vector<Strategy> ranked;
  std::vector<GuardedTuple> expected;  // of each
};

struct GuardedPlan {
  PrecisionClass precision = PrecisionClass::kStrict;
  GuardConstants constants;
  GuardRule rule = GuardRule::kMostPromising;
  std::vector<GuardedBucket> buckets;  // those with entries
};

// The buckets that a request's context grows through, each a stage of its guard.
struct GuardedRequest {
  struct Place {
    ContextBucket bucket;
    std::int64_t rank = 0;  // from 0
  };

  std::vector<ContextBucket> buckets;
  std::vector<Strategy> ranked;    // of all stages, as RuntimeGuard::active counts them
  std::vector<GuardStage> stages;  // one a bucket

  Place place_of(std::size_t index) const;
};

// One bucket of the table; without tuples where it has no entries of that class.
GuardedBucket guarded_bucket(const PlanTable& table, std::int64_t bucket, PrecisionClass precision,
                             GuardRule rule);
// Throws Error(kAnswerNo) where the table has no entries of that class.
GuardedPlan guarded_plan(const PlanTable& table, PrecisionClass precision, GuardRule rule);
// What a request needs to be run by a cell under the default rule, or an empty text: a dense
// target, a temperature above 0, or a pair that cannot be, where sparse tuples of a dense target
// stand beside baselines of the NSA target.
std::string run_condition(const PlanTable& table, std::int64_t bucket, PrecisionClass precision);
// Of every cell that has entries.
using RunConditionOf = std::map<std::pair<std::int64_t, PrecisionClass>, std::string>;
RunConditionOf run_conditions(const PlanTable& table);
// The bucket that holds a context of that many tokens. Throws Error(kAnswerNo), naming the buckets.
const GuardedBucket& bucket_for(const GuardedPlan& plan, std::int64_t context_len);
// That bucket and those that the context reaches with `new_tokens` more. Throws as bucket_for does.
// Where the plan has no further bucket, the last one's tuples go on.
GuardedRequest guarded_request(const GuardedPlan& plan, std::int64_t context_len,
                               std::int64_t new_tokens);

}  // namespace versieve
