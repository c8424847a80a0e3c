#include "engine/analyse/fit/system_predictor.h"

#include <cmath>

#include "engine/analyse/fit/cost_search.h"
#include "engine/analyse/fit/system_points.h"

namespace versieve::engine {

SystemPrediction predict_system(const FitPoint& p, const HardwareSpec& hardware,
                                const CostParameters& values, const ResidualField& field) {
  SystemPrediction out;
  const PointWork work = system_work(p, field);
  for (const KindCost& kind : cost_by_kind(work.observed, hardware, values, p.conditions)) {
    out.dram_bytes += kind.dram_bytes;
  }
  const std::optional<Regime> own = system_regime(p);
  out.time_us = cost_of(work.timed, hardware, values, p.conditions).time_us *
                std::exp(field.at(own ? *own : whole_step_regime(p)));
  return out;
}

}  // namespace versieve::engine
