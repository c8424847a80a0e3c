// Many tuples at once: a step is its attention, by layers of each kind, and the rest of it, so a
// few thousand launches' costs on a machine price a million tuples. What does not depend on the
// machine (acceptance, residual corrections) is worked out once and kept for every machine.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "model/cost/fitted_model.h"
#include "model/launches/step_shape.h"
#include "model/plan/planner.h"

namespace versieve {

class StrategySpace {
 public:
  // The strategies of the planner's grid that are legal on the target, at each context length.
  // `draft`: the pair's own; draft_shape_for's where there is none. `requests`: of every step.
  // REQUIRES: the fit has acceptance.
  StrategySpace(const FittedModel& fit, const LlmShape& target, std::vector<std::int64_t> contexts,
                const std::vector<std::string>& schedules = default_schedules(),
                const std::optional<DraftShape>& draft = {}, std::int64_t requests = 1);

  std::int64_t size() const;  // tuples: strategies x contexts
  // Tuple t is strategies()[t % strategies().size()] at contexts()[t / strategies().size()].
  std::span<const Strategy> strategies() const { return strategies_; }
  std::span<const std::int64_t> contexts() const { return contexts_; }

  // Step times on one machine, part by part.
  struct Times {
    std::vector<double> rest_us;     // [window, draft]: all but the target's attention
    std::vector<double> refresh_us;  // [context, attention]: of one refresh layer; a plain step
    std::vector<double> reuse_us;    // [context, attention]: of one reuse layer
    // Where steps of so many requests were measured (is_measured_batch): routing of one refresh
    // layer, which is not in refresh_us then, and [window, draft] what the host does beside the
    // device and while that waits. Terms of attention and of a whole step are still to come.
    std::vector<double> route_us, enqueue_us, host_us;
  };
  // By what such a step's attention takes longer than composed: the terms and fields of
  // model/cost/batch_fit.h.
  struct BatchFactors {
    double route = 1.0, attend = 1.0, reuse = 1.0, step = 1.0;
  };
  bool is_measured_batch() const { return batched_; }
  // Of a step that drafts. REQUIRES: is_measured_batch.
  double batch_time_us(const Times& times, std::int64_t tuple, const BatchFactors& factors) const;
  Times times_on(const HardwareSpec& hardware) const;
  // With another draft of the same window than the pair's own, or than usual_draft says.
  Times times_on(const HardwareSpec& hardware, const DraftShape& draft) const;
  // REQUIRES: not is_measured_batch.
  double time_us(const Times& times, std::int64_t tuple) const;
  // Of strategies()[strategy] at contexts()[context].
  double time_us(const Times& times, std::size_t context, std::size_t strategy) const {
    const Parts& p = parts_[strategy];
    const std::size_t attention =
        context * attentions_.size() + static_cast<std::size_t>(p.attention);
    const std::size_t window = static_cast<std::size_t>(window_of_[context]);
    return times.rest_us[window * drafts_.size() + static_cast<std::size_t>(p.draft)] +
           static_cast<double>(p.refresh_layers) * times.refresh_us[attention] +
           static_cast<double>(p.reuse_layers) * times.reuse_us[attention];
  }
  // What tuples yield, which times do not need: worked out once for every machine.
  void add_yields();
  // REQUIRES: add_yields. Accepted tokens a second, of all requests, of tuples first, first + 1,
  // ... Independent ranges may be evaluated side by side. REQUIRES: not is_measured_batch.
  void evaluate(const Times& times, std::int64_t first, std::span<float> throughput) const;

 private:
  struct Parts {
    std::int32_t draft = 0;      // index into drafts_
    std::int32_t attention = 0;  // index into attentions_
    float refresh_layers = 0.0F, reuse_layers = 0.0F;
  };
  struct Attention {
    std::int64_t nodes = 1, group_size = 1;
    GroupMode group_mode = GroupMode::kExact;
    Traversal order = Traversal::kBfs;  // of groups, where the pair's selections tell orders apart
    // Of a plain step, which is priced whole, since one launch may run all its layers: how many of
    // them reuse. -1: a layer's attention.
    std::int64_t plain_reuse = -1;

    bool operator==(const Attention&) const = default;
  };

  StepShape shape_of(const DraftChoice& tree, const Attention& attention, std::int64_t context,
                     const DraftShape& draft) const;
  void add_strategy(const Strategy& strategy);
  void add_accepted(std::int64_t context);
  // Into the times, at their ends.
  void add_rest(const DraftChoice& tree, std::int64_t context, const DraftShape& draft,
                const HardwareSpec& hardware, StepWork& scratch, Times& times) const;
  double plain_us(const StepShape& shape, double refresh_factor, double reuse_factor,
                  const HardwareSpec& hardware, StepWork& scratch) const;
  // Of the launches of one layer; `routes`: its routing alone, or all but that, or all.
  enum class Launches { kAll, kRouting, kOthers };
  double attention_us(const StepShape& shape, bool reuse, Launches which, double factor,
                      const HardwareSpec& hardware, StepWork& scratch) const;

  const FittedModel& fit_;
  LlmShape target_;
  DraftShape draft_;  // in times_on(machine); its window in all
  std::int64_t requests_;
  bool batched_;  // steps of several requests on such a target were measured
  CostParameters parameters_;
  std::vector<std::int64_t> contexts_;
  std::vector<Strategy> strategies_;
  std::vector<Parts> parts_;  // [strategy]
  std::vector<DraftChoice> drafts_;
  std::vector<Attention> attentions_;
  std::vector<double> refresh_factor_, reuse_factor_;  // [context, attention]
  std::vector<double> overlap_;                        // [context]
  // The rest of a step sees of the context only what fits the draft's window.
  std::vector<std::int64_t> windows_;
  std::vector<std::int32_t> window_of_;  // [context], index into windows_
  std::vector<float> accepted_;          // [context, strategy], of all requests, x 1e6
};

}  // namespace versieve
