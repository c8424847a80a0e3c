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

bool reads_dense_cache(const Strategy& strategy) {
  return strategy.attention != AttentionMethod::kNsa;
}

// What the guard can reach of it.
GuardedBucket reached(const GuardedBucket& cell, const GuardConstants& guard,
                      const TupleRefusal& refusal, std::vector<LeftOutTuple>& left_out) {
  GuardedBucket out{.range = cell.range};
  const std::size_t ranks = cell.ranked.size() - (cell.falls_back ? 1 : 0);
  const std::size_t most = static_cast<std::size_t>(guard.max_transitions) + 1;
  for (std::size_t i = 0; i < cell.ranked.size(); ++i) {
    const Strategy& strategy = cell.ranked[i];
    const bool falls_back = i >= ranks;
    if (falls_back ? std::any_of(out.ranked.begin(), out.ranked.end(), decodes_plainly)
                   : out.ranked.size() == most) {
      continue;
    }
    std::string reason = refusal ? refusal(strategy) : std::string();
    if (!reason.empty()) {
      left_out.push_back({strategy, std::move(reason)});
      continue;
    }
    out.ranked.push_back(strategy);
    out.expected.push_back(cell.expected[i]);
    out.falls_back = falls_back;
  }
  return out;
}

// Whether it keeps what the class is about, of which tuples were left out.
bool has_own(const GuardedBucket& cell, PrecisionClass precision) {
  const auto end = cell.ranked.end() - (cell.falls_back ? 1 : 0);
  return std::any_of(cell.ranked.begin(), end,
                     [&](const Strategy& s) { return s.precision() == precision; });
}

std::string why_empty(const PlanTable& table, PrecisionClass precision) {
  for (const UnavailableCell& cell : table.unavailable) {
    if (cell.precision == precision) {
      return cell.reason;
    }
  }
  std::string known;
  for (const PrecisionClass own : table.classes) {
    known += (known.empty() ? "" : ", ") + std::string(name_of(own));
  }
  return "it was planned with " + (known.empty() ? "none" : known);
}

}  // namespace

// A tuple whose steps the host leads would have it lead all others' too: such are left out behind
// one that is recorded.
GuardedBucket whole_cell(const PlanTable& table, std::int64_t bucket, PrecisionClass precision,
                         GuardRule rule) {
  const std::vector<const PlanEntry*> entries = entries_of(table, bucket, precision);
  GuardedBucket out{.range = table.buckets[static_cast<std::size_t>(bucket)]};
  const bool dense = std::any_of(entries.begin(), entries.end(), [](const PlanEntry* e) {
    return reads_dense_cache(e->evaluation.strategy);
  });
  const bool led = !entries.empty() && entries.front()->evaluation.strategy.adapts_length;
  for (const PlanEntry* e : entries) {
    const Strategy& strategy = e->evaluation.strategy;
    if (reads_dense_cache(strategy) == dense && (led || !strategy.adapts_length)) {
      add(e->evaluation, out);
    }
  }
  if (rule == GuardRule::kNextRanked || entries.empty()) {
    return out;
  }
  const Strategy plain{.attention = dense ? AttentionMethod::kDense : AttentionMethod::kNsa};
  for (const PlanBaseline& b : table.baselines) {
    if (b.bucket == bucket && b.evaluation.strategy == plain && !out.falls_back) {
      add(b.evaluation, out);
      out.falls_back = true;
    }
  }
  return out;
}

GuardedBucket guarded_bucket(const PlanTable& table, std::int64_t bucket, PrecisionClass precision,
                             GuardRule rule, const TupleRefusal& refusal) {
  std::vector<LeftOutTuple> left_out;
  return reached(whole_cell(table, bucket, precision, rule), table.guard, refusal, left_out);
}

GuardedPlan guarded_plan(const PlanTable& table, PrecisionClass precision, GuardRule rule) {
  GuardedPlan plan{.precision = precision, .constants = table.guard, .rule = rule};
  for (std::size_t b = 0; b < table.buckets.size(); ++b) {
    GuardedBucket bucket = whole_cell(table, static_cast<std::int64_t>(b), precision, rule);
    if (!bucket.ranked.empty()) {
      plan.buckets.push_back(std::move(bucket));
    }
  }
  if (plan.buckets.empty()) {
    throw Error(ExitCode::kAnswerNo, std::string("the table has no entries of class ") +
                                         name_of(precision) + ": " + why_empty(table, precision));
  }
  return plan;
}

PairId planned_pair(const PlanTable& table, PrecisionClass precision) {
  if (!table.sources || !table.sources->pair) {
    return {};
  }
  bool dense = false;
  for (const PlanEntry& e : table.entries) {
    if (e.precision == precision && reads_dense_cache(e.evaluation.strategy)) {
      dense = true;
      if (e.price.from == PriceFrom::kOwn) {
        return e.price.pair;
      }
    }
  }
  return dense ? PairId{} : *table.sources->pair;
}

std::string run_condition(const PlanTable& table, std::int64_t bucket, PrecisionClass precision) {
  const std::vector<Strategy> tuples =
      guarded_bucket(table, bucket, precision, GuardRule::kMostPromising).ranked;
  const auto any = [&](auto holds) { return std::any_of(tuples.begin(), tuples.end(), holds); };
  std::string needs;
  if (any(reads_dense_cache)) {
    needs = " on a dense pair";
  }
  if (any([](const Strategy& s) { return s.attention == AttentionMethod::kSpecAttn; })) {
    needs += " with a draft model of its own and its layer_map.json";
  }
  if (any([](const Strategy& s) { return s.sampling == SamplingAlgorithm::kSigmoid; })) {
    needs += " above temperature 0";
  }
  return needs.empty() ? needs : "generate --table runs this cell" + needs;
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
  throw Error(ExitCode::kAnswerNo, std::string("no bucket of the table with entries of class ") +
                                       name_of(plan.precision) + " holds a context of " +
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
                               std::int64_t new_tokens, const TupleRefusal& refusal) {
  const GuardedBucket& first = bucket_for(plan, context_len);
  GuardedRequest out;
  for (const GuardedBucket& bucket : plan.buckets) {
    if (bucket.range.low < first.range.low || bucket.range.low >= context_len + new_tokens) {
      continue;
    }
    std::vector<LeftOutTuple> left_out;
    const GuardedBucket reach = reached(bucket, plan.constants, refusal, left_out);
    if (!left_out.empty() && !has_own(reach, plan.precision)) {
      if (out.buckets.empty()) {
        throw Error(ExitCode::kAnswerNo, "strategy '" + left_out.front().strategy.text() +
                                             "', the best of class " + name_of(plan.precision) +
                                             " for contexts of " + name_of(bucket.range) +
                                             " tokens: " + left_out.front().reason);
      }
      continue;
    }
    out.left_out.insert(out.left_out.end(), left_out.begin(), left_out.end());
    out.buckets.push_back(bucket.range);
    out.ranked.insert(out.ranked.end(), reach.ranked.begin(), reach.ranked.end());
    out.stages.push_back({.after = bucket.range.low, .ranked = reach.expected});
  }
  return out;
}

}  // namespace versieve
