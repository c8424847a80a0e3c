// Prices the candidates of a question on one machine after another. Of an NSA target the four
// classes of its own, by the replanner's parts; of a dense one each class, all tuples that its plan
// ranks. The plan's bound between tokens is held to on each; one to the first token is of prompts
// that one machine read, and joules are of the power of one.
#pragma once

#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "gui/models/sensitivity.h"
#include "model/plan/candidate_prices.h"
#include "model/plan/dense_prices.h"

namespace versieve::gui {

// Classes that a map may be of.
std::vector<PrecisionClass> mapped_classes(const Plan& plan);

class MachineBench {
 public:
  // Keeps a reference to the question.
  explicit MachineBench(const SensitivityQuestion& question);

  // The planner's machine, and turned by the question's factors.
  Situation unturned() const;
  Situation own() const;
  // Those that lead in some of these situations and are hardly behind the winner of one.
  void find_candidates(const std::vector<Situation>& situations);
  const std::vector<Strategy>& strategies() const { return strategies_; }

  // Of equals the candidate that was found first.
  Winner winner_in(const Situation& situation) const { return winner_among(all_, situation); }
  // REQUIRES: ascending; -1 is none of them. `is_held`: the bound is known to be kept.
  Winner winner_among(const std::vector<int>& candidates, const Situation& situation,
                      bool is_held = false) const;
  bool isBounded() const { return plan_.chosen.aims.itl_ms.has_value(); }

 private:
  struct Prices {
    std::function<double(const Strategy&)> rate;           // tokens a second; 0: does not fit
    std::function<Evaluation(const Strategy&)> evaluated;  // with its intervals
  };
  using Range = std::pair<std::int64_t, std::int64_t>;  // its ends

  // Outlives neither the bench nor the situation.
  Prices prices_in(const Situation& situation) const;
  Prices dense_prices_in(const Situation& situation) const;
  // The best first; only those that are not known to break the bound by their mean.
  std::vector<std::pair<double, std::size_t>> ordered(const std::vector<double>& rates,
                                                      std::int64_t requests) const;
  bool keeps_bound(const Evaluation& evaluation, std::int64_t requests) const;
  bool fits(const Strategy& strategy, const Situation& situation) const;
  std::vector<Strategy> leading_in(const std::vector<Situation>& situations) const;
  std::vector<Strategy> dense_tuples() const;
  bool decided_by_parts() const;
  std::vector<std::size_t> ranges() const;
  bool is_asked_for(const Strategy& strategy) const;
  bool is_baseline(const Strategy& strategy) const;

  const SensitivityQuestion& question_;
  const Plan& plan_;
  FittedModel fit_;
  PlanOptions dense_;  // of a dense target's plan
  // Each composes what it is asked for first.
  mutable std::map<Range, CandidatePrices> prices_;
  mutable std::map<Range, DensePrices> dense_prices_;
  std::vector<Strategy> strategies_;
  std::vector<int> all_;  // their places
};

}  // namespace versieve::gui
