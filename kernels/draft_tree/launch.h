// draft_tree on CUDA: one block a launch, except the commit's copies. Nothing waits or allocates.
#pragma once

#ifdef VERSIEVE_HAS_CUDA
#include "kernels/common/launch_context.h"
#include "kernels/draft_tree/params.h"
#include "kernels/ops.h"

namespace versieve::kernels {

void launch_grow_tree(const GrowTreeParams& p, const LaunchContext& context);
// top_logits and grow_tree of what it lists, in one launch (Ops::grow_tree_from); T = float or
// Bf16. Whether it takes that list: rows of up to 1,024 logits, 16 rows and 256 children at most.
template <class T>
bool grows_from_logits(const TopLogitsParams<T>& top);
// REQUIRES: grows_from_logits; top's rows are level p.level's frontier, top.k is p.branch. Neither
// top's list nor p's is read or written.
template <class T>
void launch_grow_from_logits(const TopLogitsParams<T>& top, const GrowTreeParams& p,
                             const LaunchContext& context);
void launch_finish_tree(const FinishTreeParams& p, const LaunchContext& context);
void launch_accept_tree(const AcceptTreeParams& p, const LaunchContext& context);
// T = float or Bf16.
template <class T>
void launch_commit_path(const CommitPathParams<T>& p, const LaunchContext& context);

}  // namespace versieve::kernels
#endif
