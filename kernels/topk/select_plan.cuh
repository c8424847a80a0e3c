// What the host fixes for a launch of select.cu.
#pragma once

#include "kernels/topk/select.h"
#include "kernels/topk/select_row.cuh"

namespace versieve::kernels {

// REQUIRES: select_fits(p, shape).
template <class T>
SelectPlan select_plan(const TopkParams<T>& p, const SelectShape& shape);

}  // namespace versieve::kernels
