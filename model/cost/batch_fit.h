// Steps of many requests at once: what they take beyond the launches of model/launches, as measured
// points say (WorkloadKind::kBatch). Weights are read once a step and rows are those of all
// requests; on top of that come six numbers:
//   products   rate of the linear layers' products over the fit's own, of as many rows
//   attention, dense_attention   time of a ragged launch over all requests, as the engine makes it,
//              over the composed one
//   launch, layer   the host's time to enqueue a launch, and a request's part of a layer: beside
//              the device's time
//   trip, request   its time for each wait and for each request, while the device waits
// Of steps that are recorded the last four are near 0. Where no step was measured nothing of this
// is known (batch_error.h).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "model/cost/residual_field.h"
#include "model/launches/launch_work.h"
#include "model/launches/step_shape.h"
#include "model/words/point_words.h"

namespace versieve {

enum class BatchTerm { kProducts, kAttention, kDenseAttention, kLaunch, kLayer, kTrip, kRequest };
inline constexpr std::size_t kBatchTermCount = 7;
using BatchTerms = std::array<double, kBatchTermCount>;

struct BatchTermInfo {
  const char* name;  // "batch.products"
  const char* unit;
  double low, high;
  double initial;
};
std::span<const BatchTermInfo, kBatchTermCount> batch_term_table();

struct BatchTermEstimate {
  double value = 0.0;
  double low = 0.0;  // 90 %
  double high = 0.0;
  bool informed = false;
};

// |log(predicted / measured)| that 90 % of steps stay under whose number of requests was left out
// and is within a factor of four of this one: few requests are missed otherwise than many.
struct BatchWidth {
  std::int64_t requests = 0;
  double log_latency = 0.0;
};

struct BatchFit {
  std::int64_t points = 0;                  // 0: none was measured, and nothing else here counts
  std::int64_t dense_points = 0;            // of them, of targets with a dense cache
  LaunchMode launch = LaunchMode::kStream;  // how their steps were enqueued
  std::vector<BatchTermEstimate> terms;     // [kBatchTermCount]
  // Requests of one attention launch as the engine makes them; 0: all in one.
  std::int64_t together = 0, dense_together = 0;
  // Of each kind of attention and of products: log time beyond the terms.
  ResidualField kinds;
  // What these terms miss of log time and of log bytes, over B, N, L and kind of target.
  ResidualField time;
  ResidualField bytes;
  // |log(predicted / measured)| that 90 % stay under where their number of requests was left out.
  double log_latency = 0.0;
  std::vector<BatchWidth> widths;  // by ascending requests; empty: log_latency is all that is known
  // The least that neighbouring queries' blocks had in common where they were read by groups.
  double least_overlap = 0.0;
  std::int64_t most_requests = 0, most_rows = 0;  // that were measured

  bool measured() const { return points > 0; }
  bool measured(AttentionKind kind) const {
    return kind == AttentionKind::kDense ? dense_points > 0 : points > dense_points;
  }
  BatchTerms values() const;
  // The widest of the nearest numbers of requests on both sides.
  double width_of(std::int64_t requests) const;
};

// Of a step of `shape.requests` requests: as the batched engine runs it. Adds the terms and the
// field of BatchFit to composed work, whose attention the field of one request has corrected
// before.
void apply_batch(const BatchTerms& terms, const ResidualField& kinds, const StepShape& shape,
                 StepWork& work);
// Its two halves, of which the field's depends on no term.
void apply_batch_kinds(const ResidualField& kinds, const StepShape& shape, StepWork& work);
void apply_batch_terms(const BatchTerms& terms, const StepShape& shape, StepWork& work);
Regime batch_regime(const StepShape& shape);
// The same of one kind of launch in it: attention, products.
Regime batch_kind_regime(const Regime& step, LaunchKind kind);
bool is_batch_kind(LaunchKind kind);

}  // namespace versieve
