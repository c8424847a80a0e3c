// Fits the cost model to measured points and says how well it predicts points it has not seen.
// Two stages: DRAM bytes against counters, then times with those bytes. Held-out errors come from
// the inputs a planner has (context, queries, overlap), never from a point's own counters.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "engine/analyse/fit/coverage.h"
#include "engine/analyse/fit/error_summary.h"
#include "engine/analyse/fit/fit_parts.h"
#include "engine/analyse/fit/fit_points.h"
#include "engine/analyse/fit/ranking.h"
#include "model/cost/fitted_model.h"

namespace versieve::engine {

struct FitOptions {
  double holdout = 0.2;
  bool leave_out_regimes = true;  // fits once more for each context length and query count
  // A fit to keep the parameters of, carried to this machine by what both were measured to give;
  // the points then say what it misses here. Null: parameters are searched. Not owned.
  const FittedModel* prior = nullptr;
  // Reason -> points that whoever read them left out. Null: none. Not owned.
  const std::map<std::string, std::int64_t>* left_out = nullptr;
  int threads = 0;  // 0: as many as there are cores; they never show in a report
  // Ends the fit, which then throws, when it says so. Null: nobody asks. Not owned.
  const GoesOn* goes_on = nullptr;
};

struct RegimeError {
  std::string workload;  // attention, step
  std::string context;   // "0-4096"
  std::string queries;   // "1", "2-16", "17-64", "65-256"
  ErrorSummary latency;
  ErrorSummary dram_bytes;
};

// Predicted against counted bytes and times of one kind of launch, over held-out points.
struct TermError {
  std::string launch;  // "nsa_selected"
  double predicted_bytes = 0.0;
  double measured_bytes = 0.0;
  std::array<double, kTrafficTermCount> predicted_by_term{};
  ErrorSummary dram_bytes;
  ErrorSummary latency;
};

// A whole context length or query count that the fit did not see.
struct LeftOutError {
  std::string axis;  // "context", "queries"
  std::int64_t value = 0;
  bool beyond = false;  // at the end of what was measured: the tool would refuse it
  ErrorSummary latency;
  ErrorSummary dram_bytes;
  std::optional<double> interval_coverage_90;  // by the other regimes' quantile
};

// One point as a report shows it: predicted from a planner's knowledge, held out or not.
struct ComparedPoint {
  PointKey key;
  bool held_out = false;
  std::optional<double> measured_us, measured_bytes, measured_read;
  double predicted_us = 0.0, closed_form_us = 0.0, predicted_bytes = 0.0, predicted_read = 0.0;
};

// How well a system beyond NSA is predicted by fits that had not seen the points.
struct SystemError {
  std::string name;  // "decode resa", "topk radix"
  std::int64_t points = 0;
  ErrorSummary latency;
  ErrorSummary dram_bytes;   // of points that move kLeastJudgedBytes
  double log_latency = 0.0;  // that 90 % stay under
};

// A term of a sparse step, KV (1/b + p + 1/f), and how well it is predicted: of points that the
// fits had not seen, or of a whole value of an axis that they had not seen.
struct SparseTermError {
  std::string term;     // "key scoring", "selection", "attending", "pass", "step", "with its pass"
  std::string axis;     // "b", "p", "f", "L"; empty: single points, none of them seen
  bool beyond = false;  // of the axis's least and greatest value, which a prediction refuses
  ErrorSummary latency, dram_bytes;
  // Counted bytes over what the term's formula says, at the points.
  std::optional<double> of_formula, of_formula_least, of_formula_most;
};

// Steps of a small pair beside those of others (apart_fit.h).
struct ApartSteps {
  std::string geometry;
  ErrorSummary before;   // by the fit to the others
  ErrorSummary latency;  // by a fit to four fifths of these beside, which had not seen the point
};

struct FitReport {
  FittedModel model;
  double holdout = 0.0;
  std::int64_t points_train = 0;
  std::int64_t points_holdout = 0;
  // Bytes of held-out points that move kLeastJudgedBytes or more: read and written, and read.
  ErrorSummary dram_bytes;
  ErrorSummary dram_read;
  ErrorSummary dram_fused, dram_vanilla;  // those of dram_bytes that each form moves
  ErrorSummary dram_warm;                 // those of dram_bytes that were measured with warm caches
  std::int64_t dram_few = 0;              // held-out points that move less
  std::optional<double> dram_few_error;   // bytes: their median |predicted - counted|
  ErrorSummary latency;
  ErrorSummary closed_form_latency;            // without the residual fields
  std::optional<double> interval_coverage_90;  // of held-out points
  std::optional<double> unseen_coverage_90;    // of all points, each unseen by its fit
  std::vector<CoverageRow> coverage;           // the same by context range
  std::vector<RankedClass> ranked;             // pairs of all points, each unseen by its fit
  std::optional<double> kendall_tau;           // tau-b of all of them
  std::optional<double> least_kendall_tau;     // of the classes that have one
  std::optional<double> top1_regret;
  std::optional<double> worst_regret;
  std::string worst_choice;
  std::vector<LeftOutError> left_out;
  ErrorSummary left_out_latency, left_out_dram;  // between measured regimes
  std::optional<double> left_out_coverage_90;    // there
  std::vector<ComparedPoint> compared;
  std::vector<RegimeError> by_regime;
  std::vector<TermError> by_term;
  std::vector<SystemError> systems;
  std::vector<SparseTermError> sparse_terms;
  ErrorSummary system_latency, system_dram;  // of all of them
  ApartSteps apart;
  // Steps of many requests (batch_fit.h): by whole numbers of requests that the fit had not seen,
  // all of those between others together, and without the field.
  std::vector<LeftOutError> batches;
  ErrorSummary batch_latency, batch_dram, batch_closed_latency;
  std::optional<double> batch_coverage_90;
  std::vector<ComparedPoint> batch_compared;
  ErrorSummary energy;                          // of a step (energy_fit.h), likewise left out
  std::map<std::string, std::int64_t> skipped;  // reason -> points
};

// `measured` are the points of one device, its runs' uuids beside. Throws Error(kAnswerNo) when
// there is nothing to fit to, or when the prior is a fit of another dtype or to one of these runs.
FitReport fit_cost_model(const std::vector<PointMeasurement>& measured, const std::string& device,
                         const HardwareSpec& hardware, const std::vector<std::string>& runs,
                         const FitOptions& options);

}  // namespace versieve::engine
