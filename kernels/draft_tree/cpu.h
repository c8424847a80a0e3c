// draft_tree on the CPU: the reference, written with the host's own tree functions.
#pragma once

#include "kernels/draft_tree/params.h"

namespace versieve::kernels {

void grow_tree_cpu(const GrowTreeParams& p);
void finish_tree_cpu(const FinishTreeParams& p);
void accept_tree_cpu(const AcceptTreeParams& p);
// T = double or float.
template <class T>
void commit_path_cpu(const CommitPathParams<T>& p);

}  // namespace versieve::kernels
