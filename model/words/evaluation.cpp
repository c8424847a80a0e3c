#include "model/words/evaluation.h"

#include <algorithm>

namespace versieve {

const char* name_of(Provenance source) {
  switch (source) {
    case Provenance::kMeasured:
      return "measured";
    case Provenance::kSimulated:
      return "simulated";
    case Provenance::kPredicted:
      return "predicted";
    case Provenance::kImported:
      return "imported";
  }
  return "";
}

const char* name_of(Phase phase) {
  switch (phase) {
    case Phase::kAttention:
      return "attention";
    case Phase::kMatrices:
      return "matrices";
    case Phase::kOther:
      return "other";
    case Phase::kDraft:
      return "draft";
    case Phase::kAcceptance:
      return "acceptance";
  }
  return "";
}

const char* name_of(Bound bound) {
  switch (bound) {
    case Bound::kDram:
      return "dram";
    case Bound::kL2:
      return "l2";
    case Bound::kCompute:
      return "compute";
    case Bound::kLatency:
      return "latency";
    case Bound::kLaunch:
      return "launch";
  }
  return "";
}

Bound bottleneck_of(const StepCost& cost) {
  return static_cast<Bound>(std::max_element(cost.bound_us.begin(), cost.bound_us.end()) -
                            cost.bound_us.begin());
}

}  // namespace versieve
