// Points of the other systems: a layer's attention over a dense cache (dense, ReSA, SpecAttn) and
// ReSA's pass over it, steps of dense targets, top-k and samplers alone. What a planner cannot know
// of SpecAttn, how many tokens carry its share of the attention, is taken from the point.
#pragma once

#include <string>

#include "engine/analyse/fit/fit_points.h"
#include "model/cost/residual_field.h"

namespace versieve::engine {

bool is_system_point(const PointMeasurement& m);
// Sorted by key. Steps and layers are of their most frequent dtype; kernels of any.
FitPoints system_points(const std::vector<PointMeasurement>& measured);
// A layer or step of that target and draft, a trained pair's.
FitPoint system_point(const PointMeasurement& m, const LlmShape& target, const DraftShape& draft);
// The launches of such a point, attention within steps and the launches of ReSA's vanilla form
// corrected by the field. Of a sampler only
// those that were measured are composed: its smaller launches came and went. Of a period the time
// is a step's with its share of the pass, the ranges are the pass's.
PointWork system_work(const FitPoint& point, const ResidualField& field = {});
// Of one layer's attention, not of a step.
bool is_layer(const FitPoint& point);
// "decode resa", "decode resa vanilla", "step dense", "topk radix", "sampling exact chain".
std::string system_name(const FitPoint& point);
// None for a step: its attention is corrected, what is left of it stays.
std::optional<Regime> system_regime(const FitPoint& point);
Regime whole_step_regime(const FitPoint& point);

}  // namespace versieve::engine
