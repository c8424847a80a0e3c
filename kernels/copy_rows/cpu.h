// copy_rows on the CPU: dst[dst_row[i]] = src[src_row[i]]; embedding look-up, feature
// concatenation and KV commit.
#pragma once

#include "kernels/ops.h"

namespace versieve::kernels {

// T = double or float.
template <class T>
void copy_rows_cpu(const CopyRowsParams<T>& p, int threads);

}  // namespace versieve::kernels
