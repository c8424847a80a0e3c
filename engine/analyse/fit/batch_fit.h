// Steps of many requests at once (WorkloadKind::kBatch) on top of the fit to steps of one: the
// terms that only they have (model/cost/batch_fit.h), from times of whole steps and of their
// products and attention, and what those miss, as a smooth field. Nothing that steps of one request
// taught moves. Errors and intervals are of whole numbers of requests that the fit had not seen.
#pragma once

#include "engine/analyse/fit/batch_points.h"
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

struct BatchPrediction {
  double time_us = 0.0;
  double closed_form_us = 0.0;  // by the terms, without the field beyond them
  double dram_bytes = 0.0, read_bytes = 0.0;
};

// Of a step of many requests on a machine that `model` prices (FittedModel::priced_on). REQUIRES:
// the model's batches were measured.
BatchPrediction predict_batch(const BatchPoint& p, const HardwareSpec& priced,
                              const FittedModel& model);

// Of steps that were timed and, in another run, had their energy taken, the former: one engine's
// times, once each. Counts the others in `skipped`.
std::vector<PointMeasurement> timed_once(const std::vector<PointMeasurement>& measured,
                                         std::map<std::string, std::int64_t>& skipped);

}  // namespace versieve::engine
