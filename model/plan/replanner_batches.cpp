// What a replanner knows of steps of so many requests before it sees a machine: which tuples there
// are, and by how much steps like theirs were measured to differ from the sum of their parts.
#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>

#include "model/cost/batch_fit.h"
#include "model/plan/composed_step.h"
#include "model/plan/replanner.h"

namespace versieve {
namespace {

// The contexts at which a plan prices a bucket's tuples, bucket after bucket.
std::vector<std::int64_t> sampled_contexts(const std::vector<ContextBucket>& buckets) {
  std::vector<std::int64_t> contexts;
  for (const ContextBucket& bucket : buckets) {
    for (std::int64_t i = 0; i < kBucketSamples; ++i) {
      contexts.push_back(sampled_context(bucket, i));
    }
  }
  return contexts;
}

// What step_regime reads of a strategy: neither the width of a tree nor the order of its nodes.
using RegimeKey = std::tuple<std::int64_t, std::int64_t, std::int64_t, GroupMode, std::string>;
RegimeKey regime_key(const Strategy& s) {
  return {s.draft.depth, s.draft.nodes, s.group_size, s.group_mode, s.schedule};
}

// What batch_regime reads of it beside: what a group's queries share depends on the order.
using BatchKey = std::pair<RegimeKey, Traversal>;
BatchKey batch_key(const Strategy& s, const AcceptanceModel& acceptance) {
  const bool ordered = s.group_size > 1 && knows_order(acceptance, s.order);
  return {regime_key(s), ordered ? s.order : Traversal::kBfs};
}

std::int64_t context_in(const ContextBucket& bucket, const FittedModel& fit) {
  return std::max(bucket.low + 1, fit.shortest_context());
}

}  // namespace

Replanner::Batch Replanner::batch_of(std::int64_t requests,
                                     std::optional<std::size_t> bucket) const {
  Batch batch{.space = {fit_, target_, sampled_contexts(options_.buckets), options_.schedules,
                        options_.draft, requests},
              .requests = requests,
              .cells = {}};
  for (std::size_t b = 0; b < options_.buckets.size(); ++b) {
    for (const PrecisionClass precision : options_.classes) {
      if (precision < PrecisionClass::kSparseRectified) {
        batch.cells.emplace_back();
        if (!bucket || *bucket == b) {
          fill(batch, b, precision);
        }
      }
    }
  }
  return batch;
}

// By how much steps like a tuple's were measured to differ depends on no machine.
void Replanner::fill(Batch& batch, std::size_t bucket, PrecisionClass precision) const {
  Cell& cell = batch.cells.back();
  const StrategySpace& space = batch.space;
  const ContextBucket& range = options_.buckets[bucket];
  const std::vector<Strategy>& candidates = all_.of(bucket);
  const std::int32_t count = static_cast<std::int32_t>(candidates.size());
  const std::int32_t size = static_cast<std::int32_t>(space.strategies().size());
  const double overlap = accepted_overlap(fit_.acceptance, range.low, range.high);
  std::map<std::int64_t, bool> measured;  // [nodes]
  std::map<RegimeKey, std::array<float, kBucketSamples>> factors;
  std::map<BatchKey, std::int64_t> batch_factors_of;
  std::int32_t place = 0;  // both lists are in the order of the grid
  for (std::int32_t candidate = 0; candidate < count; ++candidate) {
    const Strategy& s = candidates[static_cast<std::size_t>(candidate)];
    if (s.precision() != precision || s.adapts_length) {
      continue;
    }
    while (place < size && !(space.strategies()[static_cast<std::size_t>(place)] == s)) {
      ++place;
    }
    if (place == size) {  // the fixed baseline, which the grid need not hold
      break;
    }
    const auto [width, fresh] = measured.try_emplace(s.draft.nodes, false);
    if (fresh) {
      width->second = fit_.outside_because(context_in(range, fit_), s.draft.nodes).empty();
    }
    if (!width->second) {
      continue;
    }
    Tuple& tuple = cell.emplace_back();
    tuple.strategy = place;
    tuple.candidate = candidate;
    tuple.yield = yield_of_[static_cast<std::size_t>(candidate)];
    if (space.is_measured_batch()) {
      const auto [of_regime, first] =
          batch_factors_of.try_emplace(batch_key(s, fit_.acceptance), std::ssize(batch.factors));
      if (first) {
        batch.factors.emplace_back();
        for (std::int64_t i = 0; i < kBucketSamples; ++i) {
          batch.factors.back()[static_cast<std::size_t>(i)] =
              batch_factors(s, sampled_context(range, i), overlap, batch.requests);
        }
      }
      tuple.factors = static_cast<std::int32_t>(of_regime->second);
      continue;
    }
    const auto [known, is_new] = factors.try_emplace(regime_key(s));
    for (std::size_t i = 0; is_new && i < known->second.size(); ++i) {
      const StepShape shape = step_shape(
          s, target_, options_.draft.value_or(draft_shape_for(target_)),
          sampled_context(range, static_cast<std::int64_t>(i)), overlap, fit_, batch.requests);
      known->second[i] = static_cast<float>(std::exp(fit_.step_time.at(step_regime(shape))));
    }
    tuple.factor = known->second;
  }
}

// As a plan's pricing of such steps has it (composed_step.h: as_measured).
StrategySpace::BatchFactors Replanner::batch_factors(const Strategy& strategy, std::int64_t context,
                                                     double overlap, std::int64_t requests) const {
  const StepShape shape = step_shape(strategy, target_, draft_, context, overlap, fit_, requests);
  const Regime regime = batch_regime(shape);
  const bool dense = target_.attention == AttentionKind::kDense;
  const double term = fit_.batch.values()[static_cast<std::size_t>(
      dense ? BatchTerm::kDenseAttention : BatchTerm::kAttention)];
  const auto of_kind = [&](LaunchKind kind) {
    return term * std::exp(fit_.batch.kinds.at(batch_kind_regime(regime, kind)));
  };
  return {.route = of_kind(LaunchKind::kNsaRoute),
          .attend = of_kind(LaunchKind::kNsaAttend),
          .reuse = of_kind(LaunchKind::kNsaReuse),
          .step = std::exp(fit_.batch.time.at(regime))};
}

}  // namespace versieve
