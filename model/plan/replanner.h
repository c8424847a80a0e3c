// Plans for machine after machine and draft after draft, each within a frame: a model of steps by
// parts (strategy_space.h) ranks all tuples, and who comes first is priced as a plan prices it,
// until a cell's first distinct ones are found. The answer is the full plan's as long as that model
// is off by half a percent at most.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <vector>

#include "model/plan/composed_tuples.h"
#include "model/plan/near_duplicates.h"
#include "model/plan/planner.h"
#include "model/plan/strategy_space.h"

namespace versieve {

class Pricer;

class Replanner {
 public:
  // What a pair's tokens a step and a draft give on every machine: for the plans of one such pair.
  class PairTerms {
    friend class Replanner;
    std::vector<std::vector<AcceptedTokens>> accepted_;  // [bucket, yield]
    ComposedTuples composed_;
  };

  // Keeps a reference to the fit. Throws as plan() does.
  Replanner(const FittedModel& fit, const LlmShape& target, PlanOptions options,
            std::int64_t kept = 14);

  PlanTable plan_on(const HardwareSpec& hardware) const;
  // With another pair's tokens a step in place of the fit's. Throws as plan() does.
  PlanTable plan_on(const HardwareSpec& hardware, const AcceptanceModel& acceptance) const;
  // And with another draft of the same window than the options'.
  PlanTable plan_on(const HardwareSpec& hardware, const AcceptanceModel& acceptance,
                    const DraftShape& draft) const;
  // And with other terms of losses than the options'.
  PlanTable plan_on(const HardwareSpec& hardware, const AcceptanceModel& acceptance,
                    const DraftShape& draft, const LossTerms& loss) const;
  // The same by what was worked out for that acceptance and draft before, and adding to it.
  // REQUIRES: terms that serve these two alone, and one plan at a time.
  PlanTable plan_on(const HardwareSpec& hardware, const AcceptanceModel& acceptance,
                    const DraftShape& draft, const LossTerms& loss, PairTerms& terms) const;
  PlanTable plan_on(const HardwareSpec& hardware,
                    PairTerms& terms) const;  // the fit's and options'
  // Of one range, the strategies that rank on any of these machines, by their own classes: the
  // baselines, and the first distinct ones. `requests`: of every step, within the memory where
  // there are several. `near`: of a class's best rate on a machine, what its others reach there, by
  // the model of steps by parts and but for half a percent.
  std::vector<Strategy> leading_on(std::span<const HardwareSpec> machines,
                                   const AcceptanceModel& acceptance, const DraftShape& draft,
                                   const LossTerms& loss, std::size_t bucket,
                                   std::int64_t requests = 1, double near = 0.0) const;

 private:
  struct Tuple {
    std::int32_t strategy = 0;                   // index into the space's strategies
    std::int32_t candidate = 0;                  // index into the candidates
    std::int32_t yield = 0;                      // index into yields_
    std::array<float, kBucketSamples> factor{};  // [sample]: measured over composed time
    // Index into Batch::factors, of steps of several requests that were measured.
    std::int32_t factors = -1;
  };
  using Cell = std::vector<Tuple>;  // the tuples of one class in one bucket
  // All that is known of steps of so many requests.
  struct Batch {
    StrategySpace space;
    std::int64_t requests = 1;
    std::vector<Cell> cells;  // [bucket, own class]
    // Of each kind of step, where steps of so many requests were measured.
    std::vector<std::array<StrategySpace::BatchFactors, kBucketSamples>> factors = {};
  };

  // Of one bucket alone where it is named.
  Batch batch_of(std::int64_t requests, std::optional<std::size_t> bucket = {}) const;
  void fill(Batch& batch, std::size_t bucket, PrecisionClass precision) const;
  // One bucket on one machine.
  struct Frame {
    std::size_t bucket = 0;
    const Batch& batch;
    const StrategySpace::Times& times;
    const std::vector<AcceptedTokens>& accepted;
    const std::vector<bool>& allowed;  // [candidate]: within the limit of loss
    const Pricer& pricer;
    double log_error = 0.0;  // of latencies
    bool corrected = false;  // by measured steps of single tuples, all of which are marked
    double near = 0.0;       // leading_on
    // Whether so many requests are within the machine's memory, by whether they draft.
    std::array<bool, 2> fits = {true, true};
  };
  using Times = std::array<double, kBucketSamples>;  // µs of a tuple's step
  std::array<bool, 2> fits_on(const HardwareSpec& hardware, const DraftShape& draft,
                              std::size_t bucket, std::int64_t requests) const;
  bool may_run(const Tuple& tuple, const Frame& frame) const {
    return frame.fits[strategy_of(tuple, frame).draft.speculates() ? 1 : 0];
  }
  // A tuple of a cell by tokens a microsecond.
  struct Ranked {
    double rate = 0.0;
    double half_width = 0.0;  // of its interval on the same texts, in log
    double most_ms = 0.0;     // between a request's tokens: its interval's upper end
    bool is_priced = false;   // as a plan prices it; else by the parts of its step
    const Tuple* tuple = nullptr;
  };
  const Strategy& strategy_of(const Tuple& tuple, const Frame& frame) const {
    return all_.of(frame.bucket)[static_cast<std::size_t>(tuple.candidate)];
  }
  Ranked measured_rank(const Tuple& tuple, const Frame& frame) const;
  bool is_wholly_priced() const;
  StrategySpace::BatchFactors batch_factors(const Strategy& strategy, std::int64_t context,
                                            double overlap, std::int64_t requests) const;
  double composed_us(const Tuple& tuple, const Frame& frame, std::size_t sample) const;
  Ranked composed_rank(const Tuple& tuple, const Frame& frame) const;
  Times composed_times(const Tuple& tuple, const Frame& frame) const;
  double rate_of(const Tuple& tuple, const Times& times, const Frame& frame) const;
  // A plain step of several requests is no sum of the parts of one that drafts.
  bool is_timed(const Tuple& tuple, const Frame& frame) const {
    const std::size_t candidate = static_cast<std::size_t>(tuple.candidate);
    return (frame.corrected && measured_[candidate]) ||
           (tuple.factors >= 0 && !all_.of(frame.bucket)[candidate].draft.speculates());
  }
  // Of those that may run and rank, without widths where they are not timed; in the cell's order.
  std::vector<Ranked> rates_of(const Cell& cell, const Frame& frame) const;
  bool is_out(const Ranked& ranked, const std::vector<RankedTuple>& listed,
              const Frame& frame) const;
  // Marks those of the allowed that rank first, by their places among the candidates, and those
  // that a plan's sentences are of: one that does not fit, and of no tuple within a bound the best.
  void mark_best(const Cell& cell, const Frame& frame, std::vector<bool>& marked) const;
  std::vector<AcceptedTokens> accepted_in(std::size_t bucket,
                                          const AcceptanceModel& acceptance) const;
  std::vector<std::vector<AcceptedTokens>> accepted_of(const AcceptanceModel& acceptance) const;
  PlanTable plan_with(const FittedModel& fit, PairTerms& terms, const HardwareSpec& hardware,
                      const DraftShape& draft, const LossTerms& loss) const;

  const FittedModel& fit_;
  LlmShape target_;
  PlanOptions options_;
  DraftShape draft_;  // the options', or what usual_draft says
  std::int64_t kept_;
  Candidates all_;
  std::vector<bool> baselines_;         // [candidate]
  std::vector<bool> measured_;          // [candidate]: a step of it was timed on the fit's machine
  std::vector<std::int32_t> yield_of_;  // [candidate], index into yields_
  std::vector<std::int32_t> yields_;    // candidates that differ in what tokens a step depend on
  std::vector<Batch> batches_;          // of the options' numbers of requests
};

}  // namespace versieve
