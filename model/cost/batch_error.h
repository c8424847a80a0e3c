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

// Assumptions, after six planned steps of 8 to 64 requests on an H100 that took 1.04 to 1.46
// times what was predicted of them, as random weights share less (engine/measure/bench/README.md):
// of log step time, for each unit of the log of distinct blocks of a group, where attention is all
// of the step; and the number of requests at which it is half. What a pair's neighbours share that
// nobody measured is as likely this much more or less.
inline constexpr double kSharingLogError = 0.30;
inline constexpr double kSharingRequests = 16.0;
inline constexpr double kAssumedOverlapError = 0.15;

// Distinct blocks of `group` queries, in blocks of one.
inline double distinct_of_group(double group, double overlap) {
  return 1.0 + (group - 1.0) * (1.0 - overlap);
}

// What groups saved in log of blocks where steps of many shared most.
inline double most_shared(const BatchFit& batch) {
  constexpr std::size_t kSharedAxis = 4;  // of batch_regime: in the other direction than contexts
  double most = 0.0;
  for (const ResidualField::Family& family : batch.time.families) {
    for (const auto& anchor : family.anchors) {
      most = std::max(most, -anchor[kSharedAxis]);
    }
  }
  return most;
}

// Standard deviation of log step time of `requests` requests whose groups share `overlap`: of what
// they save beyond all steps of many that were measured (those of `batch` shared its least_overlap
// or more), and of an overlap that is assumed.
inline double sharing_log_error(std::int64_t requests, double group, double overlap,
                                bool is_assumed, const BatchFit& batch) {
  if (requests <= 1 || group <= 1.0 || !batch.measured(AttentionKind::kNsa)) {
    return 0.0;
  }
  const double distinct = distinct_of_group(group, overlap);
  const double measured =
      std::max(std::log(group / distinct_of_group(group, batch.least_overlap)), most_shared(batch));
  const double apart = std::max(0.0, std::log(group / distinct) - measured);
  const double unsure = is_assumed ? kAssumedOverlapError * (group - 1.0) / distinct : 0.0;
  const double number = static_cast<double>(requests);
  return kSharingLogError * number / (number + kSharingRequests) * std::hypot(apart, unsure);
}

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
  return (batch.measured() ? batch.width_of(requests) / kNinety : 0.0) +
         kRequestsLogError *
             doublings(static_cast<double>(requests), static_cast<double>(batch.most_requests)) +
         kRowsLogError * doublings(rows, most_rows);
}

}  // namespace versieve
