// How sure a step of several requests is: as far as such steps were measured (batch_fit.h), what
// those miss whose number of requests was left out of the fit; beyond, and where none was measured,
// by assumption.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "model/cost/batch_fit.h"
#include "model/words/normal_law.h"

namespace versieve {

// Assumptions. Of log step time, for each doubling of the requests (ragged attention, L2 that they
// share) and for each doubling of rows (products in the place of bandwidth) beyond what was
// measured.
inline constexpr double kRequestsLogError = 0.04;
inline constexpr double kRowsLogError = 0.04;

// Whether steps of a target as wide were among those measured: of another geometry terms and fields
// are borrowed.
inline bool is_batch_geometry(const BatchFit& batch, const LlmShape& target) {
  constexpr std::size_t kHiddenAxis = 3;  // of batch_regime
  StepShape shape;
  shape.target = target;
  const Regime regime = batch_regime(shape);
  return std::any_of(
      batch.time.families.begin(), batch.time.families.end(),
      [&](const ResidualField::Family& family) {
        return family.family == regime.family &&
               std::any_of(family.anchors.begin(), family.anchors.end(), [&](const auto& anchor) {
                 return std::abs(anchor[kHiddenAxis] - regime.at[kHiddenAxis]) < 1e-9;
               });
      });
}

// Standard deviation of log step time of `requests` requests at once, `rows` nodes in all; 0 of one
// request. Where batches were measured it is of the whole prediction; else it comes on top of what
// a step of one request has, and `measured_rows` are the nodes of the largest of those.
inline double batch_log_error(std::int64_t requests, double rows, double measured_rows,
                              const BatchFit& batch = {}) {
  if (requests <= 1) {
    return 0.0;
  }
  const auto doublings = [](double most, double measured) {
    return std::max(0.0, std::log2(most / std::max(1.0, measured)));
  };
  const double most_rows = batch.measured() ? static_cast<double>(batch.most_rows) : measured_rows;
  return (batch.measured() ? batch.log_latency / kNinety : 0.0) +
         kRequestsLogError *
             doublings(static_cast<double>(requests), static_cast<double>(batch.most_requests)) +
         kRowsLogError * doublings(rows, most_rows);
}

}  // namespace versieve
