#include "model/plan/tuple_pricer.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "model/cost/batch_error.h"
#include "model/launches/draft_levels.h"
#include "model/launches/step_composition.h"

namespace versieve {
namespace {

// Of a step whose groups' blocks are taken from the other order (an assumption: groups of eight of
// the one pair measured both ways load 0.03 more depth first, and they are a part of a step).
constexpr double kOrderLogError = 0.02;
// A step that was measured at one context tells the others of its bucket half of what the fit
// misses (an assumption).
constexpr double kOtherContexts = 0.5;
// Of a step that draws its tokens and of which the greedy form alone was timed (an assumption).
constexpr double kDrawnLogError = 0.02;

// A number of two sources is what the weaker one is.
Provenance source_of(Provenance accepted, Provenance latency) {
  if (accepted == Provenance::kPredicted || latency == Provenance::kPredicted) {
    return Provenance::kPredicted;
  }
  return accepted == Provenance::kMeasured ? latency : accepted;
}

std::string note_of(const Strategy& strategy, const AcceptedTokens& accepted) {
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
  if (accepted.other_order) {
    note += "; acceptance of its approximate groups measured in the other order alone";
  }
  if (accepted.deeper) {
    note += std::string(note.empty() ? "" : "; ") +
            "deeper than any tree whose acceptance was measured";
  }
  if (strategy.adapts_length) {
    note += std::string(note.empty() ? "" : "; ") +
            "its length follows what is accepted, and the host leads its steps";
  }
  if (accepted.outside_data) {
    note += std::string(note.empty() ? "" : "; ") + "acceptance from the nearest context range";
  }
  return note;
}

}  // namespace

bool same_launches(Strategy measured, const Strategy& strategy, NsaForm form) {
  if (measured.form != form) {
    return false;
  }
  measured.form = strategy.form;
  if (strategy.group_size == 1) {
    measured.order = strategy.order;
  }
  return measured == strategy;
}

bool same_models(const MeasuredStep& measured, const LlmShape& target, const DraftShape& draft) {
  const std::int64_t tokens = measured.draft_vocab > 0 ? measured.draft_vocab : target.vocab;
  return measured.geometry == target.name &&
         (!measured.strategy.draft.speculates() || tokens == draft.vocab);
}

Pricer::Pricer(const FittedModel& fit, const HardwareSpec& hardware, const LlmShape& target,
               const DraftShape& draft, std::int64_t requests, std::int64_t concurrency)
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
      carried_batch_half_width_(fit.carried_batch_half_width(hardware)),
      is_small_pair_(is_small_pair(draft, target.vocab)),
      requests_(std::max(requests, concurrency)),
      concurrency_(concurrency) {
  for (const MeasuredRegime& r : fit.regimes) {
    measured_rows_ = std::max(measured_rows_, static_cast<double>(r.num_queries));
  }
}

double Pricer::with_batch_error(double of_one, std::int64_t nodes, AttentionKind target,
                                bool as_batched) const {
  const double rows = static_cast<double>(concurrency_ * nodes);
  if (as_batched && concurrency_ > 1 && fit_.batch.measured(target)) {
    const double borrowed = is_batch_geometry(fit_.batch, target_)
                                ? 0.0
                                : batch_log_error(concurrency_, rows, measured_rows_);
    return std::hypot(batch_log_error(concurrency_, rows, measured_rows_, fit_.batch) +
                          batch_transfer_width() / kNinety,
                      borrowed);
  }
  return std::hypot(of_one, batch_log_error(concurrency_, rows, measured_rows_));
}

double Pricer::sharing_error(const Strategy& strategy, const ContextBucket& bucket) const {
  if (concurrency_ <= 1 || strategy.group_size <= 1 || target_.attention != AttentionKind::kNsa ||
      fit_.acceptance.positional.empty()) {
    return 0.0;
  }
  const AcceptanceModel& pair = fit_.acceptance;
  const bool is_assumed = pair.overlap_of.sha256.empty() || pair.overlap_of.sha256 != pair.sha256;
  const double group = static_cast<double>(std::min(strategy.group_size, strategy.draft.nodes));
  const double overlap =
      accepted_sharing(pair, strategy.order, bucket.low, bucket.high).order.overlap;
  return sharing_log_error(concurrency_, group, overlap, is_assumed, fit_.batch);
}

void Pricer::compose(const Strategy& strategy, std::int64_t context, double overlap,
                     StepSink& sink) const {
  for (const DraftedLength& drafted : drafted_lengths(strategy, fit_, context)) {
    StepWork work;
    const double factor = compose_length(drafted.strategy, context, overlap, work);
    sink.take(work, drafted.share, factor);
  }
}

double Pricer::compose_length(const Strategy& strategy, std::int64_t context, double overlap,
                              StepWork& work) const {
  const StepShape shape =
      step_shape(strategy, target_, draft_, context, overlap, fit_, concurrency_);
  add_step(shape, parameters_[index_of(SharedParameter::kUniqueGrowth)], work);
  work.led_by_host = !shape.recorded;
  correct_attention(shape, false, fit_.attention_time, work);
  correct_sampler(shape, fit_.system_time, work);
  return runs_as_measured(fit_, shape) ? as_measured(fit_, shape, work)
                                       : std::exp(fit_.step_time.at(step_regime(shape)));
}

std::shared_ptr<ComposedStep> Pricer::composed(const Strategy& strategy, std::int64_t context,
                                               double overlap) const {
  StepWork work;
  const double factor = compose_length(strategy, context, overlap, work);
  return std::make_shared<ComposedStep>(work, factor);
}

StepCost Pricer::predict(const Strategy& strategy, std::int64_t context, double overlap) const {
  StepSum sum(priced());
  compose(strategy, context, overlap, sum);
  return sum.cost();
}

std::vector<StepPart> Pricer::parts(const Strategy& strategy, std::int64_t context,
                                    double overlap) const {
  StepList list(priced());
  compose(strategy, context, overlap, list);
  return list.parts();
}

ComposedTuple Pricer::composed(const Strategy& strategy, const ContextBucket& bucket,
                               ComposedTuples& known) const {
  TokensInRange& tokens =
      tokens_.try_emplace({bucket.low, bucket.high}, fit_.acceptance, bucket.low, bucket.high)
          .first->second;
  ComposedTuple out{
      .accepted = tokens.of(strategy),
      .other_order =
          strategy.group_size > 1 &&
          accepted_sharing(fit_.acceptance, strategy.order, bucket.low, bucket.high).other_order,
      .steps = {}};
  const double overlap = accepted_overlap(fit_.acceptance, bucket.low, bucket.high);
  for (std::size_t i = 0; i < out.steps.size(); ++i) {
    const std::int64_t context = sampled_context(bucket, static_cast<std::int64_t>(i));
    for (const DraftedLength& drafted : drafted_lengths(strategy, fit_, context)) {
      out.steps[i].push_back({drafted.share, known.step(drafted, context, overlap, *this)});
    }
  }
  return out;
}

StepCost Pricer::cost_of(const ComposedTuple& tuple,
                         std::span<double, kBucketSamples> times_us) const {
  StepCost mean;
  StepWork scratch;
  for (std::size_t i = 0; i < times_us.size(); ++i) {
    StepCost cost;
    for (const ComposedTuple::Share& share : tuple.steps[i]) {
      add_scaled(share.step->cost_on(machine_, priced(), scratch), share.weight, cost);
    }
    times_us[i] = cost.time_us;
    add_scaled(cost, 1.0 / kBucketSamples, mean);
  }
  return mean;
}

Evaluation Pricer::evaluate(const Strategy& strategy, const ContextBucket& bucket,
                            std::string& note) const {
  if (kept_ != nullptr) {
    return evaluate(strategy, bucket, kept_->of(strategy, bucket, *this), note);
  }
  ComposedTuples alone;
  return evaluate(strategy, bucket, composed(strategy, bucket, alone), note);
}

Evaluation Pricer::evaluate(const Strategy& strategy, const ContextBucket& bucket,
                            const ComposedTuple& tuple, std::string& note) const {
  const AcceptedTokens& accepted = tuple.accepted;
  const Latency latency = latency_of(strategy, bucket, tuple);
  Evaluation e;
  e.strategy = strategy;
  e.cost = latency.cost;
  e.expected_accepted = accepted.mean;
  e.throughput = static_cast<double>(concurrency_) * accepted.mean / latency.cost.time_us * 1e6;
  add_intervals(accepted, latency.error, requests_, e);
  e.source = source_of(accepted.source, latency.source);
  note = note_of(strategy, accepted);
  if (latency.other_order) {
    note += std::string(note.empty() ? "" : "; ") +
            "what its groups share measured in the other order alone";
  }
  if (is_small_pair_ && strategy.draft.nodes > fit_.small_pair_nodes) {
    note += std::string(note.empty() ? "" : "; ") +
            (fit_.small_pair_nodes == 0
                 ? "no step of so small a pair was measured"
                 : "larger than any tree of a small pair whose steps were measured");
  }
  return e;
}

std::string Pricer::bucket_outside_because(const ContextBucket& bucket) const {
  return fit_.outside_because(std::max(bucket.low + 1, fit_.shortest_context()), 1);
}

bool Pricer::is_measured_width(const Strategy& strategy, const ContextBucket& bucket) const {
  return fit_
      .outside_because(std::max(bucket.low + 1, fit_.shortest_context()), strategy.draft.nodes)
      .empty();
}

double Pricer::log_error(const ContextBucket& bucket) const {
  return (fit_.half_width(bucket.low, bucket.high) + transfer_width()) / kNinety;
}

Pricer::Latency Pricer::latency_of(const Strategy& strategy, const ContextBucket& bucket,
                                   const ComposedTuple& tuple) const {
  Latency out{.cost = {}, .error = {}, .other_order = tuple.other_order};
  std::array<double, kBucketSamples> times_us{};
  out.cost = cost_of(tuple, times_us);
  out.error = {.step = log_error(bucket), .contexts = contexts_log_error(times_us)};
  if (out.other_order) {
    out.error.step = std::hypot(out.error.step, kOrderLogError);
  }
  apply_measured(strategy, bucket, out);
  out.error.step =
      std::hypot(with_batch_error(out.error.step, strategy.draft.nodes, target_.attention, true),
                 sharing_error(strategy, bucket));
  return out;
}

// Measured steps of this tuple in this range correct the prediction; on another machine or
// geometry, with a draft of another vocabulary, and of several requests (all were of one) they say
// nothing beyond the fit.
void Pricer::apply_measured(const Strategy& strategy, const ContextBucket& bucket,
                            Latency& out) const {
  if (scaled_ || concurrency_ > 1) {
    return;
  }
  // Of steps that draw the launches are the same at every temperature; where none was timed, greedy
  // ones say what the prediction of the rest misses.
  const auto is_of = [&](const MeasuredStep& m, bool draws) {
    return same_models(m, target_, draft_) && same_launches(m.strategy, strategy, form_) &&
           in_range(m.context_len, bucket.low, bucket.high) && (m.temperature > 0.0) == draws;
  };
  const bool draws =
      fit_.temperature > 0.0 && std::any_of(fit_.steps.begin(), fit_.steps.end(),
                                            [&](const MeasuredStep& m) { return is_of(m, true); });
  const bool stands_in = fit_.temperature > 0.0 && !draws;
  double log_ratio = 0.0;
  double squares = 0.0;
  double sampling = 0.0;
  double count = 0.0;
  std::int64_t shortest = bucket.high, longest = bucket.low;
  for (const MeasuredStep& m : fit_.steps) {
    if (is_of(m, draws)) {
      const double ratio = std::log(m.time_us / m.predicted_us);
      log_ratio += ratio;
      squares += ratio * ratio;
      sampling = std::max(sampling, m.log_error);
      count += 1.0;
      shortest = std::min(shortest, m.context_len);
      longest = std::max(longest, m.context_len);
      out.source = stands_in ? out.source : m.source;
    }
  }
  if (count == 0.0) {
    return;
  }
  const double mean = log_ratio / count;
  const double spread = count > 1.0 ? std::sqrt(std::max(0.0, squares / count - mean * mean))
                                    : kOtherContexts * out.error.step;
  if (shortest == longest) {  // of other contexts the fit alone speaks
    out.error.contexts = std::hypot(out.error.contexts, kOtherContexts * out.error.step);
  }
  scale_time(std::exp(mean), out.cost);
  out.error.step = std::hypot(std::hypot(sampling, spread), stands_in ? kDrawnLogError : 0.0);
  out.other_order = false;  // these very launches were timed
}

}  // namespace versieve
