// What a guarded request needs of a planner table: for each context bucket the ranked tuples of one
// class, with what the table expects of their steps; and those that one request comes to.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "model/plan/planner.h"
#include "model/plan/runtime_guard.h"

namespace versieve {

// All of one target: those of a cell that attends over a dense cache (ReSA, SpecAttn) stand beside
// baselines of the NSA target, which no pair could run with them.
struct GuardedBucket {
  ContextBucket range;
  std::vector<Strategy> ranked;        // best first
  std::vector<GuardedTuple> expected;  // of each
  bool falls_back = false;             // the last is plain decoding, of no rank
};

struct GuardedPlan {
  PrecisionClass precision = PrecisionClass::kStrict;
  GuardConstants constants;
  GuardRule rule = GuardRule::kMostPromising;
  std::vector<GuardedBucket> buckets;  // those with entries; all ranks of each
};

// Why a tuple cannot run where a request does, or an empty text.
using TupleRefusal = std::function<std::string(const Strategy&)>;

struct LeftOutTuple {
  Strategy strategy;
  std::string reason;
};

// The buckets that a request's context grows through, each a stage of its guard.
struct GuardedRequest {
  struct Place {
    ContextBucket bucket;
    std::int64_t rank = 0;  // from 0
  };

  std::vector<ContextBucket> buckets;
  std::vector<Strategy> ranked;        // of all stages, as RuntimeGuard::active counts them
  std::vector<GuardStage> stages;      // one a bucket
  std::vector<LeftOutTuple> left_out;  // better ranked ones that cannot run here

  Place place_of(std::size_t index) const;
};

// One bucket of the table with all ranks of its own target; by promise plain decoding stands last.
// Without tuples where the table has no entries of that class.
GuardedBucket whole_cell(const PlanTable& table, std::int64_t bucket, PrecisionClass precision,
                         GuardRule rule);
// The same with as many tuples as the guard can reach one after the other, of those that `refusal`
// lets run (all, if it is none); plain decoding stands last if it is none of them.
GuardedBucket guarded_bucket(const PlanTable& table, std::int64_t bucket, PrecisionClass precision,
                             GuardRule rule, const TupleRefusal& refusal = {});
// Throws Error(kAnswerNo) where the table has no entries of that class, with the reason.
GuardedPlan guarded_plan(const PlanTable& table, PrecisionClass precision, GuardRule rule);
// Whose numbers the cells of a class rest on: the pair that is planned for, or, of cells on a dense
// target, its dense model where a price names one. Without a name: a geometry's, or an older
// table's.
PairId planned_pair(const PlanTable& table, PrecisionClass precision);
// What a request needs to be run by a cell under the default rule, or an empty text: a dense pair,
// a draft model of its own, a temperature above 0.
std::string run_condition(const PlanTable& table, std::int64_t bucket, PrecisionClass precision);
// Of every cell that has entries.
using RunConditionOf = std::map<std::pair<std::int64_t, PrecisionClass>, std::string>;
RunConditionOf run_conditions(const PlanTable& table);
// The bucket that holds a context of that many tokens. Throws Error(kAnswerNo), naming the buckets.
const GuardedBucket& bucket_for(const GuardedPlan& plan, std::int64_t context_len);
// That bucket and those that the context reaches with `new_tokens` more, with as many tuples of
// each as the guard can reach of those that `refusal` lets run (all, if it is none). Throws as
// bucket_for does, and Error(kAnswerNo) where no tuple of the class runs in the first bucket. Where
// the plan has no further bucket whose tuples run, the last one's go on.
GuardedRequest guarded_request(const GuardedPlan& plan, std::int64_t context_len,
                               std::int64_t new_tokens, const TupleRefusal& refusal = {});

}  // namespace versieve
