// Which measured points the cost model learns from, and what each says: the launches that the model
// composes for it, the time and the DRAM bytes that were measured for the whole and for each kind
// of launch. Points that cannot be used are counted with the reason.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "model/cost/fitted_model.h"
#include "model/launches/step_shape.h"
#include "model/words/kernel_case.h"
#include "model/words/measurement.h"

namespace versieve::engine {

struct RangeObservation {
  LaunchKind kind = LaunchKind::kLinear;
  std::optional<double> time_us;     // all launches of one repetition, the shortest
  std::optional<double> dram_bytes;  // read + written
  std::optional<double> read_bytes;  // of them; known where dram_bytes is
};

struct FitPoint {
  PointKey key;
  Strategy strategy;
  StepShape shape;     // overlap as the planner would know it
  bool reuse = false;  // an attention point whose layer inherits its indices
  RunConditions conditions;
  std::optional<double> unique_blocks;  // measured
  std::optional<double> time_us;        // median
  double time_log_error = 0.0;          // standard error of log(median)
  std::optional<double> dram_bytes;     // all ranges; none if one lacks its counters
  std::optional<double> read_bytes;     // of them
  std::vector<RangeObservation> ranges;
  bool held_out = false;
  bool device_ranges = false;            // its ranges are of a step that no host led
  bool system = false;                   // of system_points.h
  std::optional<TopkCase> topk;          // such a kernel alone: key has lengths and rows
  std::optional<SamplingCase> sampling;  // the same
};

struct FitPoints {
  std::vector<FitPoint> points;
  std::vector<FitPoint> apart;  // steps of a small pair, where there are steps of others too
  // Of those that were watched on the device: the launches around a tree, which are any pair's and
  // of which host-led steps have no ranges. Ranges' times alone, never judged.
  std::vector<FitPoint> watched;
  std::map<std::string, std::int64_t> skipped;  // reason -> points
  Dtype dtype = Dtype::kUnstated;
};

// The attention and step points of NSA among `measured`, of the most frequent dtype. A point is
// held out when the hash of its cell says so: the same points whatever their order and number.
// Sorted by key.
FitPoints fit_points(const std::vector<PointMeasurement>& measured, double holdout);
// A point of that target and draft, as if it were not held out.
FitPoint fit_point(const PointMeasurement& point, const LlmShape& target, const DraftShape& draft);
// The point as a step that plans quote. REQUIRES: it has a time.
MeasuredStep measured_step(const FitPoint& point, const std::string& geometry, double predicted_us);
// The launches of a point; with `known` the measured distinct blocks are used, without it what
// overlap and growth predict. `timed` is what the point's time is of; `observed` what its ranges
// are of: of most recorded steps the same work led by the host.
struct PointWork {
  StepWork timed;
  StepWork observed;
};
PointWork work_of(const FitPoint& point, double unique_growth, bool known);
// Distinct blocks of the point's queries by overlap and growth, to be held against unique_blocks.
double predicted_blocks(const FitPoint& point, double unique_growth);
std::string key_text(const PointKey& key);
// What a planner would take for the same: the key without cache state and, for groups of one query,
// traversal order. Points of one cell are held out together.
std::string cell_text(const PointKey& key);
// From 0 to below 1, by the cell alone.
double cell_hash(const PointKey& key);

}  // namespace versieve::engine
