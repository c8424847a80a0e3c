// Steps of many requests at once (WorkloadKind::kBatch) on top of the fit to steps of one: the
// terms that only they have (model/cost/batch_fit.h), from times of whole steps and of their
// products and attention, and what those miss, as a smooth field. Nothing that steps of one request
// taught moves. Errors and intervals are of whole numbers of requests that the fit had not seen.
#pragma once

#include "engine/analyse/fit/cost_fit.h"
#include "engine/analyse/fit/fit_parts.h"

namespace versieve::engine {

// Of fewer numbers of requests none between others could be left out: then nothing is fitted.
inline constexpr std::size_t kFewestBatches = 4;

// To all points, and without each number of requests.
std::int64_t batch_parts(const std::vector<PointMeasurement>& measured);

// Adds to the report. Without such points nothing, but for what a prior knows. `prior` may be null.
// REQUIRES: the report's model is fitted to the rest.
void fit_batches(const std::vector<PointMeasurement>& measured, const HardwareSpec& hardware,
                 const FittedModel* prior, FitParts& parts, FitReport& report);

}  // namespace versieve::engine
