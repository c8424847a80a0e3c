#include "model/plan/replanner.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numeric>
#include <tuple>

#include "model/cost/accepted_tokens.h"
#include "model/cost/adapted_chain.h"
#include "model/plan/concurrency.h"
#include "model/plan/loss_limit.h"
#include "model/plan/memory_need.h"
#include "model/plan/near_duplicates.h"
#include "model/plan/tuple_pricer.h"
#include "model/words/assert.h"

namespace versieve {
namespace {

// Of log throughput: what the model of steps by parts and a plan's own pricing may differ. Of
// several requests it is 0.003 at most by the shipped H100's fit (64 on eight groups, at 8 TB/s).
constexpr double slack_of(std::int64_t requests) {
  return requests == 1 ? 1e-3 : 5e-3;
}
constexpr double kUndecided = 1e-2;  // of the log of a time between tokens, its interval's too

// A tuple as the rule of near duplicates looks at it, by tokens a microsecond.
RankedTuple as_ranked(const Strategy& strategy, double rate, double half_width) {
  return {&strategy, std::log(rate), half_width};
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

// The baselines, and what is no tree of the grid.
std::vector<bool> priced_anyway(std::vector<bool> baselines,
                                const std::vector<Strategy>& candidates,
                                const std::vector<bool>& within) {
  for (std::size_t i = 0; i < baselines.size(); ++i) {
    baselines[i] = baselines[i] || (within[i] && candidates[i].adapts_length);
  }
  return baselines;
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
  std::string note;
  const Evaluation e =
      frame.pricer.evaluate(strategy_of(tuple, frame), options_.buckets[frame.bucket], note);
  return {.rate = e.throughput * 1e-6,
          .half_width = std::log(compared_interval(e).high / e.throughput),
          .most_ms = inter_token_interval_ms(e, frame.batch.requests).high,
          .is_priced = true,
          .tuple = &tuple};
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
  const Strategy& strategy = strategy_of(tuple, frame);
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
    const double whole_width =
        std::hypot(out.half_width, kNinety * texts, kNinety * contexts_log_error(std::span(times)));
    const double requests = static_cast<double>(frame.batch.requests);
    out.most_ms = 1e-3 * requests / out.rate * std::exp(whole_width);
  }
  return out;
}

std::array<bool, 2> Replanner::fits_on(const HardwareSpec& hardware, const DraftShape& draft,
                                       std::size_t bucket, std::int64_t requests) const {
  std::array<bool, 2> out{};
  for (const bool drafts : {false, true}) {
    const MemoryNeed need =
        memory_need({.draft = drafts ? chain_of(1) : DraftChoice{}}, target_, draft,
                    options_.draft_model ? &*options_.draft_model : nullptr,
                    options_.buckets[bucket].high, bytes_of(fit_.dtype), hardware);
    out[drafts ? 1 : 0] = need.requests() >= requests;
  }
  return out;
}

std::vector<Replanner::Ranked> Replanner::rates_of(const Cell& cell, const Frame& frame) const {
  std::vector<Ranked> out;
  out.reserve(cell.size());
  double best = 0.0;
  for (const Tuple& tuple : cell) {
    if (frame.allowed[static_cast<std::size_t>(tuple.candidate)] && may_run(tuple, frame)) {
      out.push_back(is_timed(tuple, frame)
                        ? measured_rank(tuple, frame)
                        : Ranked{.rate = rate_of(tuple, composed_times(tuple, frame), frame),
                                 .tuple = &tuple});
      best = std::max(best, out.back().rate);
    }
  }
  const double least = frame.near * best * (1.0 - slack_of(frame.batch.requests));
  std::erase_if(out, [least](const Ranked& tuple) { return tuple.rate < least; });
  return out;
}

// Whether a plan without it is the same: it is like a listed one, or does not keep the bound. Of
// one that is not priced, as far as the model of steps by parts decides it.
bool Replanner::is_out(const Ranked& ranked, const std::vector<RankedTuple>& listed,
                       const Frame& frame) const {
  if (options_.aims.itl_ms) {
    const double late = std::log(ranked.most_ms / *options_.aims.itl_ms);
    if (ranked.is_priced ? ranked.most_ms > *options_.aims.itl_ms : late > kUndecided) {
      return true;
    }
  }
  const RankedTuple tuple =
      as_ranked(strategy_of(*ranked.tuple, frame), ranked.rate, ranked.half_width);
  const double slack = ranked.is_priced ? 0.0 : slack_of(frame.batch.requests);
  return options_.distinct &&
         std::any_of(listed.begin(), listed.end(), [&](const RankedTuple& other) {
           return are_near_duplicates(other, tuple, slack);
         });
}

// Best first by the most that the model of steps by parts leaves open. Who comes first is priced,
// and when it comes first again it is the next one of a plan.
void Replanner::mark_best(const Cell& cell, const Frame& frame, std::vector<bool>& marked) const {
  const auto mark = [&marked](const Tuple& tuple) {
    marked[static_cast<std::size_t>(tuple.candidate)] = true;
  };
  const auto unfit = std::find_if(cell.begin(), cell.end(), [&](const Tuple& tuple) {
    return frame.allowed[static_cast<std::size_t>(tuple.candidate)] && !may_run(tuple, frame);
  });
  if (unfit != cell.end()) {
    mark(*unfit);
  }
  const double slack = slack_of(frame.batch.requests);
  const auto most = [slack](const Ranked& r) {
    return r.is_priced ? r.rate : r.rate * (1.0 + slack);
  };
  // Of equals the one that stands first in the grid, and in the cell.
  const auto after = [&most](const Ranked& a, const Ranked& b) {
    return most(a) != most(b) ? most(a) < most(b) : a.tuple > b.tuple;
  };
  std::vector<Ranked> open = rates_of(cell, frame);
  std::make_heap(open.begin(), open.end(), after);
  std::vector<RankedTuple> listed;
  bool knows_best = false;  // which is named where none keeps the bound
  while (!open.empty() && std::ssize(listed) < kept_) {
    std::pop_heap(open.begin(), open.end(), after);
    Ranked next = open.back();
    open.pop_back();
    if (!next.is_priced) {
      if (!knows_best || !is_out(composed_rank(*next.tuple, frame), listed, frame)) {
        open.push_back(measured_rank(*next.tuple, frame));
        std::push_heap(open.begin(), open.end(), after);
      }
      continue;
    }
    mark(*next.tuple);
    knows_best = true;
    if (!is_out(next, listed, frame)) {
      listed.push_back(as_ranked(strategy_of(*next.tuple, frame), next.rate, next.half_width));
    }
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
  ComposedTuples composed;
  for (const HardwareSpec& hardware : machines) {
    const StrategySpace::Times times = batch.space.times_on(hardware, draft);
    Pricer pricer(fit, hardware, target_, draft, options_.requests, requests);
    pricer.keep_in(composed);
    const Frame frame{.bucket = bucket,
                      .batch = batch,
                      .times = times,
                      .accepted = accepted,
                      .allowed = within.kept,
                      .pricer = pricer,
                      .log_error = pricer.log_error(options_.buckets[bucket]),
                      .corrected = hardware.key == fit.hardware_key && requests == 1,
                      .near = near,
                      .fits = requests > 1 ? fits_on(hardware, draft, bucket, requests)
                                           : std::array<bool, 2>{true, true}};
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
                        .corrected = corrected && batch.requests == 1,
                        .fits = options_.concurrency.size() > 1
                                    ? fits_on(hardware, draft, b, batch.requests)
                                    : std::array<bool, 2>{true, true}};
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
