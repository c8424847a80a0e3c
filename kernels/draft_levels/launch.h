// draft_levels on CUDA.
#pragma once

#ifdef VERSIEVE_HAS_CUDA
#include <memory>

#include "kernels/common/launch_context.h"
#include "kernels/draft_levels/params.h"

namespace versieve::kernels {

// What launches of one Ops keep between them: packets' memory.
class DraftWorkspace;
std::shared_ptr<DraftWorkspace> make_draft_workspace();

// Whether one persistent launch computes it (model/launches/draft_levels.h).
bool draft_levels_takes(const DraftLevelsParams<Bf16>& p);

// The tokens' table (Ops::draft_token_rows). Enqueues, never waits. REQUIRES:
// draft_levels_takes(p).
void launch_draft_token_rows(const DraftLevelsParams<Bf16>& p, float* rows,
                             const LaunchContext& context);

// Makes ready what a launch of these params needs: may allocate and enqueue. Does nothing where it
// was ready. REQUIRES: draft_levels_takes(p); not while a graph is captured. Throws
// Error(kEnvironment) if the GPU has no memory left.
void prepare_draft_levels(DraftWorkspace& workspace, const DraftLevelsParams<Bf16>& p,
                          const LaunchContext& context);
// Enqueues, never waits. REQUIRES: prepared for these params.
void launch_draft_levels(DraftWorkspace& workspace, const DraftLevelsParams<Bf16>& p,
                         const LaunchContext& context);

}  // namespace versieve::kernels
#endif
