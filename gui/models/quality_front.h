// What quality costs: a context range's ranked tuples by tokens a second and by what they may lose,
// which of them no other beats in both, and what a limit of losses leaves. The loss is the upper
// end of its 95 % interval, as the limit of `versieve plan --max-loss` has it.
#pragma once

#include <QString>
#include <optional>
#include <vector>

#include "gui/models/planner.h"

namespace versieve::gui {

struct FrontPoint {
  const PlanEntry* entry = nullptr;
  std::optional<double> most_kl;  // nats a token; none: it was not measured
  bool is_within = true;          // the limit
  bool is_on_front = false;       // no measured one loses less and yields more
};

struct QualityFront {
  PlanPtr plan;  // keeps the entries alive
  std::int64_t bucket = 0;
  std::optional<double> limit;
  std::vector<FrontPoint> points;  // fastest first

  std::vector<double> losses() const;  // measured ones above zero, each once, ascending
};

QualityFront quality_front(const PlanPtr& plan, std::int64_t bucket,
                           const std::vector<PrecisionClass>& classes);
// The best within the limit, the best without one, what the limit costs, and what it cannot judge.
QString front_text(const QualityFront& front);
// One point in lines: strategy, class, tokens a second, loss, why it is where it is.
QString front_point_text(const QualityFront& front, const FrontPoint& point);
// "0.053 nats", "exact", "not measured"
QString loss_text(const std::optional<double>& most_kl);

}  // namespace versieve::gui
