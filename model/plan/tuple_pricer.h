// What one tuple costs and yields in one range of contexts: the fit's prediction, corrected by
// measured steps of the same launches. Included by
// planner.cpp and replanner.cpp alone.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "model/cost/step_parts.h"
#include "model/launches/draft_levels.h"
#include "model/launches/step_shape.h"
#include "model/plan/planner.h"
#include "model/words/normal_law.h"

namespace versieve {

inline StepShape step_shape(const Strategy& strategy, const LlmShape& target,
                            const DraftShape& draft, std::int64_t context_len, double overlap,
                            const FittedModel& fit) {
  StepShape shape = asked_step(strategy, target, draft, context_len, fit.dtype == "f32" ? 4 : 2);
  shape.overlap = overlap;
  shape.form = fit.priced_form();
  shape.recorded = fit.conditions.launch == LaunchMode::kGraph;
  shape.one_launch = fit.prices_one_launch(strategy, target, context_len);
  return shape;
}

inline void add_scaled(const StepCost& cost, double weight, StepCost& sum) {
  sum.time_us += weight * cost.time_us;
  sum.dram_bytes += weight * cost.dram_bytes;
  sum.flops += weight * cost.flops;
  sum.launches += weight * cost.launches;
  for (std::size_t i = 0; i < kPhaseCount; ++i) {
    sum.phase_us[i] += weight * cost.phase_us[i];
  }
  for (std::size_t i = 0; i < kBoundCount; ++i) {
    sum.bound_us[i] += weight * cost.bound_us[i];
  }
  for (std::size_t i = 0; i < kTrafficTermCount; ++i) {
    sum.term_bytes[i] += weight * cost.term_bytes[i];
  }
}

inline void scale_time(double factor, StepCost& cost) {
  cost.time_us *= factor;
  for (double& us : cost.phase_us) {
    us *= factor;
  }
  for (double& us : cost.bound_us) {
    us *= factor;
  }
}

// What a composition is handed to for its cost, and for its launches one by one.
inline auto summed(const HardwareSpec& hardware, const CostParameters& parameters,
                   const RunConditions& conditions, StepCost& sum) {
  return [&](const StepWork& work, double weight, double factor) {
    StepCost cost = cost_of(work, hardware, parameters, conditions);
    scale_time(factor, cost);
    add_scaled(cost, weight, sum);
  };
}
inline auto listed(const HardwareSpec& hardware, const CostParameters& parameters,
                   const RunConditions& conditions, std::vector<StepPart>& parts) {
  return [&](const StepWork& work, double weight, double factor) {
    add_parts(work, hardware, parameters, conditions, weight, factor, parts);
  };
}

inline Interval around(double value, double half_width) {
  return {value * std::exp(-half_width), value * std::exp(half_width)};
}

// Whether a step measured with that strategy is a step of this one, priced in that form. With
// groups of one query the traversal order changes no launch.
inline bool same_launches(Strategy measured, const Strategy& strategy, NsaForm form) {
  if (measured.form != form) {
    return false;
  }
  measured.form = strategy.form;
  if (strategy.group_size == 1) {
    measured.order = strategy.order;
  }
  return measured == strategy;
}

// Whether it was measured with a draft of as many tokens. A plain step has none.
inline bool same_draft(const MeasuredStep& measured, const LlmShape& target,
                       const DraftShape& draft) {
  return !measured.strategy.draft.speculates() ||
         (measured.draft_vocab > 0 ? measured.draft_vocab : target.vocab) == draft.vocab;
}

// Predicted and measured latencies of one tuple in one range.
struct Latency {
  StepCost cost;
  double log_error = 0.0;  // standard deviation of log latency
  Provenance source = Provenance::kPredicted;
};

class Pricer {
 public:
  Pricer(const FittedModel& fit, const HardwareSpec& hardware, const LlmShape& target,
         const DraftShape& draft)
      : fit_(fit),
        hardware_(fit.priced_on(hardware)),
        target_(target),
        draft_(draft),
        parameters_(fit.parameters()),
        form_(fit.priced_form()),
        scaled_(hardware.key != fit.hardware_key),
        calibrated_(scaled_ && is_calibrated(hardware, fit.machine)),
        carried_half_width_(fit.carried_half_width(hardware)),
        carried_system_half_width_(fit.carried_system_half_width(hardware)),
        same_geometry_(fit.geometry == target.name),
        is_small_pair_(is_small_pair(draft, target.vocab)) {}

  bool scaled() const { return scaled_; }
  bool calibrated() const { return calibrated_; }
  const RateScale& scale() const { return hardware_.scale; }
  // Half-width of log latency that another machine than the fit's adds.
  double transfer_width() const { return carried_half_width_; }
  double system_transfer_width() const { return carried_system_half_width_; }  // of the others
  double log_error(const ContextBucket& bucket) const {
    return (fit_.half_width(bucket.low, bucket.high) + transfer_width()) / kNinety;
  }
  NsaForm form() const { return form_; }
  const DraftShape& draft() const { return draft_; }

  // Hands the step's launches to take(work, weight, factor): `weight` times, their times by
  // `factor`.
  template <class Take>
  void compose(const Strategy& strategy, std::int64_t context, double overlap, Take take) const {
    StepWork work;
    const StepShape shape = step_shape(strategy, target_, draft_, context, overlap, fit_);
    add_step(shape, parameters_[index_of(SharedParameter::kUniqueGrowth)], work);
    correct_attention(shape, false, fit_.attention_time, work);
    take(work, 1.0, std::exp(fit_.step_time.at(step_regime(shape))));
  }

  std::vector<StepPart> parts(const Strategy& strategy, std::int64_t context,
                              double overlap) const {
    std::vector<StepPart> parts;
    compose(strategy, context, overlap, listed(hardware_, parameters_, fit_.conditions, parts));
    return parts;
  }

  StepCost predict(const Strategy& strategy, std::int64_t context, double overlap) const {
    StepCost cost;
    compose(strategy, context, overlap, summed(hardware_, parameters_, fit_.conditions, cost));
    return cost;
  }

  // Buckets that begin beyond the longest measured context, and trees of more nodes than any
  // measured, lie outside the data.
  std::string bucket_outside_because(const ContextBucket& bucket) const {
    return fit_.outside_because(std::max(bucket.low + 1, fit_.shortest_context()), 1);
  }
  bool is_measured_width(const Strategy& strategy, const ContextBucket& bucket) const {
    return fit_
        .outside_because(std::max(bucket.low + 1, fit_.shortest_context()), strategy.draft.nodes)
        .empty();
  }

  Evaluation evaluate(const Strategy& strategy, const ContextBucket& bucket,
                      std::string& note) const {
    const AcceptedTokens accepted =
        accepted_tokens(fit_.acceptance, strategy, bucket.low, bucket.high);
    const Latency latency = latency_of(strategy, bucket);
    Evaluation e;
    e.strategy = strategy;
    e.cost = latency.cost;
    e.expected_accepted = accepted.mean;
    e.throughput = accepted.mean / latency.cost.time_us * 1e6;
    e.accepted_interval = around(accepted.mean, kNinety * accepted.log_error);
    e.latency_interval_us = around(latency.cost.time_us, kNinety * latency.log_error);
    e.throughput_interval =
        around(e.throughput, kNinety * std::hypot(accepted.log_error, latency.log_error));
    e.source = source_of(accepted.source, latency.source);
    note = note_of(strategy, accepted);
    if (is_small_pair_ && strategy.draft.nodes > fit_.small_pair_nodes) {
      note += std::string(note.empty() ? "" : "; ") +
              (fit_.small_pair_nodes == 0
                   ? "no step of so small a pair was measured"
                   : "larger than any tree of a small pair whose steps were measured");
    }
    return e;
  }

 private:
  // A number of two sources is what the weaker one is.
  static Provenance source_of(Provenance accepted, Provenance latency) {
    if (accepted == Provenance::kPredicted || latency == Provenance::kPredicted) {
      return Provenance::kPredicted;
    }
    return accepted == Provenance::kMeasured ? latency : accepted;
  }

  static std::string note_of(const Strategy& strategy, const AcceptedTokens& accepted) {
    std::string note;
    if (strategy.precision() != PrecisionClass::kStrict) {
      note = "lossy: may change tokens";
    }
    if (accepted.other_schedule) {
      note += "; acceptance measured without reuse";
    }
    if (accepted.other_group) {
      note += "; acceptance measured without approximate groups";
    }
    if (accepted.other_tree) {
      note += "; acceptance under reuse and groups measured on other trees";
    }
    if (accepted.deeper) {
      note += std::string(note.empty() ? "" : "; ") +
              "deeper than any tree whose acceptance was measured";
    }
    if (accepted.outside_data) {
      note += std::string(note.empty() ? "" : "; ") + "acceptance from the nearest context range";
    }
    return note;
  }

  Latency latency_of(const Strategy& strategy, const ContextBucket& bucket) const {
    Latency out;
    const double overlap = accepted_overlap(fit_.acceptance, bucket.low, bucket.high);
    for (std::int64_t i = 0; i < kBucketSamples; ++i) {
      const std::int64_t context = sampled_context(bucket, i);
      add_scaled(predict(strategy, context, overlap), 1.0 / kBucketSamples, out.cost);
    }
    out.log_error = log_error(bucket);
    apply_measured(strategy, bucket, out);
    return out;
  }

  // Measured steps of this tuple in this range correct the prediction; on another machine or
  // geometry, and with a draft of another vocabulary, they say nothing beyond the fit.
  void apply_measured(const Strategy& strategy, const ContextBucket& bucket, Latency& out) const {
    if (scaled_ || !same_geometry_) {
      return;
    }
    double log_ratio = 0.0;
    double squares = 0.0;
    double sampling = 0.0;
    double count = 0.0;
    for (const MeasuredStep& m : fit_.steps) {
      if (same_launches(m.strategy, strategy, form_) && same_draft(m, target_, draft_) &&
          in_range(m.context_len, bucket.low, bucket.high)) {
        const double ratio = std::log(m.time_us / m.predicted_us);
        log_ratio += ratio;
        squares += ratio * ratio;
        sampling = std::max(sampling, m.log_error);
        count += 1.0;
        out.source = m.source;
      }
    }
    if (count == 0.0) {
      return;
    }
    const double mean = log_ratio / count;
    const double spread =
        count > 1.0 ? std::sqrt(std::max(0.0, squares / count - mean * mean)) : 0.5 * out.log_error;
    scale_time(std::exp(mean), out.cost);
    out.log_error = std::hypot(sampling, spread);
  }

  const FittedModel& fit_;
  HardwareSpec hardware_;
  const LlmShape& target_;
  DraftShape draft_;
  CostParameters parameters_;
  NsaForm form_;
  bool scaled_;
  bool calibrated_;  // scaled by what was measured there
  double carried_half_width_;
  double carried_system_half_width_;
  bool same_geometry_;
  bool is_small_pair_;  // steps of others say little of its steps
};

}  // namespace versieve
