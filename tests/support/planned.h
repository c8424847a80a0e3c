// A fitted model put together by hand, for tests of the planner and its files.
#pragma once

#include "model/cost/fitted_model.h"

namespace versieve::synthetic {

// On an H200, geometry nsa-1b, contexts to 64K; `first` is the acceptance of the draft's best
// child. Without `fused_measured` the vanilla launches alone were measured.
inline FittedModel fitted_by_hand(double first = 0.8, double siblings = 0.9,
                                  bool fused_measured = false) {
  FittedModel fit;
  fit.device = "NVIDIA H200";
  fit.hardware_key = "h200-sxm";
  fit.geometry = "nsa-1b";
  fit.dtype = Dtype::kBf16;
  fit.points = 200;
  fit.runs = {"0123"};
  const CostParameters values = initial_parameters();
  for (const double value : values) {
    fit.estimates.push_back({value, value, value, true, false});
  }
  for (const LaunchKind kind :
       {LaunchKind::kNsaRoute, LaunchKind::kNsaAttend, LaunchKind::kNsaReuse}) {
    for (std::size_t p = 0; p < kKindParameterCount; ++p) {
      fit.estimates[index_of(kind, static_cast<KindParameter>(p))].informed = fused_measured;
    }
  }
  fit.errors = {{0, 4096, 0.1, 0.1, 50}, {4096, 65536, 0.15, 0.1, 50}};
  fit.acceptance.pair = "demo-nsa";
  AcceptanceModel::Positional range;
  range.context_high = 16384;
  range.first = first;
  range.siblings = siblings;
  fit.acceptance.positional.push_back(range);
  return fit;
}

}  // namespace versieve::synthetic
