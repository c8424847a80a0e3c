// Which kernel a strategy's option asks for.
#pragma once

#include "kernels/ops.h"
#include "model/words/strategy.h"

namespace versieve::engine {

inline kernels::TopkVariant variant_of(TopkAlgorithm algorithm) {
  switch (algorithm) {
    case TopkAlgorithm::kSort:
      break;
    case TopkAlgorithm::kRadix:
      return kernels::TopkVariant::kRadix;
    case TopkAlgorithm::kGvr:
      return kernels::TopkVariant::kGvr;
  }
  return kernels::TopkVariant::kSort;
}

// Of a drafted chain; coupled ones have no such launch.
inline kernels::SpecSampleVariant variant_of(SamplingAlgorithm sampling) {
  switch (sampling) {
    case SamplingAlgorithm::kBaseline:
      return kernels::SpecSampleVariant::kBaseline;
    case SamplingAlgorithm::kSigmoid:
      return kernels::SpecSampleVariant::kSigmoid;
    case SamplingAlgorithm::kGreedy:
    case SamplingAlgorithm::kCoupled:
    case SamplingAlgorithm::kExact:
      break;
  }
  return kernels::SpecSampleVariant::kExact;
}

}  // namespace versieve::engine
