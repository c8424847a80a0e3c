#include "model/plan/system_pricer.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "model/cost/self_drafted.h"
#include "model/launches/sampling.h"
#include "model/launches/step_composition.h"
#include "model/launches/step_shape.h"
#include "model/plan/system_grid.h"
#include "model/words/assert.h"
#include "model/words/formatted.h"

namespace versieve {
namespace {

// Standard deviation of the logarithm of accepted tokens taken from a pair with another attention:
// an assumption; the same of chains that another verification accepted.
constexpr double kOtherTargetError = 0.1, kOtherMethodError = 0.1;
// Standard deviations from one end of a 95 % interval to the other.
constexpr double kOf95 = 2.0 * 1.959964;

// Attention of a step by what decode points say of it.
void add_dense_step(const StepShape& shape, const ResidualField& field, StepWork& out) {
  add_step(shape, 1.0, out);
  out.led_by_host = !shape.recorded;
  correct_dense_attention(shape, field, out);
  correct_sampler(shape, field, out);
}

std::string percent_text(double share) {
  return formatted("%.0f %%", 100.0 * share);
}

}  // namespace

SystemPricer::SystemPricer(const FittedModel& fit, const HardwareSpec& hardware,
                           const LlmShape& target, const Pricer& own, DenseDraft draft)
    : fit_(fit),
      hardware_(fit.priced_on(hardware)),
      target_(target),
      dense_(dense_sibling(target)),
      parameters_(fit.parameters()),
      own_(own),
      draft_(std::move(draft)),
      chain_shares_(fit.chain_shares),
      lent_shares_(fit.lent_shares.rows),
      assumed_draft_(dense_) {
  assumed_draft_.layers = std::min(assumed_draft_.layers, kAssumedDraftLayers);
}

StepCost SystemPricer::predict(const Strategy& strategy, std::int64_t context) const {
  StepSum sum(priced());
  compose(strategy, context, sum);
  return sum.cost();
}

void SystemPricer::compose(const Strategy& strategy, std::int64_t context, StepSink& sink) const {
  compose(strategy, context, chosen_share_of(strategy).value, sink);
}

std::vector<StepPart> SystemPricer::parts(const Strategy& strategy, std::int64_t context) const {
  StepList list(priced());
  compose(strategy, context, list);
  return list.parts();
}

Evaluation SystemPricer::evaluate(const Strategy& strategy, const ContextBucket& bucket,
                                  std::string& note) const {
  Evaluation e;
  e.strategy = strategy;
  e.cost = StepCost{};
  std::array<double, kBucketSamples> times_us{};
  for (std::size_t i = 0; i < times_us.size(); ++i) {
    const StepCost cost = predict(strategy, sampled_context(bucket, static_cast<std::int64_t>(i)));
    times_us[i] = cost.time_us;
    add_scaled(cost, 1.0 / kBucketSamples, *e.cost);
  }
  const AcceptedTokens accepted = accepted_of(strategy, bucket);
  e.expected_accepted = accepted.mean;
  e.throughput = static_cast<double>(own_.concurrency()) * accepted.mean / e.cost->time_us * 1e6;
  add_intervals(
      accepted,
      {.step = own_.with_batch_error(
           log_error(strategy, bucket), strategy.draft.nodes,
           strategy.attention == AttentionMethod::kNsa ? target_.attention : AttentionKind::kDense,
           is_batched(strategy)),
       .contexts = contexts_log_error(times_us)},
      own_.requests(), e);
  e.source = Provenance::kPredicted;
  note = note_of(strategy, bucket);
  return e;
}

DraftShape SystemPricer::dense_draft() const {
  if (is_dense_target()) {
    return own_.draft();
  }
  DraftShape draft = draft_shape_for(dense_);
  draft.vocab = std::min(draft.vocab, own_.draft().vocab);
  return draft;
}

Estimate95 SystemPricer::chosen_share_of(const Strategy& strategy) const {
  if (strategy.attention != AttentionMethod::kSpecAttn) {
    return {};
  }
  const std::optional<Estimate95> own = chain_shares_.of(strategy);
  const std::optional<Estimate95> share = own ? own : lent_shares_.of(strategy);
  VERSIEVE_ASSERT(share.has_value(), "SpecAttn is priced where its share was measured");
  return *share;
}

std::optional<Estimate95> SystemPricer::lent_share_of(const Strategy& strategy) const {
  std::optional<Estimate95> lent = lent_shares_.of(strategy);
  if (!lent && strategy.sampling == SamplingAlgorithm::kSigmoid) {
    Strategy other = strategy;
    other.attention = strategy.attention == AttentionMethod::kNsa ? AttentionMethod::kDense
                                                                  : AttentionMethod::kNsa;
    lent = lent_shares_.of(other);
  }
  return lent;
}

Estimate95 SystemPricer::sigmoid_acceptance_of(const Strategy& strategy) const {
  if (const std::optional<Estimate95> own = chain_shares_.of(strategy)) {
    return *own;
  }
  Estimate95 lent = lent_share_of(strategy).value_or(
      Estimate95{kAssumedSigmoidAcceptance, kAssumedSigmoidAcceptance, 1.0});
  lent.low = std::min(lent.low, kLeastSigmoidAcceptance);
  return lent;
}

DenseRead SystemPricer::read_of(const Strategy& s, std::int64_t context,
                                double chosen_share) const {
  const double b = static_cast<double>(s.resa_key_block);
  DenseRead read{.method = s.attention,
                 .key_block = s.resa_key_block,
                 .active_ratio = s.resa_active_ratio,
                 .n_min = s.resa_n_min,
                 .n_local = s.resa_n_local,
                 .filled = 0.5 * (b + 1.0),
                 .repeated = resa_overlap(s.resa_key_block)};
  set_indexer(s, read);
  read.chosen_tokens = chosen_share * static_cast<double>(context);
  read.weight_rows = std::max<std::int64_t>(1, s.draft.nodes - 1);
  return read;
}

// What whole periods of such steps say of both: the step and the pass.
double SystemPricer::period_factor(const Strategy& strategy, std::int64_t context) const {
  if (strategy.attention != AttentionMethod::kResa || strategy.resa_rectify_every == 0) {
    return 1.0;
  }
  const StepShape shape =
      step_shape(strategy, dense_, dense_draft(), context, StepShape{}.overlap, fit_);
  return std::exp(fit_.system_time.at(period_regime(shape, strategy.resa_rectify_every)));
}

double SystemPricer::time_us(const Strategy& strategy, std::int64_t context,
                             double chosen_share) const {
  StepSum sum(priced());
  compose(strategy, context, chosen_share, sum);
  return sum.cost().time_us;
}

void SystemPricer::compose(const Strategy& strategy, std::int64_t context, double chosen_share,
                           StepSink& sink) const {
  if (strategy.attention == AttentionMethod::kNsa) {
    own_.compose(strategy, context, accepted_overlap(fit_.acceptance, context - 1, context), sink);
    return;
  }
  for (const DraftedLength& drafted : drafted_lengths(strategy, fit_, context)) {
    WeightedSink weighted(sink, drafted.share);
    compose_length(drafted.strategy, context, chosen_share, weighted);
  }
}

void SystemPricer::compose_length(const Strategy& strategy, std::int64_t context,
                                  double chosen_share, StepSink& sink) const {
  if (strategy.drafts_itself) {
    compose_self_drafted(strategy, context, sink);
    return;
  }
  const double period = period_factor(strategy, context);
  compose_dense({.strategy = strategy,
                 .context_len = context,
                 .queries = strategy.draft.nodes,
                 .read = read_of(strategy, context, chosen_share),
                 .factor = period * measured_factor(strategy, context)},
                sink);
  if (strategy.attention == AttentionMethod::kResa && strategy.resa_rectify_every > 0) {
    const std::int64_t tokens = strategy.resa_rectify_every;
    compose_dense({.strategy = {.sampling = SamplingAlgorithm::kGreedy},
                   .context_len = context,
                   .queries = tokens,
                   .read = {.rewrites = true},
                   .weight = 1.0 / static_cast<double>(tokens),
                   .factor = period},
                  sink);
  }
}

void SystemPricer::compose_dense(const DenseStep& step, StepSink& sink) const {
  Strategy strategy = step.strategy;
  StepShape shape = step_shape(strategy, dense_, dense_draft(), step.context_len,
                               StepShape{}.overlap, fit_, own_.concurrency());
  if (const LlmShape* model = draft_model_of(strategy)) {
    compose_draft_model(step, *model, sink);
    shape.drafts = false;
  }
  shape.num_queries = step.queries;
  shape.dense = step.read;
  StepWork work;
  add_dense_step(shape, fit_.system_time, work);
  if (is_batched(step.strategy) && !step.read.rewrites && runs_as_measured(fit_, shape)) {
    sink.take(work, step.weight, as_measured(fit_, shape, work));
    return;
  }
  sink.take(work, step.weight, step.factor * std::exp(fit_.system_time.at(step_regime(shape))));
}

// What the batched engine takes (engine/run/batch): NSA and dense attention, heads that draft.
bool SystemPricer::is_batched(const Strategy& s) const {
  return (s.attention == AttentionMethod::kNsa || s.attention == AttentionMethod::kDense) &&
         !s.drafts_itself && !s.adapts_length && draft_model_of(s) == nullptr;
}

const LlmShape* SystemPricer::draft_model_of(const Strategy& strategy) const {
  if (!strategy.draft.speculates()) {
    return nullptr;
  }
  if (draft_.model) {
    return &*draft_.model;
  }
  return strategy.attention == AttentionMethod::kSpecAttn ? &assumed_draft_ : nullptr;
}

// A step over chosen blocks for each drafted token, and the chain's verification, which the host
// leads; what timed steps of the kind say comes on top of both.
void SystemPricer::compose_self_drafted(const Strategy& strategy, std::int64_t context,
                                        StepSink& sink) const {
  StepShape shape = step_shape(strategy, dense_, dense_draft(), context, StepShape{}.overlap, fit_,
                               own_.concurrency());
  shape.dense = read_of(strategy, context, 0.0);
  sink.take(self_drafted_work(shape, fit_.system_time), 1.0,
            std::exp(fit_.system_time.at(self_drafted_regime(shape))) *
                measured_factor(strategy, context));
}

// A plain step of the model for each drafted token; the first also takes in what was committed.
void SystemPricer::compose_draft_model(const DenseStep& step, const LlmShape& model,
                                       StepSink& sink) const {
  const Strategy plain{.attention = AttentionMethod::kDense, .sampling = step.strategy.sampling};
  StepShape shape = step_shape(plain, model, dense_draft(), step.context_len, StepShape{}.overlap,
                               fit_, own_.concurrency());
  StepWork work;
  add_dense_step(shape, fit_.system_time, work);
  sink.take(work, step.weight * static_cast<double>(step.strategy.draft.levels()),
            std::exp(fit_.system_time.at(step_regime(shape))));
}

double SystemPricer::sampler_us(SamplingAlgorithm algorithm, std::int64_t nodes) const {
  StepWork sampler;
  const SamplingCase c{.algorithm = algorithm, .batch = own_.concurrency()};
  const std::int64_t bytes = bytes_of(fit_.dtype);
  add_step_sampling(c, target_.vocab, nodes, bytes, sampler);
  StepSum sum(priced());
  sum.take(sampler, 1.0,
           std::exp(fit_.system_time.at(sampling_regime(c, target_.vocab, nodes, bytes))));
  return sum.cost().time_us;
}

std::string SystemPricer::SamplerTimes::text() const {
  return formatted("its sampler takes %.1f us, the exact one %.1f us", sigmoid_us, exact_us);
}

SystemPricer::SamplerTimes SystemPricer::sampler_times(const Strategy& strategy) const {
  return {sampler_us(SamplingAlgorithm::kSigmoid, strategy.draft.nodes),
          sampler_us(SamplingAlgorithm::kExact, strategy.draft.nodes)};
}

// Steps of the same launches near that context, on the fit's machine and of the same target.
double SystemPricer::measured_factor(const Strategy& strategy, std::int64_t context) const {
  const std::string timed = strategy.drafts_itself
                                ? kSelfDraftedSteps
                                : "step " + std::string(name_of(strategy.attention));
  if (own_.scaled() || own_.concurrency() > 1 || fit_.system(timed) == nullptr) {
    return 1.0;
  }
  double sum = 0.0, weights = 0.0;
  for (const MeasuredStep& m : fit_.steps) {
    Strategy same = m.strategy;
    same.resa_rectify_every = strategy.resa_rectify_every;
    if (same == strategy && same_models(m, dense_, dense_draft())) {
      const double apart = std::log(static_cast<double>(m.context_len) /
                                    static_cast<double>(std::max<std::int64_t>(1, context)));
      const double weight = std::exp(-apart * apart);
      sum += weight * std::log(m.time_us / m.predicted_us);
      weights += weight;
    }
  }
  return std::exp(sum / std::max(1.0, weights));
}

std::optional<ChainYields::Found> SystemPricer::yield_of(const Strategy& strategy,
                                                         const ContextBucket& bucket) const {
  const bool own_method =
      strategy.drafts_itself || strategy.attention == AttentionMethod::kSpecAttn;
  return own_method && draft_.yields != nullptr
             ? draft_.yields->of(strategy, bucket.low, bucket.high)
             : std::nullopt;
}

AcceptedTokens SystemPricer::accepted_of(const Strategy& strategy,
                                         const ContextBucket& bucket) const {
  AcceptedTokens out;
  if (strategy.sampling == SamplingAlgorithm::kSigmoid) {
    const Estimate95 stays = sigmoid_acceptance_of(strategy);
    const std::int64_t depth = strategy.draft.depth;
    out.mean = tokens_kept(stays.value, depth);
    out.log_error =
        std::log(tokens_kept(stays.high, depth) / tokens_kept(stays.low, depth)) / kOf95;
    return out;
  }
  if (const std::optional<ChainYields::Found> counted = yield_of(strategy, bucket)) {
    return counted->tokens;
  }
  VERSIEVE_ASSERT(!strategy.drafts_itself, "own drafts that nobody counted are not priced");
  if (strategy.draft.speculates()) {
    Strategy draft;
    draft.draft = strategy.draft;
    draft.adapts_length = strategy.adapts_length;
    out = accepted_tokens(fit_.acceptance, draft, bucket.low, bucket.high);
    out.log_error =
        draft_.own_acceptance ? out.log_error : std::hypot(out.log_error, kOtherTargetError);
    if (strategy.attention == AttentionMethod::kSpecAttn) {
      out.log_error = std::hypot(out.log_error, kOtherMethodError);
    }
  }
  return out;
}

double SystemPricer::log_error(const Strategy& strategy, const ContextBucket& bucket) const {
  if (strategy.attention == AttentionMethod::kNsa) {
    return own_.log_error(bucket);
  }
  std::string reason;
  const std::optional<SystemEvidence> evidence =
      system_evidence(strategy, fit_, bucket.low + 1, reason);
  VERSIEVE_ASSERT(evidence.has_value(), "tuples without points are not priced");
  double of_steps = (evidence->log_latency + own_.system_transfer_width()) / kNinety;
  const bool untimed_draft = strategy.attention == AttentionMethod::kDense ||
                             strategy.attention == AttentionMethod::kIndexer;
  if (untimed_draft && strategy.draft.speculates()) {
    of_steps = std::hypot(of_steps, kUnmeasuredStep / kNinety);  // plain steps were timed
  }
  if (strategy.attention != AttentionMethod::kSpecAttn) {
    return of_steps;
  }
  const Estimate95 share = chosen_share_of(strategy);
  const std::int64_t context = sampled_context(bucket, kBucketSamples / 2);
  const double of_share =
      std::log(time_us(strategy, context, share.high) / time_us(strategy, context, share.low)) /
      kOf95;
  return std::hypot(of_steps, of_share);
}

std::string SystemPricer::self_note_of(const Strategy& s, const ContextBucket& bucket) const {
  return "drafts for itself: " + tokens_note_of(s, bucket) +
         (fit_.system(kSelfDraftedSteps) == nullptr ? "; no step of such a draft was timed" : "");
}

// Whose tokens a step of a chain are.
std::string SystemPricer::tokens_note_of(const Strategy& s, const ContextBucket& bucket) const {
  if (const std::optional<ChainYields::Found> counted = yield_of(s, bucket)) {
    return counted->lender.name.empty() ? "tokens a step counted of the pair"
                                        : "tokens a step lent by " + text_of(counted->lender);
  }
  return "tokens a step lent: those of " + fit_.acceptance.pair +
         (is_dense_target() ? " under dense verification" : ", whose verification is another");
}

std::string SystemPricer::sigmoid_note_of(const Strategy& s) const {
  std::string from = "assumed: the demo pair's";
  if (is_of_measured_chain(s)) {
    from = "measured of the pair";
  } else if (is_of_lent_share(s)) {
    from = "lent by " + fit_.lent_shares.lender;
  }
  return "lossy: drafted tokens are accepted unseen (" +
         formatted("%.4f", sigmoid_acceptance_of(s).value) + ", " + from +
         "), so the text is the draft's; " + sampler_times(s).text();
}

std::string SystemPricer::note_of(const Strategy& s, const ContextBucket& bucket) const {
  if (keeps_by_sigmoid(s)) {
    return sigmoid_note_of(s);
  }
  if (s.drafts_itself) {
    return self_note_of(s, bucket);
  }
  const std::string acceptance = "acceptance of " + fit_.acceptance.pair;
  if (is_dense_target() && s.attention == AttentionMethod::kDense) {
    const std::string untimed = "no step of such a draft over a dense cache was timed";
    const std::string length =
        s.adapts_length ? "; its length follows what is accepted, and the host leads its steps"
                        : "";
    return !s.draft.speculates()
               ? ""
               : (draft_.own_acceptance ? "" : acceptance + "; ") + untimed + length;
  }
  std::string note = "lossy: may change tokens";
  note += is_dense_target() ? "" : "; of the dense target " + dense_.name;
  if (s.attention == AttentionMethod::kSpecAttn) {
    note += "; " + tokens_note_of(s, bucket) + ", " + percent_text(chosen_share_of(s).value) +
            " of the context chosen, " +
            (is_of_measured_chain(s) ? "measured of the pair"
                                     : "measured of " + fit_.lent_shares.lender);
    if (!draft_.model) {
      note += "; drafted by a model of " + std::to_string(assumed_draft_.layers) +
              " layers, which is assumed";
    }
    if (!fit_.informs(LaunchKind::kAttentionWeights)) {
      note += "; attention_weights was not measured";
    }
  }
  if (s.attention == AttentionMethod::kIndexer) {
    note += "; an indexer of the target's own keys, which nobody trained";
    note += s.draft.speculates() ? "; " + acceptance + "; no step of such a draft was timed" : "";
  }
  if (s.attention == AttentionMethod::kResa && s.resa_rectify_every > 0) {
    note += "; rectification included";
  }
  return note;
}

}  // namespace versieve
