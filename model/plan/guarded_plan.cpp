#include "model/plan/guarded_plan.h"

#include <algorithm>

#include "model/words/error.h"

namespace versieve {
namespace {

void add(const Evaluation& e, GuardedBucket& out) {
  out.ranked.push_back(e.strategy);
  out.expected.push_back({.expected_accepted = e.expected_accepted, .step_us = e.cost->time_us});
}

bool decodes_plainly(const Strategy& strategy) {
  return !strategy.draft.speculates();
}

}  // namespace

GuardedBucket guarded_bucket(const PlanTable& table, std::int64_t bucket, PrecisionClass precision,
                             GuardRule rule) {
  const std::vector<const PlanEntry*> entries = entries_of(table, bucket, precision);
  GuardedBucket out{.range = table.buckets[static_cast<std::size_t>(bucket)]};
  for (const PlanEntry* e : entries) {
    if (static_cast<std::int64_t>(out.ranked.size()) <= table.guard.max_transitions) {
      add(e->evaluation, out);
    }
  }
  if (rule == GuardRule::kNextRanked || entries.empty() ||
      std::any_of(out.ranked.begin(), out.ranked.end(), decodes_plainly)) {
    return out;
  }
  for (const PlanBaseline& b : table.baselines) {
    if (b.bucket == bucket && b.evaluation.strategy == Strategy{}) {
      add(b.evaluation, out);
    }
  }
  return out;
}

GuardedPlan guarded_plan(const PlanTable& table, PrecisionClass precision, GuardRule rule) {
  GuardedPlan plan{.precision = precision, .constants = table.guard, .rule = rule};
  for (std::size_t b = 0; b < table.buckets.size(); ++b) {
    GuardedBucket bucket = guarded_bucket(table, static_cast<std::int64_t>(b), precision, rule);
    if (!bucket.ranked.empty()) {
      plan.buckets.push_back(std::move(bucket));
    }
  }
  if (plan.buckets.empty()) {
    throw Error(ExitCode::kAnswerNo,
                std::string("the table has no entries of class ") + name_of(precision));
  }
  return plan;
}

std::string run_condition(const PlanTable& table, std::int64_t bucket, PrecisionClass precision) {
  const std::vector<Strategy> tuples =
      guarded_bucket(table, bucket, precision, GuardRule::kMostPromising).ranked;
  const auto any = [&](auto holds) { return std::any_of(tuples.begin(), tuples.end(), holds); };
  const bool dense = any([](const Strategy& s) { return s.attention != AttentionMethod::kNsa; });
  const bool sparse = any([](const Strategy& s) { return s.attention == AttentionMethod::kNsa; });
  if (dense && sparse) {
    return "generate --table runs this cell on no pair: its sparse tuples need a dense target, its "
           "baselines an NSA one";
  }
  if (dense) {
    return "generate --table runs this cell on a dense pair alone";
  }
  if (any([](const Strategy& s) { return s.sampling == SamplingAlgorithm::kSigmoid; })) {
    return "generate --table runs this cell above temperature 0 alone";
  }
  return {};
}

RunConditionOf run_conditions(const PlanTable& table) {
  RunConditionOf all;
  for (const PlanEntry& e : table.entries) {
    const auto [cell, is_new] = all.try_emplace({e.bucket, e.precision});
    if (is_new) {
      cell->second = run_condition(table, e.bucket, e.precision);
    }
  }
  return all;
}

const GuardedBucket& bucket_for(const GuardedPlan& plan, std::int64_t context_len) {
  std::string known;
  for (const GuardedBucket& bucket : plan.buckets) {
    if (in_range(context_len, bucket.range.low, bucket.range.high)) {
      return bucket;
    }
    known += (known.empty() ? "" : ", ") + name_of(bucket.range);
  }
  throw Error(ExitCode::kAnswerNo, "no bucket of the table holds a context of " +
                                       std::to_string(context_len) + " tokens: it has " + known);
}

GuardedRequest::Place GuardedRequest::place_of(std::size_t index) const {
  std::size_t stage = 0;
  while (stage + 1 < stages.size() && index >= stages[stage].ranked.size()) {
    index -= stages[stage].ranked.size();
    ++stage;
  }
  return {buckets[stage], static_cast<std::int64_t>(index)};
}

GuardedRequest guarded_request(const GuardedPlan& plan, std::int64_t context_len,
                               std::int64_t new_tokens) {
  const GuardedBucket& first = bucket_for(plan, context_len);
  GuardedRequest out;
  for (const GuardedBucket& bucket : plan.buckets) {
    if (bucket.range.low < first.range.low || bucket.range.low >= context_len + new_tokens) {
      continue;
    }
    out.buckets.push_back(bucket.range);
    out.ranked.insert(out.ranked.end(), bucket.ranked.begin(), bucket.ranked.end());
    out.stages.push_back({.after = bucket.range.low, .ranked = bucket.expected});
  }
  return out;
}

}  // namespace versieve
