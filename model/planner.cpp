#include "model/planner.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>

#include "model/assert.h"
#include "model/error.h"

namespace versieve {
namespace {

constexpr std::int64_t kLongestContext = 262144;
constexpr double kNinety = 1.6448536269514722;  // standard normal quantile of 0.95
// Added to the half-width of log latency when a fit is used on another machine. An assumption: the
// published cross-machine errors of a comparable model are 13 to 16 %.
constexpr double kTransferHalfWidth = 0.30;

constexpr std::int64_t kDepths[] = {1, 2, 3, 4, 5, 6, 7, 8, 10};
constexpr std::int64_t kWidths[] = {1, 2, 3, 4, 6, 8, 10};
constexpr std::int64_t kNodes[] = {2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 16, 24, 32, 48, 64, 96, 128};
constexpr const char* kOnlyNsa = "only nsa is planned in this version";
constexpr const char* kSigmoidUnknown =
    "what sampling=sigmoid accepts was not measured, and what other samplers accept says nothing "
    "about it";
constexpr const char* kSchedules[] = {"F*", "(FR)*", "(FRR)*", "(FRRR)*"};

std::int64_t tree_pool(std::int64_t depth, std::int64_t width) {
  return 1 + width + (depth - 1) * width * width;
}

// A tree needs a node a level; a chain has exactly one.
bool sensible(const DraftChoice& d) {
  return d.width == 1 ? d.nodes == d.depth + 1
                      : d.nodes > d.depth + 1 && d.nodes <= tree_pool(d.depth, d.width);
}

std::vector<DraftChoice> draft_grid() {
  std::vector<DraftChoice> grid;
  for (const std::int64_t depth : kDepths) {
    for (const std::int64_t width : kWidths) {
      for (const std::int64_t nodes : kNodes) {
        const DraftChoice choice{.depth = depth, .width = width, .nodes = nodes};
        if (sensible(choice)) {
          grid.push_back(choice);
        }
      }
    }
  }
  return grid;
}

struct Group {
  std::int64_t size;
  GroupMode mode;
};
constexpr Group kGroups[] = {{1, GroupMode::kExact},  {2, GroupMode::kExact},
                             {4, GroupMode::kExact},  {8, GroupMode::kExact},
                             {2, GroupMode::kApprox}, {4, GroupMode::kApprox},
                             {8, GroupMode::kApprox}};

void add_variants(const DraftChoice& draft, std::vector<Strategy>& space) {
  for (const Traversal order : {Traversal::kBfs, Traversal::kDfs}) {
    for (const Group& group : kGroups) {
      for (const char* schedule : kSchedules) {
        Strategy s;
        s.draft = draft;
        s.order = order;
        s.group_size = group.size;
        s.group_mode = group.mode;
        s.schedule = schedule;
        space.push_back(s);
      }
    }
  }
}

std::int64_t count_letters(const std::string& schedule, char letter) {
  return std::count(schedule.begin(), schedule.end(), letter);
}

StepShape step_shape(const Strategy& strategy, const LlmShape& target, std::int64_t context_len,
                     double overlap, const FittedModel& fit) {
  const std::string letters = strategy.schedule_for(target.layers);
  const StepLaunches launches = fit.priced_launches();
  return {
      .target = target,
      .draft = draft_shape_for(target),
      .tree = strategy.draft,
      .context_len = context_len,
      .num_queries = strategy.draft.nodes,
      .refresh_layers = count_letters(letters, 'F'),
      .reuse_layers = count_letters(letters, 'R'),
      .element_bytes = fit.dtype == "f32" ? 4 : 2,
      .overlap = overlap,
      .form = fit.priced_form(),
      .group_size = strategy.group_size,
      .group_mode = strategy.group_mode,
      .launches = launches,
      .recorded = launches == StepLaunches::kJoint && fit.conditions.launch == LaunchMode::kGraph};
}

// Predicted and measured latencies of one tuple in one range.
struct Latency {
  StepCost cost;
  double log_error = 0.0;  // standard deviation of log latency
  Provenance source = Provenance::kPredicted;
};

class Pricer {
 public:
  Pricer(const FittedModel& fit, const HardwareSpec& hardware, const LlmShape& target)
      : fit_(fit),
        hardware_(hardware),
        target_(target),
        parameters_(fit.parameters()),
        form_(fit.priced_form()),
        scaled_(hardware.key != fit.hardware_key),
        same_geometry_(fit.geometry == target.name) {}

  bool scaled() const { return scaled_; }
  NsaForm form() const { return form_; }

  StepCost predict(const Strategy& strategy, std::int64_t context, double overlap) const {
    StepWork work;
    const StepShape shape = step_shape(strategy, target_, context, overlap, fit_);
    add_step(shape, parameters_[index_of(SharedParameter::kUniqueGrowth)], work);
    correct_attention(shape, false, fit_.attention_time, work);
    StepCost cost = cost_of(work, hardware_, parameters_, fit_.conditions);
    scale_time(std::exp(fit_.step_time.at(step_regime(shape))), cost);
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
    e.source = accepted.source == Provenance::kMeasured ? latency.source : Provenance::kPredicted;
    note = note_of(strategy, accepted);
    return e;
  }

 private:
  static Interval around(double value, double half_width) {
    return {value * std::exp(-half_width), value * std::exp(half_width)};
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
    if (accepted.outside_data) {
      note += std::string(note.empty() ? "" : "; ") + "acceptance from the nearest context range";
    }
    return note;
  }

  Latency latency_of(const Strategy& strategy, const ContextBucket& bucket) const {
    Latency out;
    const double overlap = accepted_overlap(fit_.acceptance, bucket.low, bucket.high);
    constexpr std::int64_t kSamples = 3;
    for (std::int64_t i = 0; i < kSamples; ++i) {
      const std::int64_t context =
          bucket.low + (bucket.high - bucket.low) * (2 * i + 1) / (2 * kSamples);
      add_scaled(predict(strategy, context, overlap), 1.0 / kSamples, out.cost);
    }
    out.log_error = log_error(bucket);
    apply_measured(strategy, bucket, out);
    return out;
  }

  static void add_scaled(const StepCost& cost, double weight, StepCost& sum) {
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

  // Measured steps of this tuple in this range correct the prediction; on another machine or
  // geometry they say nothing beyond the fit.
  void apply_measured(const Strategy& strategy, const ContextBucket& bucket, Latency& out) const {
    if (scaled_ || !same_geometry_) {
      return;
    }
    double log_ratio = 0.0;
    double squares = 0.0;
    double sampling = 0.0;
    double count = 0.0;
    for (const MeasuredStep& m : fit_.steps) {
      if (same_launches(m.strategy, strategy) && in_range(m.context_len, bucket.low, bucket.high)) {
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

  static void scale_time(double factor, StepCost& cost) {
    cost.time_us *= factor;
    for (double& us : cost.phase_us) {
      us *= factor;
    }
    for (double& us : cost.bound_us) {
      us *= factor;
    }
  }

  // With groups of one query the traversal order changes no launch.
  bool same_launches(Strategy measured, const Strategy& strategy) const {
    if (measured.form != form_) {
      return false;
    }
    measured.form = strategy.form;
    if (strategy.group_size == 1) {
      measured.order = strategy.order;
    }
    return measured == strategy;
  }

  double log_error(const ContextBucket& bucket) const {
    return (fit_.half_width(bucket.low, bucket.high) + (scaled_ ? kTransferHalfWidth : 0.0)) /
           kNinety;
  }

  const FittedModel& fit_;
  const HardwareSpec& hardware_;
  const LlmShape& target_;
  CostParameters parameters_;
  NsaForm form_;
  bool scaled_;
  bool same_geometry_;
};

double log_spread(const Interval& interval) {
  return (std::log(interval.high) - std::log(interval.low)) / (2.0 * kNinety);
}

// Of independent log-normal throughputs; 0.5 for a tuple against itself.
double probability_of_beating(const Evaluation& a, const Evaluation& b) {
  const double gap = std::log(a.throughput / b.throughput);
  const double spread =
      std::hypot(log_spread(a.throughput_interval), log_spread(b.throughput_interval));
  if (a.strategy == b.strategy || spread == 0.0) {
    return gap > 0.0 ? 1.0 : (gap < 0.0 ? 0.0 : 0.5);
  }
  return 0.5 * std::erfc(-gap / spread / std::sqrt(2.0));
}

class Planner {
 public:
  Planner(const FittedModel& fit, const HardwareSpec& hardware, const LlmShape& target,
          const PlanOptions& options)
      : options_(options),
        target_(target),
        pricer_(fit, hardware, target),
        autoregressive_(Strategy::parse("nsa/ar")),
        fixed_(Strategy::parse(options.baseline)) {
    describe(fit, hardware);
    sort_space();
  }

  PlanTable run() {
    for (std::size_t b = 0; b < options_.buckets.size(); ++b) {
      plan_bucket(static_cast<std::int64_t>(b));
    }
    return std::move(table_);
  }

 private:
  void describe(const FittedModel& fit, const HardwareSpec& hardware) {
    table_.hardware = hardware.key;
    table_.model = target_.name;
    table_.fit_device = fit.device;
    table_.fit_hardware = fit.hardware_key;
    table_.acceptance_pair = fit.acceptance.pair;
    table_.dtype = fit.dtype;
    table_.launch = fit.conditions.launch == LaunchMode::kStream ? "stream" : "graph";
    table_.form = pricer_.form();
    table_.evidence = fit.evidence;
    table_.scaled = pricer_.scaled();
    table_.fit_points = fit.points;
    table_.runs = fit.runs;
    table_.buckets = options_.buckets;
    table_.classes = options_.classes;
    table_.guard = options_.guard;
    table_.provenance_note =
        table_.scaled
            ? "step times are scaled from a fit on " + fit.device + " to " + hardware.name +
                  " by bandwidth, clocks and SM count; nothing was measured on it"
            : "step times come from a fit to " + std::to_string(fit.points) + " points " +
                  name_of(fit.evidence) + " on " + fit.device;
    table_.provenance_note +=
        std::string("; attention by the ") + name_of(table_.form) + " launches";
    if (table_.form == NsaForm::kVanilla) {
      table_.provenance_note += ", as the fused ones were not measured";
    }
  }

  void sort_space() {
    const std::string refusal = not_planned_because(fixed_, target_, table_.form);
    if (!refusal.empty()) {
      throw Error(ExitCode::kUsage, "the baseline '" + options_.baseline + "': " + refusal);
    }
    std::map<std::string, std::int64_t> reasons;
    for (const Strategy& s : enumerate_space(target_)) {
      table_.enumerated += 1;
      const std::string reason = not_planned_because(s, target_, table_.form);
      if (reason.empty()) {
        runnable_.push_back(s);
      } else {
        reasons[reason] += 1;
      }
    }
    if (std::find(runnable_.begin(), runnable_.end(), fixed_) == runnable_.end()) {
      runnable_.push_back(fixed_);
    }
    table_.runnable = static_cast<std::int64_t>(runnable_.size());
    for (const auto& [reason, tuples] : reasons) {
      table_.excluded.push_back({reason, tuples});
    }
  }

  void plan_bucket(std::int64_t bucket) {
    const ContextBucket& range = options_.buckets[static_cast<std::size_t>(bucket)];
    std::string note;
    ar_ = pricer_.evaluate(autoregressive_, range, note);
    base_ = pricer_.evaluate(fixed_, range, note);
    table_.baselines.push_back({bucket, "autoregressive", ar_});
    table_.baselines.push_back({bucket, "fixed", base_});
    for (const PrecisionClass precision : options_.classes) {
      plan_cell(bucket, precision);
    }
  }

  void plan_cell(std::int64_t bucket, PrecisionClass precision) {
    const ContextBucket& range = options_.buckets[static_cast<std::size_t>(bucket)];
    const std::string outside = pricer_.bucket_outside_because(range);
    if (!outside.empty()) {
      table_.unavailable.push_back({bucket, precision, outside});
      return;
    }
    std::vector<PlanEntry> cell;
    bool own = false;
    for (const Strategy& s : runnable_) {
      const bool in_class = s.precision() == precision && pricer_.is_measured_width(s, range);
      own = own || in_class;
      if (in_class || s == autoregressive_ || s == fixed_) {
        cell.push_back(entry(bucket, precision, s, range));
      }
    }
    if (!own) {
      table_.unavailable.push_back({bucket, precision, unavailable_because(precision)});
      return;
    }
    std::stable_sort(cell.begin(), cell.end(), [](const PlanEntry& a, const PlanEntry& b) {
      return a.evaluation.throughput > b.evaluation.throughput;
    });
    cell.resize(std::min(cell.size(), static_cast<std::size_t>(options_.ranks)));
    for (std::size_t i = 0; i < cell.size(); ++i) {
      cell[i].rank = static_cast<std::int64_t>(i) + 1;
      table_.entries.push_back(cell[i]);
    }
  }

  static std::string unavailable_because(PrecisionClass precision) {
    const std::string name = name_of(precision);
    switch (precision) {
      case PrecisionClass::kSparseRectified:
      case PrecisionClass::kSparse:
        return name + " is not planned: its attention is for dense targets, and " + kOnlyNsa;
      case PrecisionClass::kApproxSampling:
        return name + " is not planned: " + kSigmoidUnknown;
      case PrecisionClass::kStrict:
      case PrecisionClass::kReuseOnly:
      case PrecisionClass::kApproxOnly:
      case PrecisionClass::kApproxReuse:
        break;
    }
    return name + " is not yet available: no tuple of this class is planned on this target";
  }

  PlanEntry entry(std::int64_t bucket, PrecisionClass precision, const Strategy& s,
                  const ContextBucket& range) const {
    PlanEntry e{.bucket = bucket, .precision = precision};
    e.evaluation = pricer_.evaluate(s, range, e.note);
    e.gain_over_ar = e.evaluation.throughput / ar_.throughput;
    e.gain_over_baseline = e.evaluation.throughput / base_.throughput;
    e.beats_baseline = probability_of_beating(e.evaluation, base_);
    e.lossy = s.precision() != PrecisionClass::kStrict;
    return e;
  }

  const PlanOptions& options_;
  const LlmShape& target_;
  Pricer pricer_;
  Strategy autoregressive_;
  Strategy fixed_;
  std::vector<Strategy> runnable_;
  Evaluation ar_;
  Evaluation base_;
  PlanTable table_;
};

std::int64_t parse_tokens(const std::string& text, const std::string& whole) {
  std::int64_t value = -1;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status != std::errc() || end != text.data() + text.size() || value < 0 ||
      value > kLongestContext) {
    throw Error(ExitCode::kUsage, "buckets '" + whole + "': '" + text +
                                      "' is not a token count from 0 to 262144; write "
                                      "0-4096,4096-8192");
  }
  return value;
}

}  // namespace

std::vector<ContextBucket> default_buckets() {
  return {{0, 4096}, {4096, 8192}, {8192, 12288}, {12288, 16384}};
}

std::vector<ContextBucket> parse_buckets(const std::string& text) {
  std::vector<ContextBucket> buckets;
  std::size_t at = 0;
  while (at <= text.size()) {
    const std::size_t comma = std::min(text.find(',', at), text.size());
    const std::string part = text.substr(at, comma - at);
    const std::size_t dash = part.find('-');
    if (dash == std::string::npos) {
      throw Error(ExitCode::kUsage,
                  "buckets '" + text + "': '" + part + "' is no range; write 0-4096,4096-8192");
    }
    const ContextBucket bucket{parse_tokens(part.substr(0, dash), text),
                               parse_tokens(part.substr(dash + 1), text)};
    if (bucket.low >= bucket.high || (!buckets.empty() && bucket.low < buckets.back().high)) {
      throw Error(ExitCode::kUsage,
                  "buckets '" + text + "': ranges must be ascending and must not overlap");
    }
    buckets.push_back(bucket);
    at = comma + 1;
  }
  return buckets;
}

std::vector<Strategy> enumerate_space(const LlmShape&) {
  std::vector<Strategy> space;
  for (const char* schedule : kSchedules) {
    Strategy ar;
    ar.schedule = schedule;
    space.push_back(ar);
  }
  for (const DraftChoice& draft : draft_grid()) {
    add_variants(draft, space);
  }
  return space;
}

std::string not_planned_because(const Strategy& s, const LlmShape& target, NsaForm form) {
  const std::string illegal = illegal_because(s, target);
  if (!illegal.empty()) {
    return illegal;
  }
  if (s.attention != AttentionMethod::kNsa) {
    return kOnlyNsa;
  }
  if (s.sampling == SamplingAlgorithm::kSigmoid) {
    return kSigmoidUnknown;
  }
  if (form == NsaForm::kVanilla && approximate_group(s) > 2) {
    return "the launches priced load for each query alone, whatever its approximate group: c2a, "
           "which shares least, stands for c4a and c8a";
  }
  if (form == NsaForm::kVanilla && s.group_size > 1 && s.group_mode == GroupMode::kExact) {
    return "exact groups have the output of c1, and the launches measured here load for each query "
           "alone: c1 stands for them";
  }
  if (s.order == Traversal::kDfs) {
    return "the traversal order changes no launch of groups of one query, and how much larger ones "
           "share is not known by order: bfs stands for dfs";
  }
  return {};
}

double predicted_step_us(const FittedModel& fit, const HardwareSpec& hardware,
                         const LlmShape& target, const Strategy& strategy,
                         std::int64_t context_len) {
  const double overlap = fit.acceptance.positional.empty()
                             ? StepShape{}.overlap
                             : accepted_overlap(fit.acceptance, context_len - 1, context_len);
  return Pricer(fit, hardware, target).predict(strategy, context_len, overlap).time_us;
}

PlanTable plan(const FittedModel& fit, const HardwareSpec& hardware, const LlmShape& target,
               const PlanOptions& options) {
  VERSIEVE_ASSERT(!options.buckets.empty() && options.ranks >= 1, "a plan has cells and ranks");
  if (fit.acceptance.positional.empty()) {
    throw Error(ExitCode::kAnswerNo,
                "there are no acceptance measurements to plan with: profile a trained pair first");
  }
  return Planner(fit, hardware, target, options).run();
}

}  // namespace versieve
