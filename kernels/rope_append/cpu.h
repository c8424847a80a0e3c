// rope_append on the CPU. T = double or float.
#pragma once

#include "kernels/ops.h"

namespace versieve::kernels {

template <class T>
void rope_table_cpu(const RopeTableParams<T>& p, int threads);
template <class T>
void rope_append_cpu(const RopeAppendParams<T>& p, int threads);

}  // namespace versieve::kernels
