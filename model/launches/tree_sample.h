// Samplers of draft trees (kernels/tree_sample; Optimized Speculative Sampling): tests of a node's
// children, a walk from the root.
#pragma once

#include <cstdint>

#include "model/words/kernel_case.h"
#include "model/words/traffic.h"

namespace versieve {

struct Sampler;  // model/launches/sampling.h

// Nodes of a tree that one launch takes.
inline constexpr std::int64_t kMostFusedNodes = 128;
// Whether the exact form is one launch; else it is the baseline's.
bool tree_in_one_launch(std::int64_t nodes, std::int64_t vocab);

namespace traffic {

// Every logit of `parents` rows of a tree once.
Traffic tree_tests(std::int64_t parents, std::int64_t vocab, std::int64_t element_bytes);

}  // namespace traffic

void add_tree_sampler(const Sampler& sampler, const SamplingCase& c, std::int64_t nodes);

}  // namespace versieve
