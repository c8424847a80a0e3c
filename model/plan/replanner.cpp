#include "model/plan/replanner.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numeric>
#include <tuple>

#include "model/cost/accepted_tokens.h"
#include "model/cost/batch_fit.h"
#include "model/plan/concurrency.h"
#include "model/plan/loss_limit.h"
#include "model/plan/near_duplicates.h"
#include "model/plan/tuple_pricer.h"
#include "model/words/assert.h"

namespace versieve {
namespace {

// Of log throughput: what the model of steps by parts and a plan's own pricing may differ.
constexpr double kSlack = 1e-3;
constexpr double kUndecided = 5e-3;  // of the log of a time between tokens, its interval's too

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

// What accepted_tokens reads of a strategy.
using YieldKey = std::tuple<std::int64_t, std::int64_t, std::int64_t, bool, std::string,
                            std::int64_t, Traversal>;
YieldKey yield_key(const Strategy& s) {
  const std::int64_t group = approximate_group(s);
  return {s.draft.depth,
          s.draft.width,
          s.draft.nodes,
          s.adapts_length,
          s.schedule,
          group,
          group > 1 ? s.order : Traversal::kBfs};
}

bool was_measured(const Strategy& strategy, const FittedModel& fit, const LlmShape& target) {
  return std::any_of(fit.steps.begin(), fit.steps.end(), [&](const MeasuredStep& m) {
    return m.geometry == target.name && same_launches(m.strategy, strategy, fit.priced_form());
  });
}

// What step_regime reads of a strategy: neither the width of a tree nor the order of its nodes.
using RegimeKey = std::tuple<std::int64_t, std::int64_t, std::int64_t, GroupMode, std::string>;
RegimeKey regime_key(const Strategy& s) {
  return {s.draft.depth, s.draft.nodes, s.group_size, s.group_mode, s.schedule};
}

// The baselines, and what is no tree of the grid.
std::vector<bool> priced_anyway(std::vector<bool> baselines,
                                const std::vector<Strategy>& candidates,
                                const std::vector<bool>& within) {
  for (std::size_t i = 0; i < baselines.size(); ++i) {
    baselines[i] = baselines[i] || (within[i] && candidates[i].adapts_length);
  }
  return baselines;
}

std::int64_t context_in(const ContextBucket& bucket, const FittedModel& fit) {
  return std::max(bucket.low + 1, fit.shortest_context());
}

}  // namespace

Replanner::Replanner(const FittedModel& fit, const LlmShape& target, PlanOptions options,
                     std::int64_t kept)
    : fit_(with_acceptance(fit)),
      target_(target),
      options_(std::move(options)),
      draft_(options_.draft.value_or(usual_draft(target))),
      kept_(kept),
      all_(candidates_of(fit, target, options_.baseline, options_.schedules)) {
  VERSIEVE_ASSERT(kept_ >= options_.ranks, "no fewer are kept than are ranked");
  const Strategy autoregressive;
  const Strategy fixed = Strategy::parse(options_.baseline);
  std::map<YieldKey, std::int32_t> yields;
  for (const Strategy& s : all_.of(0)) {
    const std::int32_t candidate = static_cast<std::int32_t>(baselines_.size());
    baselines_.push_back(s == autoregressive || s == fixed || is_plain_chain(s));
    measured_.push_back(was_measured(s, fit, target));
    const auto [yield, fresh] =
        yields.try_emplace(yield_key(s), static_cast<std::int32_t>(yields_.size()));
    if (fresh) {
      yields_.push_back(candidate);
    }
    yield_of_.push_back(yield->second);
  }
  for (const std::int64_t requests : options_.concurrency) {
    batches_.push_back(batch_of(requests));
  }
}

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
  std::map<RegimeKey, std::int64_t> batch_factors_of;
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
          batch_factors_of.try_emplace(regime_key(s), std::ssize(batch.factors));
      if (first) {
        batch.factors.emplace_back();
        for (std::int64_t i = 0; i < kBucketSamples; ++i) {
          batch.factors.back()[static_cast<std::size_t>(i)] =
              batch_factors(s, sampled_context(range, i), batch.requests);
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

std::vector<AcceptedTokens> Replanner::accepted_in(std::size_t bucket,
                                                   const AcceptanceModel& acceptance) const {
  const ContextBucket& range = options_.buckets[bucket];
  TokensInRange tokens(acceptance, range.low, range.high);
  std::vector<AcceptedTokens> out;
  out.reserve(yields_.size());
  for (const std::int32_t candidate : yields_) {
    out.push_back(tokens.of(all_.of(bucket)[static_cast<std::size_t>(candidate)]));
  }
  return out;
}

std::vector<std::vector<AcceptedTokens>> Replanner::accepted_of(
    const AcceptanceModel& acceptance) const {
  std::vector<std::vector<AcceptedTokens>> out;
  for (std::size_t b = 0; b < options_.buckets.size(); ++b) {
    out.push_back(accepted_in(b, acceptance));
  }
  return out;
}

// As a plan prices it: measured steps correct the prediction.
Replanner::Ranked Replanner::measured_rank(const Tuple& tuple, const Frame& frame) const {
  const Strategy& strategy = all_.of(frame.bucket)[static_cast<std::size_t>(tuple.candidate)];
  std::string note;
  const Evaluation e = frame.pricer.evaluate(strategy, options_.buckets[frame.bucket], note);
  return {.rate = e.throughput * 1e-6,
          .half_width = std::log(compared_interval(e).high / e.throughput),
          .whole_width = std::log(e.throughput_interval.high / e.throughput),
          .tuple = &tuple};
}

// As a plan's pricing of such steps has it (composed_step.h: as_measured).
StrategySpace::BatchFactors Replanner::batch_factors(const Strategy& strategy, std::int64_t context,
                                                     std::int64_t requests) const {
  const StepShape shape = step_shape(strategy, target_, draft_, context, 0.0, fit_, requests);
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

double Replanner::composed_us(const Tuple& tuple, const Frame& frame, std::size_t sample) const {
  const StrategySpace& space = frame.batch.space;
  const std::size_t context = frame.bucket * kBucketSamples + sample;
  if (tuple.factors >= 0) {
    const auto& factors = frame.batch.factors[static_cast<std::size_t>(tuple.factors)];
    const std::size_t count = space.strategies().size();
    const std::size_t at = context * count + static_cast<std::size_t>(tuple.strategy);
    return space.batch_time_us(frame.times, static_cast<std::int64_t>(at), factors[sample]);
  }
  return static_cast<double>(tuple.factor[sample]) *
         space.time_us(frame.times, context, static_cast<std::size_t>(tuple.strategy));
}

// By the parts of its step.
Replanner::Times Replanner::composed_times(const Tuple& tuple, const Frame& frame) const {
  Times times{};
  for (std::size_t i = 0; i < times.size(); ++i) {
    times[i] = composed_us(tuple, frame, i);
  }
  return times;
}

double Replanner::rate_of(const Tuple& tuple, const Times& times, const Frame& frame) const {
  const double us = std::accumulate(times.begin(), times.end(), 0.0);
  return static_cast<double>(kBucketSamples * frame.batch.requests) *
         frame.accepted[static_cast<std::size_t>(tuple.yield)].mean / us;
}

Replanner::Ranked Replanner::composed_rank(const Tuple& tuple, const Frame& frame) const {
  const Strategy& strategy = all_.of(frame.bucket)[static_cast<std::size_t>(tuple.candidate)];
  const Times times = composed_times(tuple, frame);
  const AcceptedTokens& accepted = frame.accepted[static_cast<std::size_t>(tuple.yield)];
  const double time_error = std::hypot(
      frame.pricer.with_batch_error(frame.log_error, strategy.draft.nodes, target_.attention, true),
      frame.pricer.sharing_error(strategy, options_.buckets[frame.bucket]));
  Ranked out{.rate = rate_of(tuple, times, frame),
             .half_width = kNinety * std::hypot(accepted.log_error, time_error),
             .tuple = &tuple};
  if (options_.aims.itl_ms) {
    const double texts = std::hypot(
        accepted.few_texts_log_error,
        accepted.text_log_error / std::sqrt(static_cast<double>(frame.pricer.requests())));
    out.whole_width =
        std::hypot(out.half_width, kNinety * texts, kNinety * contexts_log_error(std::span(times)));
  }
  return out;
}

std::vector<std::pair<double, const Replanner::Tuple*>> Replanner::rates_of(
    const Cell& cell, const Frame& frame) const {
  std::vector<std::pair<double, const Tuple*>> out;
  out.reserve(cell.size());
  double best = 0.0;
  for (const Tuple& tuple : cell) {
    if (frame.allowed[static_cast<std::size_t>(tuple.candidate)]) {
      const double rate = is_timed(tuple, frame)
                              ? measured_rank(tuple, frame).rate
                              : rate_of(tuple, composed_times(tuple, frame), frame);
      best = std::max(best, rate);
      out.emplace_back(rate, &tuple);
    }
  }
  const double least = frame.near * best * (1.0 - kSlack);
  std::erase_if(out, [least](const auto& tuple) { return tuple.first < least; });
  return out;
}

// Where the model of steps by parts does not decide it, as a plan does.
bool Replanner::keeps_bound(const Ranked& ranked, const Frame& frame) const {
  const double requests = static_cast<double>(frame.batch.requests);
  const double most_ms = 1e-3 * requests / ranked.rate * std::exp(ranked.whole_width);
  if (std::fabs(std::log(most_ms / *options_.aims.itl_ms)) > kUndecided) {
    return most_ms < *options_.aims.itl_ms;
  }
  std::string note;
  const Strategy& strategy =
      all_.of(frame.bucket)[static_cast<std::size_t>(ranked.tuple->candidate)];
  const Evaluation e = frame.pricer.evaluate(strategy, options_.buckets[frame.bucket], note);
  return inter_token_interval_ms(e, frame.batch.requests).high <= *options_.aims.itl_ms;
}

// The best ones are sorted, and so many more until enough distinct ones are among them.
void Replanner::mark_best(const Cell& cell, const Frame& frame, std::vector<bool>& marked) const {
  constexpr std::ptrdiff_t kFirst = 512, kGrowth = 4;
  const std::vector<Strategy>& candidates = all_.of(frame.bucket);
  std::vector<std::pair<double, const Tuple*>> rates = rates_of(cell, frame);
  // Of equals the one that stands first in the grid, and in the cell.
  const auto before = [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first > b.first : a.second < b.second;
  };
  const std::size_t kept = static_cast<std::size_t>(kept_);
  std::vector<const Tuple*> order;
  std::vector<RankedTuple> tuples;
  PossiblePlaces possible;
  const auto is_enough = [&] {
    return options_.distinct ? possible.is_full : tuples.size() >= kept;
  };
  for (std::ptrdiff_t sorted = 0, end = kFirst; sorted < std::ssize(rates) && !is_enough();
       sorted = end, end *= kGrowth) {
    end = std::min(end, std::ssize(rates));
    if (end < std::ssize(rates)) {
      std::nth_element(rates.begin() + sorted, rates.begin() + end, rates.end(), before);
    }
    std::sort(rates.begin() + sorted, rates.begin() + end, before);
    for (auto rate = rates.begin() + sorted; rate != rates.begin() + end; ++rate) {
      // Near duplicates of a measured one give way to it.
      const Ranked ranked = is_timed(*rate->second, frame) ? measured_rank(*rate->second, frame)
                                                           : composed_rank(*rate->second, frame);
      if (!options_.aims.itl_ms || keeps_bound(ranked, frame)) {
        order.push_back(ranked.tuple);
        tuples.push_back({&candidates[static_cast<std::size_t>(ranked.tuple->candidate)],
                          std::log(ranked.rate), ranked.half_width});
      }
    }
    possible = possible_places(tuples, kept, kSlack);
  }
  if (!options_.distinct) {
    possible.places.resize(std::min(tuples.size(), kept));
    std::iota(possible.places.begin(), possible.places.end(), std::size_t{0});
  }
  for (const std::size_t place : possible.places) {
    marked[static_cast<std::size_t>(order[place]->candidate)] = true;
  }
}

PlanTable Replanner::plan_on(const HardwareSpec& hardware) const {
  PairTerms terms;
  return plan_on(hardware, terms);
}

PlanTable Replanner::plan_on(const HardwareSpec& hardware, PairTerms& terms) const {
  return plan_with(fit_, terms, hardware, draft_, options_.loss);
}

PlanTable Replanner::plan_on(const HardwareSpec& hardware,
                             const AcceptanceModel& acceptance) const {
  return plan_on(hardware, acceptance, draft_);
}

PlanTable Replanner::plan_on(const HardwareSpec& hardware, const AcceptanceModel& acceptance,
                             const DraftShape& draft) const {
  return plan_on(hardware, acceptance, draft, options_.loss);
}

PlanTable Replanner::plan_on(const HardwareSpec& hardware, const AcceptanceModel& acceptance,
                             const DraftShape& draft, const LossTerms& loss) const {
  PairTerms terms;
  return plan_on(hardware, acceptance, draft, loss, terms);
}

PlanTable Replanner::plan_on(const HardwareSpec& hardware, const AcceptanceModel& acceptance,
                             const DraftShape& draft, const LossTerms& loss,
                             PairTerms& terms) const {
  FittedModel fit = fit_;
  fit.acceptance = acceptance;
  return plan_with(with_acceptance(fit), terms, hardware, draft, loss);
}

std::vector<Strategy> Replanner::leading_on(std::span<const HardwareSpec> machines,
                                            const AcceptanceModel& acceptance,
                                            const DraftShape& draft, const LossTerms& loss,
                                            std::size_t bucket, std::int64_t requests,
                                            double near) const {
  VERSIEVE_ASSERT(bucket < options_.buckets.size(), "a range of the options");
  FittedModel fit = fit_;
  fit.acceptance = acceptance;
  with_acceptance(fit);
  PlanOptions options = options_;
  options.draft = draft;
  options.loss = loss;
  const WithinLoss within = within_loss(all_.of(0), options);
  const std::vector<AcceptedTokens> accepted = accepted_in(bucket, acceptance);
  std::vector<bool> marked = priced_anyway(baselines_, all_.of(0), within.kept);
  const auto known = std::find_if(batches_.begin(), batches_.end(),
                                  [&](const Batch& of) { return of.requests == requests; });
  std::optional<Batch> made;
  if (known == batches_.end()) {
    made.emplace(batch_of(requests, bucket));
  }
  const Batch& batch = made ? *made : *known;
  const std::size_t own_classes = batch.cells.size() / options_.buckets.size();
  for (const HardwareSpec& hardware : machines) {
    const StrategySpace::Times times = batch.space.times_on(hardware, draft);
    const Pricer pricer(fit, hardware, target_, draft, options_.requests, requests);
    const Frame frame{.bucket = bucket,
                      .batch = batch,
                      .times = times,
                      .accepted = accepted,
                      .allowed = within.kept,
                      .pricer = pricer,
                      .log_error = pricer.log_error(options_.buckets[bucket]),
                      .corrected = hardware.key == fit.hardware_key && requests == 1,
                      .near = near};
    for (std::size_t c = 0; c < own_classes; ++c) {
      mark_best(batch.cells[bucket * own_classes + c], frame, marked);
    }
  }
  std::vector<Strategy> out;
  for (std::size_t i = 0; i < marked.size(); ++i) {
    if (marked[i]) {
      out.push_back(all_.of(bucket)[i]);
    }
  }
  return out;
}

// By what the model of parts does not rank.
bool Replanner::is_wholly_priced() const {
  return options_.aims.objective != Objective::kTokens || options_.aims.ttft_ms;
}

PlanTable Replanner::plan_with(const FittedModel& fit, PairTerms& terms,
                               const HardwareSpec& hardware, const DraftShape& draft,
                               const LossTerms& loss) const {
  if (terms.accepted_.empty()) {
    terms.accepted_ = accepted_of(fit.acceptance);
  }
  PlanOptions options = options_;
  options.draft = draft;
  options.loss = loss;
  if (is_wholly_priced()) {
    return plan(fit, hardware, target_, options, candidates_within_loss(all_, options));
  }
  const WithinLoss within = within_loss(all_.of(0), options);
  const bool corrected = hardware.key == fit.hardware_key;
  Candidates best{
      .enumerated = all_.enumerated, .runnable = all_.runnable, .excluded = all_.excluded};
  add_excluded(within.excluded, best.excluded);
  std::vector<std::vector<bool>> marked;  // [bucket, candidate]
  for (std::size_t b = 0; b < options_.buckets.size(); ++b) {
    marked.push_back(priced_anyway(baselines_, all_.of(b), within.kept));
  }
  for (const Batch& batch : batches_) {
    const StrategySpace::Times times = batch.space.times_on(hardware, draft);
    Pricer pricer(fit, hardware, target_, draft, options.requests, batch.requests);
    pricer.keep_in(terms.composed_);
    const std::size_t own_classes = batch.cells.size() / options_.buckets.size();
    for (std::size_t b = 0; b < options_.buckets.size(); ++b) {
      const Frame frame{.bucket = b,
                        .batch = batch,
                        .times = times,
                        .accepted = terms.accepted_[b],
                        .allowed = within.kept,
                        .pricer = pricer,
                        .log_error = pricer.log_error(options_.buckets[b]),
                        .corrected = corrected && batch.requests == 1};
      for (std::size_t c = 0; c < own_classes; ++c) {
        mark_best(batch.cells[b * own_classes + c], frame, marked[b]);
      }
    }
  }
  for (std::size_t b = 0; b < options_.buckets.size(); ++b) {
    std::vector<Strategy>& listed = best.strategies.emplace_back();
    for (std::size_t i = 0; i < marked[b].size(); ++i) {
      if (marked[b][i] || (corrected && measured_[i] && within.kept[i])) {
        listed.push_back(all_.of(b)[i]);
      }
    }
  }
  return plan(fit, hardware, target_, options, best, &terms.composed_);
}

}  // namespace versieve
