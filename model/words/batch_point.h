// What the key of a step of many requests says (WorkloadKind::kBatch): its rows are the nodes of
// all requests, each with the tree of the strategy, so that requests are rows over the tree's
// nodes. Contexts are all alike, or of the regime kMixedContexts, whose rule gives each its own.
#pragma once

#include <cstdint>
#include <vector>

#include "model/words/measurement.h"

namespace versieve {

inline constexpr const char* kMixedContexts = "mixed";  // a regime
inline constexpr std::int64_t kMostBatch = 1024;        // requests of a point

// Throws Error: kUsage for a strategy's text that is not canonical, kBadInput for rows that are no
// whole number of its trees (a database's key may say anything). REQUIRES: a batch's key.
std::int64_t batch_requests(const PointKey& key);
// Of each request: all context_len, or mixed ones, evenly from a quarter of the mean to seven.
std::vector<std::int64_t> batch_contexts(const PointKey& key);

}  // namespace versieve
