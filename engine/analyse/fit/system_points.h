// Points of the other systems: a layer's attention over a dense cache (dense, ReSA, SpecAttn),
// steps of dense targets, top-k and samplers alone. What a planner cannot know of SpecAttn, how
// many tokens carry its share of the attention, is taken from the point.
#pragma once

#include <string>

#include "engine/analyse/fit/fit_points.h"
#include "model/cost/residual_field.h"

namespace versieve::engine {

bool is_system_point(const PointMeasurement& m);
// Sorted by key. Steps and layers are of their most frequent dtype; kernels of any.
FitPoints system_points(const std::vector<PointMeasurement>& measured);
// The launches of such a point. Of a sampler only those that were measured are composed: its
// smaller launches came and went.
PointWork system_work(const FitPoint& point);
// "decode resa", "step dense", "topk radix", "sampling exact chain".
std::string system_name(const FitPoint& point);
// None for a step: its attention is corrected, what is left of it stays.
std::optional<Regime> system_regime(const FitPoint& point);

}  // namespace versieve::engine
