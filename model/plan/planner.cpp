#include "model/plan/planner.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <numeric>

#include "model/plan/cell_pricer.h"
#include "model/plan/concurrency.h"
#include "model/plan/dense_grid.h"
#include "model/plan/loss_limit.h"
#include "model/plan/near_duplicates.h"
#include "model/plan/plan_description.h"
#include "model/plan/system_grid.h"
#include "model/plan/tuple_grid.h"
#include "model/words/assert.h"
#include "model/words/error.h"

namespace versieve {
namespace {

constexpr const char* kAutoregressive = "autoregressive";
constexpr const char* kFixed = "fixed";
constexpr const char* kChain = "chain";

double log_spread(const Interval& interval) {
  return (std::log(interval.high) - std::log(interval.low)) / (2.0 * kNinety);
}

// Of independent log-normal throughputs on the same texts; 0.5 for a tuple against itself.
double probability_of_beating(const Evaluation& a, const Evaluation& b) {
  const double gap = std::log(a.throughput / b.throughput);
  const double spread =
      std::hypot(log_spread(compared_interval(a)), log_spread(compared_interval(b)));
  if (a.strategy == b.strategy || spread == 0.0) {
    return gap > 0.0 ? 1.0 : (gap < 0.0 ? 0.0 : 0.5);
  }
  return 0.5 * std::erfc(-gap / spread / std::sqrt(2.0));
}

double overlap_at(const FittedModel& fit, std::int64_t context_len) {
  return fit.acceptance.positional.empty()
             ? StepShape{}.overlap
             : accepted_overlap(fit.acceptance, context_len - 1, context_len);
}

// What a joule yields is known of the machine alone whose power was sampled.
void require_energy(const FittedModel& fit, const HardwareSpec& hardware, Objective objective) {
  if (objective != Objective::kEnergy) {
    return;
  }
  if (!fit.energy.sampled()) {
    throw Error(ExitCode::kAnswerNo,
                "no power was sampled on " + (fit.device.empty() ? "this machine" : fit.device) +
                    ", so nobody knows what a joule yields: profile --sweep batch, then --sweep "
                    "batch-energy, and plan again");
  }
  if (hardware.key != fit.hardware_key) {
    throw Error(ExitCode::kAnswerNo, "power was sampled on " + fit.device +
                                         ", and nobody knows what a step of " + hardware.key +
                                         " takes of energy");
  }
}

// Whether steps of several requests like its own were measured: by what the batched engine runs.
bool is_batch_measured(const BatchFit& batch, const Strategy& s) {
  const bool nsa = s.attention == AttentionMethod::kNsa;
  return (nsa || s.attention == AttentionMethod::kDense) && !s.drafts_itself && !s.adapts_length &&
         !s.sampling && batch.measured(nsa ? AttentionKind::kNsa : AttentionKind::kDense);
}

bool is_priced_as_nsa(const Strategy& strategy) {
  return strategy.attention == AttentionMethod::kNsa;
}

class Planner {
 public:
  Planner(const FittedModel& fit, const HardwareSpec& hardware, const LlmShape& target,
          const PlanOptions& options, const Candidates& candidates, std::int64_t concurrency,
          ComposedTuples* composed)
      : options_(options),
        candidates_(candidates),
        target_(target),
        prices_(fit, hardware, target, options, concurrency, composed),
        pricer_(prices_.own()),
        systems_(prices_.systems()),
        fit_(fit),
        is_dense_(target.attention == AttentionKind::kDense),
        autoregressive_(plain_decoding(target)),
        fixed_(Strategy::parse(options.baseline)) {
    describe_plan(fit, hardware, target, options, prices_, table_);
    table_.enumerated = candidates_.enumerated;
    table_.runnable = candidates_.runnable;
    table_.excluded = candidates_.excluded;
    limit_systems();
  }

  PlanTable run() {
    for (std::size_t b = 0; b < options_.buckets.size(); ++b) {
      plan_bucket(static_cast<std::int64_t>(b));
    }
    describe_chains(fit_, options_, systems_, table_);
    return std::move(table_);
  }

 private:
  // Tuples of the other systems that may be planned, by class.
  void limit_systems() {
    for (const PrecisionClass precision : options_.classes) {
      const std::vector<Strategy> all = versieve::systems_of(precision, target_, options_);
      require_measured_shares(all);
      const WithinLoss within = within_loss(all, options_);
      std::vector<Strategy>& kept = systems_of_[static_cast<std::size_t>(precision)];
      kept = kept_of(all, within);
      if (!all.empty() && unpriced_because(precision, fit_, options_.buckets[0].low + 1).empty()) {
        add_excluded(within.excluded, table_.excluded);
        leave_out_slow_sigmoids(kept);
      }
    }
  }

  // Sigmoids lose what a text is, and are worth it where the whole of their sampler is faster.
  void leave_out_slow_sigmoids(std::vector<Strategy>& tuples) {
    std::erase_if(tuples, [this](const Strategy& s) {
      if (!keeps_by_sigmoid(s) || systems_.sampler_times(s).gains()) {
        return false;
      }
      slowest_sigmoids_ = s;
      table_.excluded.push_back({"sampling=sigmoid of a chain of " +
                                     std::to_string(s.draft.levels()) + ": " +
                                     systems_.sampler_times(s).text(),
                                 1, PrecisionClass::kApproxSampling});
      return true;
    });
  }

  // Why no tuple of a class that is priced and that the pair can run is left, or an empty text.
  std::string left_out_because(PrecisionClass precision) const {
    if (!systems_of_[static_cast<std::size_t>(precision)].empty() || !slowest_sigmoids_ ||
        precision != PrecisionClass::kApproxSampling) {
      return {};
    }
    return std::string(name_of(precision)) +
           " is empty: sampling=sigmoid ranks where its sampler is faster than the exact one, and "
           "of no planned chain it is; of the longest, " +
           slowest_sigmoids_->text() + ", " + systems_.sampler_times(*slowest_sigmoids_).text();
  }

  // A share that somebody asks for and nobody measured is said, not left out.
  void require_measured_shares(const std::vector<Strategy>& tuples) const {
    const std::vector<double> usual = SystemSettings{}.specattn_shares;
    std::string why;
    for (const Strategy& s : tuples) {
      if (chooses_tokens(s) && std::find(usual.begin(), usual.end(), s.specattn_p) == usual.end() &&
          !system_evidence(s, fit_, options_.buckets[0].low + 1, why)) {
        throw Error(ExitCode::kAnswerNo, s.text() + " cannot be planned: " + why);
      }
    }
  }

  void plan_bucket(std::int64_t bucket) {
    const ContextBucket& range = options_.buckets[static_cast<std::size_t>(bucket)];
    std::string note;
    if (is_limited_by_memory()) {
      table_.memory.push_back(prices_.memory(fixed_, range));
    }
    if (const std::string reason = outside_because(range); is_dense_ && !reason.empty()) {
      for (const PrecisionClass precision : options_.classes) {
        table_.unavailable.push_back({bucket, precision, reason});
      }
      return;
    }
    if (!may_run(autoregressive_, range)) {
      leave_out_bucket(bucket, prices_.memory(autoregressive_, range));
      return;
    }
    ar_ = priced(autoregressive_, range, note);
    base_ = priced(fixed_, range, note);
    table_.baselines.push_back({bucket, kAutoregressive, ar_});
    table_.baselines.push_back({bucket, kFixed, base_});
    if (!is_dense_ && fit_.system("step dense") != nullptr) {
      Strategy dense;
      dense.attention = AttentionMethod::kDense;
      table_.baselines.push_back({bucket, "dense target", systems_.evaluate(dense, range, note)});
    }
    add_chain(bucket);
    for (const PrecisionClass precision : options_.classes) {
      if (precision < PrecisionClass::kSparseRectified) {
        plan_cell(bucket, precision);
      } else {
        plan_system_cell(bucket, precision);
      }
    }
  }

  // A plan of one request at a time says nothing of memory.
  bool is_limited_by_memory() const { return options_.concurrency.size() > 1; }
  void leave_out_bucket(std::int64_t bucket, const MemoryNeed& need) {
    const std::int64_t tokens = options_.buckets[static_cast<std::size_t>(bucket)].high;
    for (const PrecisionClass precision : options_.classes) {
      table_.unavailable.push_back(
          {bucket, precision,
           not_fitting_text(need, prices_.concurrency(), tokens, table_.hardware)});
    }
  }

  // Chains rank too low to be listed where trees pay, and some engines draft nothing else.
  void add_chain(std::int64_t bucket) {
    const ContextBucket& range = options_.buckets[static_cast<std::size_t>(bucket)];
    std::optional<Evaluation> best;
    std::string note;
    for (const Strategy& s : candidates_.of(static_cast<std::size_t>(bucket))) {
      if (is_plain_chain(s) && may_rank(s, range) && may_run(s, range)) {
        const Evaluation chain = priced(s, range, note);
        best = !best || yield(chain) > yield(*best) ? chain : best;
      }
    }
    if (best) {
      table_.baselines.push_back({bucket, kChain, *best});
    }
  }

  // Tuples of the other systems; the target's own two baselines are candidates here too.
  void plan_system_cell(std::int64_t bucket, PrecisionClass precision) {
    const ContextBucket& range = options_.buckets[static_cast<std::size_t>(bucket)];
    std::string reason = unpriced_because(precision, fit_, range.low + 1);
    if (reason.empty() && versieve::systems_of(precision, target_, options_).empty()) {
      reason = std::string(name_of(precision)) +
               " is not planned: this pair can run none of its "
               "tuples";
    }
    if (reason.empty()) {
      reason = left_out_because(precision);
    }
    if (!reason.empty()) {
      table_.unavailable.push_back({bucket, precision, reason});
      return;
    }
    std::vector<PlanEntry> cell = {entry(bucket, precision, autoregressive_, range),
                                   entry(bucket, precision, fixed_, range)};
    for (const Strategy& s : systems_of_[static_cast<std::size_t>(precision)]) {
      std::string why;
      if (system_evidence(s, fit_, range.low + 1, why)) {
        PlanEntry e{.bucket = bucket, .precision = precision};
        e.evaluation = systems_.evaluate(s, range, e.note);
        compare(e);
        cell.push_back(e);
      }
    }
    rank(bucket, precision, cell);
  }

  void compare(PlanEntry& e) const {
    e.gain_over_ar = e.evaluation.throughput / ar_.throughput;
    e.gain_over_baseline = e.evaluation.throughput / base_.throughput;
    e.beats_baseline = probability_of_beating(e.evaluation, base_);
    const Strategy& tuple = e.evaluation.strategy;
    e.baseline = tuple == autoregressive_ ? kAutoregressive : (tuple == fixed_ ? kFixed : "");
    e.lossy = tuple.precision() != PrecisionClass::kStrict;
    if (prices_.concurrency() > 1 && fit_.batch.measured() &&
        !is_batch_measured(fit_.batch, tuple)) {
      e.note += std::string(e.note.empty() ? "" : "; ") +
                "no step of several requests of its kind was measured: its time is an assumption";
    }
  }

  double yield(const Evaluation& e) const {
    return yield_of(options_.aims.objective, table_.energy, e);
  }
  bool may_run(const Strategy& s, const ContextBucket& range) const {
    return !is_limited_by_memory() || prices_.fits(s, range);
  }

  // Leaves those that memory and the bound between tokens allow, and says of which cells that is
  // none, or plain decoding alone. REQUIRES: best first.
  void limit(std::int64_t bucket, PrecisionClass precision, std::vector<PlanEntry>& cell) {
    const ContextBucket& range = options_.buckets[static_cast<std::size_t>(bucket)];
    const PlanEntry* unfit = nullptr;
    for (const PlanEntry& e : cell) {
      unfit = may_run(e.evaluation.strategy, range) ? unfit : &e;
    }
    if (unfit != nullptr) {
      table_.unavailable.push_back(
          {bucket, precision,
           "some tuples are left out, as " +
               not_fitting_text(prices_.memory(unfit->evaluation.strategy, range),
                                prices_.concurrency(), range.high, table_.hardware)});
      std::erase_if(cell,
                    [&](const PlanEntry& e) { return !may_run(e.evaluation.strategy, range); });
    }
    const std::string late = late_text(cell, range);
    std::erase_if(cell, [&](const PlanEntry& e) {
      return !keeps_bounds(options_.aims, e.evaluation, prices_.concurrency(), range.high);
    });
    if (cell.empty()) {
      table_.unavailable.push_back({bucket, precision, late});
    }
  }
  // REQUIRES: best first.
  std::string late_text(const std::vector<PlanEntry>& cell, const ContextBucket& range) const {
    if (!options_.aims.bounds() || cell.empty()) {
      return {};
    }
    const Evaluation& best = cell.front().evaluation;
    return bounds_text(options_.aims, best, prices_.concurrency(), range.high);
  }

  void rank(std::int64_t bucket, PrecisionClass precision, std::vector<PlanEntry>& cell) {
    std::stable_sort(cell.begin(), cell.end(), [this](const PlanEntry& a, const PlanEntry& b) {
      return yield(a.evaluation) > yield(b.evaluation);
    });
    if (is_limited_by_memory() || options_.aims.bounds()) {
      limit(bucket, precision, cell);
    }
    std::int64_t ranked = 0;
    for (const std::size_t place : listed_places(cell)) {
      PlanEntry& e = cell[place];
      e.rank = ++ranked;
      e.price = options_.loss.prices.of(e.evaluation.strategy);
      table_.entries.push_back(e);
    }
  }

  // REQUIRES: best first.
  std::vector<std::size_t> listed_places(const std::vector<PlanEntry>& cell) const {
    const std::size_t ranks = std::min(cell.size(), static_cast<std::size_t>(options_.ranks));
    if (!options_.distinct) {
      std::vector<std::size_t> all(ranks);
      std::iota(all.begin(), all.end(), std::size_t{0});
      return all;
    }
    std::vector<RankedTuple> tuples;
    tuples.reserve(cell.size());
    for (const PlanEntry& e : cell) {
      tuples.push_back({&e.evaluation.strategy, std::log(yield(e.evaluation)),
                        kNinety * log_spread(compared_interval(e.evaluation))});
    }
    return distinct_places(tuples, ranks);
  }

  void plan_cell(std::int64_t bucket, PrecisionClass precision) {
    const ContextBucket& range = options_.buckets[static_cast<std::size_t>(bucket)];
    const std::string outside = outside_because(range);
    if (!outside.empty()) {
      table_.unavailable.push_back({bucket, precision, outside});
      return;
    }
    std::vector<PlanEntry> cell;
    bool own = false;
    for (const Strategy& s : candidates_.of(static_cast<std::size_t>(bucket))) {
      const bool in_class = s.precision() == precision && may_rank(s, range);
      own = own || in_class;
      if (in_class || s == autoregressive_ || s == fixed_) {
        cell.push_back(entry(bucket, precision, s, range));
      }
    }
    if (!own && !options_.loss.most_nats) {  // under a limit the baselines are left
      table_.unavailable.push_back(
          {bucket, precision,
           std::string(name_of(precision)) +
               " is not yet available: no tuple of this class is planned on this target"});
      return;
    }
    rank(bucket, precision, cell);
  }

  PlanEntry entry(std::int64_t bucket, PrecisionClass precision, const Strategy& s,
                  const ContextBucket& range) const {
    PlanEntry e{.bucket = bucket, .precision = precision};
    e.evaluation = priced(s, range, e.note);
    compare(e);
    return e;
  }

  // A tuple of the target's own attention.
  Evaluation priced(const Strategy& s, const ContextBucket& range, std::string& note) const {
    return is_dense_ ? systems_.evaluate(s, range, note) : pricer_.evaluate(s, range, note);
  }
  std::string outside_because(const ContextBucket& range) const {
    std::string reason;
    if (!is_dense_) {
      return pricer_.bucket_outside_because(range);
    }
    system_evidence(autoregressive_, fit_, range.low + 1, reason);
    return reason;
  }
  // No tree over a dense cache was measured: all are predicted, and say so.
  bool may_rank(const Strategy& s, const ContextBucket& range) const {
    std::string reason;
    return is_dense_
               ? !s.drafts_itself || system_evidence(s, fit_, range.low + 1, reason).has_value()
               : pricer_.is_measured_width(s, range);
  }

  const PlanOptions& options_;
  const Candidates& candidates_;
  const LlmShape& target_;
  CellPricer prices_;
  const Pricer& pricer_;
  const SystemPricer& systems_;
  const FittedModel& fit_;
  std::array<std::vector<Strategy>, kPrecisionClassCount> systems_of_;
  std::optional<Strategy> slowest_sigmoids_;  // the longest chain of those that are left out
  bool is_dense_;
  Strategy autoregressive_;
  Strategy fixed_;
  Evaluation ar_;
  Evaluation base_;
  PlanTable table_;
};

}  // namespace

std::int64_t sampled_context(const ContextBucket& bucket, std::int64_t sample) {
  return bucket.low + (bucket.high - bucket.low) * (2 * sample + 1) / (2 * kBucketSamples);
}

double predicted_step_us(const FittedModel& fit, const HardwareSpec& hardware,
                         const LlmShape& target, const DraftShape& draft, const Strategy& strategy,
                         std::int64_t context_len) {
  const Pricer own(fit, hardware, target, draft);
  if (is_priced_as_nsa(strategy)) {
    return own.predict(strategy, context_len, overlap_at(fit, context_len)).time_us;
  }
  return SystemPricer(fit, hardware, target, own).predict(strategy, context_len).time_us;
}

std::vector<StepPart> predicted_step_parts(const FittedModel& fit, const HardwareSpec& hardware,
                                           const LlmShape& target, const DraftShape& draft,
                                           const Strategy& strategy, std::int64_t context_len) {
  const Pricer own(fit, hardware, target, draft);
  std::vector<StepPart> parts =
      is_priced_as_nsa(strategy)
          ? own.parts(strategy, context_len, overlap_at(fit, context_len))
          : SystemPricer(fit, hardware, target, own).parts(strategy, context_len);
  std::stable_sort(parts.begin(), parts.end(),
                   [](const StepPart& a, const StepPart& b) { return a.time_us > b.time_us; });
  return parts;
}

bool is_of_dense_target(const PlanTable& table) {
  return std::any_of(table.baselines.begin(), table.baselines.end(), [](const PlanBaseline& b) {
    return b.role == kAutoregressive && b.evaluation.strategy.attention == AttentionMethod::kDense;
  });
}

const FittedModel& with_acceptance(const FittedModel& fit) {
  if (fit.acceptance.positional.empty()) {
    throw Error(ExitCode::kAnswerNo,
                "there are no acceptance measurements to plan with: profile a trained pair, name "
                "one that was imported, or assume a rate");
  }
  return fit;
}

PlanTable plan(const FittedModel& fit, const HardwareSpec& hardware, const LlmShape& target,
               const PlanOptions& options, const Candidates& candidates) {
  return plan(fit, hardware, target, options, candidates, nullptr);
}

PlanTable plan(const FittedModel& fit, const HardwareSpec& hardware, const LlmShape& target,
               const PlanOptions& options, const Candidates& candidates, ComposedTuples* composed) {
  VERSIEVE_ASSERT(!options.buckets.empty() && options.ranks >= 1, "a plan has cells and ranks");
  VERSIEVE_ASSERT(!options.aims.ttft_ms || options.aims.prompts, "prompts take a known time");
  require_energy(fit, hardware, options.aims.objective);
  VERSIEVE_ASSERT(!options.concurrency.empty() && options.concurrency.front() == 1,
                  "a plan of several requests at a time is one of a single one too");
  PlanTable table =
      Planner(with_acceptance(fit), hardware, target, options, candidates, 1, composed).run();
  for (std::size_t i = 1; i < options.concurrency.size(); ++i) {
    table.batched.push_back(
        Planner(fit, hardware, target, options, candidates, options.concurrency[i], composed)
            .run());
  }
  table.several_requests =
      table.batched.empty() ? std::string() : batch_text(fit, target.attention, hardware);
  table.switches = switch_points(fit, hardware, target, options, table);
  return table;
}

PlanTable plan(const FittedModel& fit, const HardwareSpec& hardware, const LlmShape& target,
               const PlanOptions& options) {
  Candidates all = target.attention == AttentionKind::kDense
                       ? dense_candidates(target, options)
                       : candidates_of(fit, target, options.baseline, options.schedules);
  return plan(fit, hardware, target, options, candidates_within_loss(std::move(all), options));
}

}  // namespace versieve
