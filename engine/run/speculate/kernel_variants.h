// Which kernel a strategy's option asks for.
#pragma once

#include <optional>

#include "engine/run/model/verify_options.h"
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

// Which blocks a token attends by ReSA.
inline kernels::ResaSelection resa_selection(const Strategy& strategy) {
  return {.key_block = strategy.resa_key_block,
          .active_ratio = strategy.resa_active_ratio,
          .n_min = strategy.resa_n_min,
          .n_local = strategy.resa_n_local};
}

// Which tokens a step reads by an indexer; none of other strategies.
inline std::optional<IndexSelection> index_selection(const Strategy& strategy) {
  if (strategy.attention != AttentionMethod::kIndexer) {
    return std::nullopt;
  }
  return IndexSelection{.chosen = strategy.indexer_k,
                        .newest = strategy.indexer_window,
                        .topk = variant_of(strategy.topk.value_or(TopkAlgorithm::kGvr))};
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
