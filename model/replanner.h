// Plans for machine after machine, each within a frame: a model of steps by parts
// (strategy_space.h) ranks all tuples, and those near the top of a cell alone are priced as a plan
// prices them. The answer is the full plan's as long as both rank alike but for `kept` places.
#pragma once

#include "model/planner.h"
#include "model/strategy_space.h"

namespace versieve {

class Replanner {
 public:
  // Keeps a reference to the fit. Throws as plan() does.
  Replanner(const FittedModel& fit, const LlmShape& target, PlanOptions options,
            std::int64_t kept = 20);

  // The fit's own machine takes the time of a whole plan, since single steps measured there correct
  // single tuples.
  PlanTable plan_on(const HardwareSpec& hardware) const;

 private:
  struct Tuple {
    std::int32_t strategy = 0;   // index into space_.strategies()
    std::int32_t candidate = 0;  // index into the candidates
    float accepted = 1.0F;       // tokens a step, mean of the bucket
    std::vector<float> factor;   // [sample]: measured over composed time
  };
  using Cell = std::vector<Tuple>;  // the tuples of one class in one bucket

  void fill(Cell& cell, std::size_t bucket, PrecisionClass precision);
  // Marks those that rank first, by their places among the candidates.
  void mark_best(const Cell& cell, std::size_t bucket, const StrategySpace::Times& times,
                 std::vector<bool>& marked) const;

  const FittedModel& fit_;
  LlmShape target_;
  PlanOptions options_;
  std::int64_t kept_;
  Candidates all_;
  std::vector<bool> baselines_;  // [candidate]
  StrategySpace space_;
  std::vector<Cell> cells_;  // [bucket, own class]
};

}  // namespace versieve
