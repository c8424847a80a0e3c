// The words of a strategy's parts and of its precision class.
#include "model/words/assert.h"
#include "model/words/strategy.h"

namespace versieve {

const char* name_of(AttentionMethod method) {
  switch (method) {
    case AttentionMethod::kNsa:
      return "nsa";
    case AttentionMethod::kDense:
      return "dense";
    case AttentionMethod::kResa:
      return "resa";
    case AttentionMethod::kSpecAttn:
      return "specattn";
    case AttentionMethod::kIndexer:
      return "indexer";
  }
  return "";
}

const char* name_of(Traversal traversal) {
  return traversal == Traversal::kBfs ? "bfs" : "dfs";
}

const char* name_of(TopkAlgorithm algorithm) {
  switch (algorithm) {
    case TopkAlgorithm::kSort:
      return "sort";
    case TopkAlgorithm::kRadix:
      return "radix";
    case TopkAlgorithm::kGvr:
      return "gvr";
  }
  return "";
}

const char* name_of(SamplingAlgorithm algorithm) {
  switch (algorithm) {
    case SamplingAlgorithm::kGreedy:
      return "greedy";
    case SamplingAlgorithm::kBaseline:
      return "baseline";
    case SamplingAlgorithm::kExact:
      return "exact";
    case SamplingAlgorithm::kCoupled:
      return "coupled";
    case SamplingAlgorithm::kSigmoid:
      return "sigmoid";
  }
  return "";
}

const char* name_of(NsaForm form) {
  return form == NsaForm::kVanilla ? "vanilla" : "fused";
}

const char* name_of(PrecisionClass precision) {
  switch (precision) {
    case PrecisionClass::kStrict:
      return "Strict";
    case PrecisionClass::kReuseOnly:
      return "Reuse-only";
    case PrecisionClass::kApproxOnly:
      return "Approx-only";
    case PrecisionClass::kApproxReuse:
      return "Approx+Reuse";
    case PrecisionClass::kSparseRectified:
      return "Sparse+Rectify";
    case PrecisionClass::kSparse:
      return "Sparse";
    case PrecisionClass::kApproxSampling:
      return "Approx-sampling";
  }
  return "";
}

const char* loss_of(PrecisionClass precision) {
  switch (precision) {
    case PrecisionClass::kStrict:
      return "none";
    case PrecisionClass::kReuseOnly:
      return "none against decoding with the same schedule, whose R layers read other blocks";
    case PrecisionClass::kApproxOnly:
      return "neighbours in the tree read one query's blocks";
    case PrecisionClass::kApproxReuse:
      return "neighbours in the tree read one query's blocks, R layers those of an earlier layer";
    case PrecisionClass::kSparseRectified:
      return "tokens read chosen parts of a context that dense passes make exact again";
    case PrecisionClass::kSparse:
      return "tokens read chosen parts of the context, and the cache keeps the error";
    case PrecisionClass::kApproxSampling:
      return "drafted tokens are accepted by another law than the target's";
  }
  return "";
}

bool claims_autoregressive_text(PrecisionClass precision) {
  return precision == PrecisionClass::kStrict || precision == PrecisionClass::kReuseOnly;
}

}  // namespace versieve
