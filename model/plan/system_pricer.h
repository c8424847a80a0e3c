// What a tuple of the other systems costs and yields in one range of contexts: a step of the dense
// target of the same geometry (ReSA with its share of a rectification pass, SpecAttn with what it
// chooses by), or a step of the NSA target whose chain is tested by sigmoids. Of a dense target all
// tuples, its trees and chains too.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/plan/chain_shares.h"
#include "model/plan/chain_yields.h"
#include "model/plan/tuple_pricer.h"

namespace versieve {

// Of a dense target: its draft where that is a model of its own, and whether the fit's acceptance
// is of this very pair.
struct DenseDraft {
  std::optional<LlmShape> model;
  bool own_acceptance = false;
  // Tokens a step of chains by their own method; null: nobody asks.
  const ChainYields* yields = nullptr;
};

class SystemPricer {
 public:
  SystemPricer(const FittedModel& fit, const HardwareSpec& hardware, const LlmShape& target,
               const Pricer& own, DenseDraft draft = {});

  StepCost predict(const Strategy& strategy, std::int64_t context) const;
  // Its launches, which on another machine than the fit's depend on no machine.
  void compose(const Strategy& strategy, std::int64_t context, StepSink& sink) const;
  AcceptedTokens accepted_of(const Strategy& strategy, const ContextBucket& bucket) const;
  std::vector<StepPart> parts(const Strategy& strategy, std::int64_t context) const;
  // REQUIRES: system_evidence(strategy, ...) for the bucket's contexts.
  Evaluation evaluate(const Strategy& strategy, const ContextBucket& bucket,
                      std::string& note) const;
  // The dense target whose steps ReSA's and SpecAttn's are.
  const LlmShape& dense() const { return dense_; }
  // The model of its own that drafts for it; null: a draft head, or no draft.
  const LlmShape* draft_model_of(const Strategy& strategy) const;
  // Whether the batched engine runs such steps.
  bool is_batched(const Strategy& strategy) const;
  // Does its price rest on what was measured of the pair's chains, or else of a lender's, where it
  // rests on any?
  bool is_of_measured_chain(const Strategy& strategy) const {
    return chain_shares_.of(strategy).has_value();
  }
  bool is_of_lent_share(const Strategy& strategy) const {
    return !is_of_measured_chain(strategy) && lent_share_of(strategy).has_value();
  }
  // Of a chain that sigmoids test: what the whole of its sampler takes, and that of the exact one,
  // by the launches that run (model/launches/sampling.h).
  struct SamplerTimes {
    double sigmoid_us = 0.0, exact_us = 0.0;

    bool gains() const { return sigmoid_us < exact_us; }
    std::string text() const;  // "its sampler takes 9.3 us, the exact one 9.0 us"
  };
  SamplerTimes sampler_times(const Strategy& strategy) const;
  // Its tokens a step as points of its own method say them; none where there are none.
  std::optional<ChainYields::Found> yield_of(const Strategy& strategy,
                                             const ContextBucket& bucket) const;

 private:
  // A step, or a share of one: `weight` of its cost.
  struct DenseStep {
    Strategy strategy;
    std::int64_t context_len = 0;
    std::int64_t queries = 1;
    DenseRead read;
    double weight = 1.0;
    double factor = 1.0;  // of its time
  };

  PricedOn priced() const { return {hardware_, parameters_, fit_.conditions}; }
  bool is_dense_target() const { return target_.attention == AttentionKind::kDense; }
  DraftShape dense_draft() const;
  // None of a strategy that chooses no tokens.
  Estimate95 chosen_share_of(const Strategy& strategy) const;
  // What sigmoids keep does not depend on how the target attends.
  std::optional<Estimate95> lent_share_of(const Strategy& strategy) const;
  // Measured, else lent, else assumed, the latter two with a wider interval.
  Estimate95 sigmoid_acceptance_of(const Strategy& strategy) const;
  DenseRead read_of(const Strategy& strategy, std::int64_t context, double chosen_share) const;
  double time_us(const Strategy& strategy, std::int64_t context, double chosen_share) const;
  // `chosen_share`: of the context, of SpecAttn alone.
  void compose(const Strategy& strategy, std::int64_t context, double chosen_share,
               StepSink& sink) const;
  void compose_length(const Strategy& strategy, std::int64_t context, double chosen_share,
                      StepSink& sink) const;
  void compose_dense(const DenseStep& step, StepSink& sink) const;
  void compose_self_drafted(const Strategy& strategy, std::int64_t context, StepSink& sink) const;
  void compose_draft_model(const DenseStep& step, const LlmShape& model, StepSink& sink) const;
  // The launches of a chain's sampler alone.
  double sampler_us(SamplingAlgorithm algorithm, std::int64_t nodes) const;
  double period_factor(const Strategy& strategy, std::int64_t context) const;
  double measured_factor(const Strategy& strategy, std::int64_t context) const;
  std::string self_note_of(const Strategy& strategy, const ContextBucket& bucket) const;
  std::string tokens_note_of(const Strategy& strategy, const ContextBucket& bucket) const;
  std::string sigmoid_note_of(const Strategy& strategy) const;
  double log_error(const Strategy& strategy, const ContextBucket& bucket) const;
  std::string note_of(const Strategy& strategy, const ContextBucket& bucket) const;

  const FittedModel& fit_;
  HardwareSpec hardware_;
  const LlmShape& target_;
  LlmShape dense_;
  CostParameters parameters_;
  const Pricer& own_;
  DenseDraft draft_;
  ChainShares chain_shares_, lent_shares_;
  LlmShape assumed_draft_;  // SpecAttn's draft model, where none is planned with
};

}  // namespace versieve
