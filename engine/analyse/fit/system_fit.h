// The fit of the other systems' launches, after that of NSA's: what both launch (products, norms,
// gaps, L2, DRAM) keeps the parameters that NSA's points gave it; the kinds that no NSA step has
// are fitted to decode, top-k and sampling points and to steps of dense targets. Errors are of
// points predicted by fits that had not seen their cells (five folds), since there are few of them.
#pragma once

#include "engine/analyse/fit/cost_fit.h"
#include "engine/analyse/fit/fit_parts.h"

namespace versieve::engine {

inline constexpr std::int64_t kSystemParts = 6;  // to all points, and without each fold
// And, if wanted, without each value of the terms of a sparse step.
std::int64_t system_parts(const std::vector<PointMeasurement>& measured, bool leaves_out);

// Adds to the report: parameters, residual fields, quantiles, measured steps, errors by system and
// by launch, what was left out. Without such points nothing, but for what a prior knows: its fields
// and its quantiles, as much wider as carrying them makes them. With both, points say what it
// misses. `prior` may be null. `leaves_out`: whole values of block size, ratio, period and context
// too (sparse_terms.h).
void fit_systems(const std::vector<PointMeasurement>& measured, const HardwareSpec& hardware,
                 const FittedModel* prior, bool leaves_out, FitParts& parts, FitReport& report);

}  // namespace versieve::engine
