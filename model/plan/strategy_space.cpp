#include "model/plan/strategy_space.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "model/cost/accepted_tokens.h"
#include "model/cost/batch_fit.h"
#include "model/cost/host_time.h"
#include "model/launches/nsa_shape.h"
#include "model/launches/step_composition.h"
#include "model/plan/composed_step.h"
#include "model/words/assert.h"

namespace versieve {
namespace {

template <class T>
std::int32_t index_in(std::vector<T>& values, const T& value) {
  const auto found = std::find(values.begin(), values.end(), value);
  if (found != values.end()) {
    return static_cast<std::int32_t>(found - values.begin());
  }
  values.push_back(value);
  return static_cast<std::int32_t>(values.size() - 1);
}

constexpr L2Pressure kPassed = {.warm_miss = 1.0, .written_share = 1.0};  // a step passes far more

}  // namespace

StrategySpace::StrategySpace(const FittedModel& fit, const LlmShape& target,
                             std::vector<std::int64_t> contexts,
                             const std::vector<std::string>& schedules,
                             const std::optional<DraftShape>& own_draft, std::int64_t requests)
    : fit_(fit),
      target_(target),
      draft_(own_draft.value_or(usual_draft(target))),
      requests_(requests),
      batched_(requests > 1 && fit.batch.measured(target.attention)),
      parameters_(fit.parameters()),
      contexts_(std::move(contexts)) {
  VERSIEVE_ASSERT(!fit.acceptance.positional.empty(), "a space is ranked by what tuples yield");
  for (const Strategy& s : enumerate_space(target, schedules)) {
    if (illegal_because(s, target).empty()) {
      add_strategy(s);
    }
  }
  const DraftShape draft = own_draft.value_or(draft_shape_for(target));
  for (const std::int64_t context : contexts_) {
    window_of_.push_back(index_in(windows_, std::min(draft.window, context)));
    overlap_.push_back(accepted_overlap(fit_.acceptance, context - 1, context));
    for (const Attention& attention : attentions_) {
      const StepShape shape = shape_of({}, attention, context, draft);
      refresh_factor_.push_back(
          std::exp(fit_.attention_time.at(attention_regime(shape, false, false))));
      reuse_factor_.push_back(
          std::exp(fit_.attention_time.at(attention_regime(shape, true, false))));
    }
  }
}

void StrategySpace::add_yields() {
  accepted_.clear();
  for (const std::int64_t context : contexts_) {
    add_accepted(context);
  }
}

void StrategySpace::add_strategy(const Strategy& s) {
  const std::string letters = s.schedule_for(target_.layers);
  const auto refresh = std::count(letters.begin(), letters.end(), 'F');
  const std::int64_t reuse = target_.layers - refresh;
  const bool drafts = s.draft.speculates();
  strategies_.push_back(s);
  const bool ordered = s.group_size > 1 && knows_order(fit_.acceptance, s.order);
  parts_.push_back({.draft = index_in(drafts_, s.draft),
                    .attention = index_in(
                        attentions_, {s.draft.nodes, s.group_size, s.group_mode,
                                      ordered ? s.order : Traversal::kBfs, drafts ? -1 : reuse}),
                    .refresh_layers = drafts ? static_cast<float>(refresh) : 1.0F,
                    .reuse_layers = drafts ? static_cast<float>(reuse) : 0.0F});
}

// What a tuple yields depends on its draft, schedule and approximate group alone; the order counts
// only in approximate groups.
void StrategySpace::add_accepted(std::int64_t context) {
  TokensInRange tokens(fit_.acceptance, context - 1, context);
  std::map<std::tuple<std::int32_t, std::string, std::int64_t, Traversal>, float> known;
  for (std::size_t i = 0; i < strategies_.size(); ++i) {
    const Strategy& s = strategies_[i];
    const std::int64_t group = approximate_group(s);
    const auto [found, fresh] = known.try_emplace(
        {parts_[i].draft, s.schedule, group, group > 1 ? s.order : Traversal::kBfs}, 0.0F);
    if (fresh) {
      found->second = static_cast<float>(1e6 * static_cast<double>(requests_) * tokens.of(s).mean);
    }
    accepted_.push_back(found->second);
  }
}

std::int64_t StrategySpace::size() const {
  return static_cast<std::int64_t>(strategies_.size() * contexts_.size());
}

StepShape StrategySpace::shape_of(const DraftChoice& tree, const Attention& attention,
                                  std::int64_t context, const DraftShape& draft) const {
  const std::size_t at = static_cast<std::size_t>(
      std::find(contexts_.begin(), contexts_.end(), context) - contexts_.begin());
  const std::int64_t reuse = std::max<std::int64_t>(attention.plain_reuse, 0);
  StepShape shape = {.target = target_,
                     .draft = draft,
                     .tree = tree,
                     .context_len = context,
                     .num_queries = attention.nodes,
                     .refresh_layers = target_.layers - reuse,
                     .reuse_layers = reuse,
                     .element_bytes = bytes_of(fit_.dtype),
                     .overlap = at < overlap_.size() ? overlap_[at] : StepShape{}.overlap,
                     .form = fit_.priced_form(),
                     .group_size = attention.group_size,
                     .group_mode = attention.group_mode,
                     .recorded = fit_.conditions.launch == LaunchMode::kGraph,
                     .sampling = sampling_at(Strategy{}, fit_.temperature),
                     .one_launch = attention.plain_reuse >= 0 && requests_ == 1 &&
                                   fit_.prices_one_launch(Strategy{}, target_, context),
                     .requests = requests_};
  if (batched_) {
    const bool dense = target_.attention == AttentionKind::kDense;
    shape.together = dense ? fit_.batch.dense_together : fit_.batch.together;
    shape.recorded = fit_.batch.launch == LaunchMode::kGraph;
  }
  share_in_order(fit_, attention.order, shape);
  return shape;
}

double StrategySpace::plain_us(const StepShape& shape, double refresh_factor, double reuse_factor,
                               const HardwareSpec& hardware, StepWork& scratch) const {
  scratch.count = 0;
  scratch.host_trips = 0.0;
  add_step(shape, parameters_[index_of(SharedParameter::kUniqueGrowth)], scratch);
  double us = host_wait_us(scratch.host_trips, 0.0, parameters_, fit_.conditions);
  for (const LaunchWork& launch : scratch) {
    const LaunchCost cost = cost_of(launch, kPassed, hardware, parameters_, fit_.conditions);
    const double factor = launch.layer == LayerKind::kRefresh ? refresh_factor
                          : launch.layer == LayerKind::kReuse ? reuse_factor
                                                              : 1.0;
    us += launch.launches * (factor * (cost.time_us - cost.overlapped_us) + cost.gap_us);
  }
  return us;
}

double StrategySpace::attention_us(const StepShape& shape, bool reuse, Launches which,
                                   double factor, const HardwareSpec& hardware,
                                   StepWork& scratch) const {
  scratch.count = 0;
  add_attention(attention_shape(shape, parameters_[index_of(SharedParameter::kUniqueGrowth)]),
                shape.form, reuse, 1.0, scratch);
  RunConditions conditions = fit_.conditions;
  conditions.launch = batched_ ? LaunchMode::kGraph : conditions.launch;  // the host is told apart
  double us = 0.0;
  for (const LaunchWork& launch : scratch) {
    const bool routes = launch.kind == LaunchKind::kNsaRoute;
    if (which != Launches::kAll && routes != (which == Launches::kRouting)) {
      continue;
    }
    const LaunchCost cost = cost_of(launch, kPassed, hardware, parameters_, conditions);
    const double overlapped_us = batched_ ? 0.0 : cost.overlapped_us;  // as apply_batch has it
    us += launch.launches * (factor * (cost.time_us - overlapped_us) + cost.gap_us);
  }
  return us;
}

void StrategySpace::add_rest(const DraftChoice& tree, std::int64_t context, const DraftShape& draft,
                             const HardwareSpec& hardware, StepWork& scratch, Times& times) const {
  double us = 0.0;
  scratch.count = 0;
  scratch.host_trips = scratch.led_trips = scratch.enqueue_us = scratch.host_us = 0.0;
  if (tree.speculates()) {  // else plain_us
    const StepShape shape = shape_of(tree, {.nodes = tree.nodes}, context, draft);
    add_step(shape, parameters_[index_of(SharedParameter::kUniqueGrowth)], scratch);
    if (batched_) {
      apply_batch(fit_.batch.values(), fit_.batch.kinds, shape, scratch);
    }
    const RunConditions conditions =
        batched_ ? conditions_of(scratch, fit_.conditions) : fit_.conditions;
    us = host_wait_us(scratch.host_trips, 0.0, parameters_, conditions);
    for (const LaunchWork& launch : scratch) {
      if (launch.layer == LayerKind::kNone) {
        us += launch.launches *
              cost_of(launch, kPassed, hardware, parameters_, conditions).added_us();
      }
    }
  }
  times.rest_us.push_back(us);
  if (batched_) {
    times.enqueue_us.push_back(scratch.enqueue_us);
    times.host_us.push_back(scratch.host_us);
  }
}

StrategySpace::Times StrategySpace::times_on(const HardwareSpec& machine) const {
  return times_on(machine, draft_);
}

StrategySpace::Times StrategySpace::times_on(const HardwareSpec& machine,
                                             const DraftShape& draft) const {
  VERSIEVE_ASSERT(draft.window == draft_.window, "contexts are told apart by the draft's window");
  const HardwareSpec hardware = fit_.priced_on(machine);
  Times out;
  StepWork scratch;
  std::size_t at = 0;
  for (const std::int64_t context : contexts_) {
    for (const Attention& attention : attentions_) {
      const StepShape shape = shape_of({}, attention, context, draft);
      const double refresh = refresh_factor_[at], reuse = reuse_factor_[at];
      const bool whole = attention.plain_reuse >= 0;
      const auto layer = [&](bool reuses, Launches which, double factor) {
        return attention_us(shape, reuses, which, factor, hardware, scratch);
      };
      const Launches others = batched_ ? Launches::kOthers : Launches::kAll;
      out.refresh_us.push_back(whole ? plain_us(shape, refresh, reuse, hardware, scratch)
                                     : layer(false, others, refresh));
      out.reuse_us.push_back(whole ? 0.0 : layer(true, Launches::kAll, reuse));
      if (batched_) {
        out.route_us.push_back(whole ? 0.0 : layer(false, Launches::kRouting, refresh));
      }
      at += 1;
    }
  }
  for (const std::int64_t window : windows_) {
    for (const DraftChoice& tree : drafts_) {
      add_rest(tree, window, draft, hardware, scratch, out);
    }
  }
  return out;
}

double StrategySpace::time_us(const Times& times, std::int64_t tuple) const {
  const std::size_t count = strategies_.size();
  return time_us(times, static_cast<std::size_t>(tuple) / count,
                 static_cast<std::size_t>(tuple) % count);
}

double StrategySpace::batch_time_us(const Times& times, std::int64_t tuple,
                                    const BatchFactors& f) const {
  VERSIEVE_ASSERT(batched_, "steps of so many requests were measured");
  const std::size_t count = strategies_.size();
  const std::size_t context = static_cast<std::size_t>(tuple) / count;
  const Parts& p = parts_[static_cast<std::size_t>(tuple) % count];
  const std::size_t attention =
      context * attentions_.size() + static_cast<std::size_t>(p.attention);
  const std::size_t rest = static_cast<std::size_t>(window_of_[context]) * drafts_.size() +
                           static_cast<std::size_t>(p.draft);
  const double device_us =
      times.rest_us[rest] +
      static_cast<double>(p.refresh_layers) *
          (f.route * times.route_us[attention] + f.attend * times.refresh_us[attention]) +
      static_cast<double>(p.reuse_layers) * f.reuse * times.reuse_us[attention];
  return f.step *
         (device_us + host_beside_us(times.enqueue_us[rest], times.host_us[rest], device_us));
}

void StrategySpace::evaluate(const Times& times, std::int64_t first,
                             std::span<float> throughput) const {
  VERSIEVE_ASSERT(std::ssize(accepted_) == size(), "what tuples yield was worked out");
  VERSIEVE_ASSERT(first >= 0 && first + static_cast<std::int64_t>(throughput.size()) <= size(),
                  "the tuples exist");
  const std::size_t count = strategies_.size();
  std::size_t tuple = static_cast<std::size_t>(first);
  std::size_t done = 0;
  while (done < throughput.size()) {  // a context's tuples at a time
    const std::size_t context = tuple / count;
    const std::size_t end = std::min(throughput.size(), done + (context + 1) * count - tuple);
    const double* rest =
        times.rest_us.data() + static_cast<std::size_t>(window_of_[context]) * drafts_.size();
    const double* refresh = times.refresh_us.data() + context * attentions_.size();
    const double* reuse = times.reuse_us.data() + context * attentions_.size();
    const Parts* parts = parts_.data() + tuple % count;
    for (; done < end; ++done, ++tuple, ++parts) {
      const double us = rest[parts->draft] +
                        static_cast<double>(parts->refresh_layers) * refresh[parts->attention] +
                        static_cast<double>(parts->reuse_layers) * reuse[parts->attention];
      throughput[done] = accepted_[tuple] / static_cast<float>(us);
    }
  }
}

}  // namespace versieve
