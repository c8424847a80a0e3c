// NSA attention of a prompt's tokens in one launch (kernels/nsa_verify/README.md, "Prompts").
#pragma once

#include "model/launches/nsa_shape.h"
#include "model/words/traffic.h"

namespace versieve::traffic {

// Of num_queries consecutive tokens behind context_len committed ones: the caches once, queries,
// gates, outputs and chosen blocks. Flops are those that the branches need, each token's own keys
// alone.
Traffic nsa_prompt(const NsaVerifyShape& shape);

}  // namespace versieve::traffic
