// Which tuple yields the most accepted tokens a second: enumerates the space, keeps what the engine
// can run (the rest with reasons), ranks by J = E[accepted] / E[step time] for each context bucket
// and precision class. Autoregressive decoding and the fixed baseline are always candidates.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/cost/fitted_model.h"
#include "model/cost/step_parts.h"
#include "model/plan/chain_yields.h"
#include "model/plan/loss_prices.h"
#include "model/plan/memory_need.h"
#include "model/plan/objective.h"
#include "model/plan/request_intervals.h"
#include "model/plan/runtime_guard.h"
#include "model/plan/system_settings.h"
#include "model/words/evaluation.h"
#include "model/words/pair_id.h"

namespace versieve {

struct ContextBucket {
  std::int64_t low = 0;  // tokens; (low, high]
  std::int64_t high = 0;

  bool operator==(const ContextBucket&) const = default;
};
// 0-4K, 4-8K, 8-12K, 12-16K (Sparse Speculative Verification, section 6.2).
std::vector<ContextBucket> default_buckets();
std::string name_of(const ContextBucket& bucket);  // "0-4096"
// "0-4096,4096-8192"; throws Error(kUsage) unless 0 <= low < high <= 262144, ascending.
std::vector<ContextBucket> parse_buckets(const std::string& text);

// Contexts at which a bucket's tuples are priced: the middles of its thirds.
inline constexpr std::int64_t kBucketSamples = 3;
std::int64_t sampled_context(const ContextBucket& bucket, std::int64_t sample);

// Of refresh and reuse layers, that a plan goes over.
inline std::vector<std::string> default_schedules() {
  return {"F*", "(FR)*", "(FRR)*", "(FRRR)*"};
}

struct PlanOptions {
  std::vector<ContextBucket> buckets = default_buckets();
  std::vector<PrecisionClass> classes = {PrecisionClass::kStrict, PrecisionClass::kReuseOnly,
                                         PrecisionClass::kApproxOnly, PrecisionClass::kApproxReuse};
  std::vector<std::string> schedules = default_schedules();  // F* among them: the baselines'
  SystemSettings systems;                                    // of the other systems
  std::int64_t ranks = 12;
  bool distinct = true;  // ranks are no near duplicates of one another (near_duplicates.h)
  GuardConstants guard;
  // Sparse Speculative Verification, section 7.4: BFS, 128 nodes, exact, all-F. Depth and width are
  // lost in the text extraction. Of a dense target: usual_baseline.
  std::string baseline = "nsa/d8k8n128/bfs/c1/F*";
  std::optional<DraftShape> draft;  // of the pair; what usual_draft says where there is none
  // Of a dense target: whether there is a draft, and its shape where it is a model of its own.
  bool drafts = true;
  std::optional<LlmShape> draft_model;
  std::optional<PairId> pair;  // that is planned for; none: a geometry with synthetic weights
  std::string pair_remark;     // a sentence about its evidence, or empty
  LossTerms loss;              // what lossy choices cost, and may cost
  ChainYields chain_yields;    // tokens a step of chains by their own method
  std::int64_t requests = kUsualRequests;  // that intervals are of
  // Requests at a time that are planned for, ascending from 1 (concurrency.h). Of several the
  // machine's memory is a limit.
  std::vector<std::int64_t> concurrency = {1};
  PlanAims aims;
};

struct PlanEntry {
  std::int64_t bucket = 0;  // index into buckets
  PrecisionClass precision = PrecisionClass::kStrict;
  std::int64_t rank = 1;
  Evaluation evaluation;
  double gain_over_ar = 0.0;        // throughput ratio
  double gain_over_baseline = 0.0;  // throughput ratio
  double beats_baseline = 0.0;      // probability
  // "autoregressive" or "fixed" where the tuple is one of the two baselines, which are candidates
  // of every class; else empty.
  std::string baseline;
  bool lossy = false;  // may change tokens
  LossPrice price;     // what that costs
  std::string note;    // what a reader must know; empty if nothing
};

// Autoregressive decoding, the fixed baseline and the best plain chain in one bucket.
struct PlanBaseline {
  std::int64_t bucket = 0;
  std::string role;  // "autoregressive", "fixed", "dense target", "chain"
  Evaluation evaluation;
};

struct UnavailableCell {
  std::int64_t bucket = 0;
  PrecisionClass precision = PrecisionClass::kApproxOnly;
  std::string reason;
};

// A kind of draft: a tree, a chain, none.
enum class DraftKind { kTree, kChain, kPlain };
DraftKind draft_kind_of(const Strategy& strategy);
const char* name_of(DraftKind kind);  // "tree", "chain", "plain decoding"

// From how many requests at a time on one kind of draft yields more than another.
struct SwitchPoint {
  std::int64_t bucket = 0;
  PrecisionClass precision = PrecisionClass::kStrict;
  Strategy from, to;          // the best of their kinds there
  std::int64_t requests = 1;  // the fewest at which `to` yields more
  // 90 %: with fewer than `low` `from` yields more 19 times of 20, from `high` on `to` does. 0:
  // that is not so certain up to the most that were planned.
  std::int64_t low = 1, high = 0;
};

struct ExclusionCount {
  std::string reason;
  std::int64_t tuples = 0;
  std::optional<PrecisionClass> of = {};  // the one class whose tuples these are
};

// Whose a number of a plan is: measured of the very pair (or geometry) that is planned for, of
// another one, or nobody's; each worse than the one before.
enum class EvidenceFrom { kOwn, kBorrowed, kAssumed };
inline constexpr std::size_t kEvidenceFromCount = 3;
const char* name_of(EvidenceFrom from);  // "own", "borrowed", "assumed"

// Told apart by PairId::sha256, by the planner itself: a fit cannot claim to be another pair's.
struct PlanSources {
  std::optional<PairId> pair;  // that is planned for; none: a geometry with synthetic weights
  EvidenceFrom acceptance = EvidenceFrom::kBorrowed;
  EvidenceFrom overlap = EvidenceFrom::kBorrowed;
  EvidenceFrom times = EvidenceFrom::kBorrowed;
  std::string acceptance_sha256;  // of the pair whose tokens a step these are, where it is known
  PairId overlap_of;              // without a name: a guess
  std::string times_of;           // geometry or pair whose steps were timed
  std::int64_t timed_steps = 0;   // of it
  // What share of the context SpecAttn chooses, and how often sigmoids keep a drafted token: own if
  // all that the table holds of it is; none where it holds nothing that rests on it.
  std::optional<EvidenceFrom> chosen_share;
  std::string chosen_share_of;  // the lender, or empty
  std::optional<EvidenceFrom> sigmoid_acceptance;
  std::string sigmoid_acceptance_of;  // likewise
  // Tokens a step of SpecAttn's chains, and of a target that drafts for itself: own if all that the
  // table holds were counted by that method of the pair; none where it holds none.
  std::optional<EvidenceFrom> chain_tokens;
  std::string chain_tokens_of;  // the lender of the first that is not
  std::string remark;           // a sentence, or empty
};

struct PlanTable {
  static constexpr std::int64_t kSchema = 1;
  static constexpr std::int64_t kConcurrencySchema = 2;  // with several requests or a bound
  std::string hardware;                                  // key
  std::string model;                                     // geometry
  std::string provenance_note;  // one sentence: measured here, or scaled from which machine
  std::string fit_device;       // what the step times were measured on
  std::string fit_hardware;     // its key
  std::string acceptance_pair;
  AcceptanceOrigin acceptance_origin = AcceptanceOrigin::kMeasured;
  std::string acceptance_note;  // what was not measured of it; empty if nothing
  std::int64_t requests = 0;    // that intervals are of; 0: tables older than that
  double temperature = 0.0;     // of the texts that are decoded; 0: greedily
  std::string texts_note;       // how texts differ, and who says so; empty where nobody does
  // None in tables older than it.
  std::optional<PlanSources> sources;
  std::string dtype;
  std::string launch;              // stream, graph
  std::int64_t draft_vocab = 0;    // tokens that the draft proposes; 0: a table older than that
  bool draft_is_model = false;     // of its own; else a head, or none
  NsaForm form = NsaForm::kFused;  // whose attention launches the step times hold
  Provenance evidence = Provenance::kMeasured;  // of the step times: predicted if scaled
  bool scaled = false;                          // planned for another machine than the fit's
  bool calibrated = false;                      // and by rates that were measured there
  std::int64_t fit_points = 0;
  std::vector<std::string> runs;
  std::int64_t enumerated = 0;
  std::int64_t runnable = 0;
  std::vector<ExclusionCount> excluded;
  std::optional<double> max_loss;  // LossTerms::most_nats
  SystemSettings systems;          // that tuples of the other systems have
  std::vector<ContextBucket> buckets;
  std::vector<PrecisionClass> classes;
  GuardConstants guard;
  std::vector<PlanEntry> entries;
  std::vector<UnavailableCell> unavailable;
  std::vector<PlanBaseline> baselines;
  // Of several requests at a time (concurrency.h). The table itself is of `concurrency` requests,
  // and `batched` holds those of more, alike in all but bucket by bucket figures; its own are
  // empty.
  std::int64_t concurrency = 1;
  PlanAims aims;
  EnergyLaw energy;                // that its tokens a joule follow; of the fit's machine alone
  std::vector<MemoryNeed> memory;  // [bucket], of requests that draft
  std::vector<PlanTable> batched;
  std::vector<SwitchPoint> switches;
  std::string several_requests;  // what times of several rest on; empty in older tables
};

// The tuples of the target's grid that a plan prices, the fixed baseline among them, and how many
// were left out for which reasons.
struct Candidates {
  std::vector<std::vector<Strategy>> strategies;  // [bucket]; one alone serves all
  std::int64_t enumerated = 0;
  std::int64_t runnable = 0;  // not fewer than are priced
  std::vector<ExclusionCount> excluded;

  const std::vector<Strategy>& of(std::size_t bucket) const {
    return strategies[strategies.size() == 1 ? 0 : bucket];
  }
};

// The target's plain decoding: nsa/ar, dense/ar.
Strategy plain_decoding(const LlmShape& target);
// The fixed baseline where nobody says another: that tree over the target's own attention; of a
// draft model a chain of five, of no draft plain decoding.
std::string usual_baseline(const LlmShape& target, const PlanOptions& options);
// Every tuple of the grid, legal or not, in a fixed order.
std::vector<Strategy> enumerate_space(
    const LlmShape& target, const std::vector<std::string>& schedules = default_schedules());
// A chain of class Strict whose queries load for themselves: what an engine without trees drafts.
bool is_plain_chain(const Strategy& strategy);
// Why the engine cannot run it today or need not be asked, or an empty text. `form`: whose launches
// are priced; the vanilla one loads for each query alone.
std::string not_planned_because(const Strategy& strategy, const LlmShape& target, NsaForm form);
// Why a tuple that can run is not ranked, since nothing tells it from another of the grid: of an
// order along which the pair's selections were not measured. Asked for, it is priced.
std::string not_ranked_because(const Strategy& strategy, const AcceptanceModel& acceptance);
// The step of one tuple at one context by its launches, those that take most first, as
// predicted_step_us adds them up.
std::vector<StepPart> predicted_step_parts(const FittedModel& fit, const HardwareSpec& hardware,
                                           const LlmShape& target, const DraftShape& draft,
                                           const Strategy& strategy, std::int64_t context_len);
// Step time of one tuple at one context, by the fit alone (no measured step corrects it).
double predicted_step_us(const FittedModel& fit, const HardwareSpec& hardware,
                         const LlmShape& target, const DraftShape& draft, const Strategy& strategy,
                         std::int64_t context_len);
// The same with the draft that usual_draft says.
inline double predicted_step_us(const FittedModel& fit, const HardwareSpec& hardware,
                                const LlmShape& target, const Strategy& strategy,
                                std::int64_t context_len) {
  return predicted_step_us(fit, hardware, target, usual_draft(target), strategy, context_len);
}
// The target's own classes, and those of the other systems that the fit has points of.
std::vector<PrecisionClass> priced_classes(const FittedModel& fit);
// All of an NSA target's that can run, whatever it loses. Throws Error(kUsage) if the baseline
// cannot.
Candidates candidates_of(const FittedModel& fit, const LlmShape& target,
                         const std::string& baseline,
                         const std::vector<std::string>& schedules = default_schedules());
// A plan's fit has acceptance; throws Error(kAnswerNo) where it has none.
const FittedModel& with_acceptance(const FittedModel& fit);
PlanTable plan(const FittedModel& fit, const HardwareSpec& hardware, const LlmShape& target,
               const PlanOptions& options);
// The same over these candidates alone. REQUIRES: both baselines are among them.
PlanTable plan(const FittedModel& fit, const HardwareSpec& hardware, const LlmShape& target,
               const PlanOptions& options, const Candidates& candidates);
// Throws Error(kUsage), naming the classes.
PrecisionClass parse_class(const std::string& name);
// Whether it was planned for a dense target.
bool is_of_dense_target(const PlanTable& table);
// What its intervals hold, in a sentence or two.
std::string intervals_text(const PlanTable& table);
// "demo-nsa on real text"; for a pair that was not measured here whose word its tokens are.
std::string acceptance_text(const PlanTable& table);
// " at temperature 0.6"; empty at 0.
std::string sampled_text(double temperature);
// Whose tokens a step these are; without a hash in tables older than it.
PairId acceptance_pair(const PlanTable& table);
// "smollm2-nsa (sha256 3fa91b2c77d0): acceptance own; overlap own; times borrowed from nsa-1b;
// losses own"; empty without sources.
std::string sources_text(const PlanTable& table);
// Of one bucket and class in rank order; a file that people have edited may have another.
std::vector<const PlanEntry*> entries_of(const PlanTable& table, std::int64_t bucket,
                                         PrecisionClass precision);
// Only these classes of a table, in its own order; ranks stay.
PlanTable of_classes(PlanTable table, const std::vector<PrecisionClass>& classes);

}  // namespace versieve
