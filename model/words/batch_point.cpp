#include "model/words/batch_point.h"

#include <algorithm>
#include <string>

#include "model/words/assert.h"
#include "model/words/error.h"
#include "model/words/strategy.h"

namespace versieve {

std::int64_t batch_requests(const PointKey& key) {
  VERSIEVE_ASSERT(key.workload == WorkloadKind::kBatch, "a batch's key says how many requests");
  const std::int64_t nodes = Strategy::parse(key.strategy).draft.nodes;
  if (key.num_queries < nodes || key.num_queries % nodes != 0) {
    throw Error(ExitCode::kBadInput, "a batch of " + std::to_string(key.num_queries) +
                                         " nodes is no whole number of trees of " +
                                         std::to_string(nodes));
  }
  return key.num_queries / nodes;
}

std::vector<std::int64_t> batch_contexts(const PointKey& key) {
  const std::int64_t requests = batch_requests(key);
  std::vector<std::int64_t> contexts(static_cast<std::size_t>(requests), key.context_len);
  for (std::int64_t i = 0; key.regime == kMixedContexts && requests > 1 && i < requests; ++i) {
    const std::int64_t mean = key.context_len;
    contexts[static_cast<std::size_t>(i)] =
        std::max<std::int64_t>(1, (mean + 6 * mean * i / (requests - 1)) / 4);
  }
  return contexts;
}

}  // namespace versieve
