// The predicted bytes and flops of a linear launch, for both backends.
#pragma once

#include "kernels/ops.h"
#include "model/op_traffic.h"

namespace versieve::kernels {

template <class T>
Traffic linear_traffic(const LinearParams<T>& p) {
  const std::int64_t bytes = sizeof(T);
  return p.swiglu ? traffic::linear_swiglu(p.n, p.k, p.m, bytes, p.weight_term)
                  : traffic::linear(p.n, p.k, p.m, bytes, p.weight_term);
}

}  // namespace versieve::kernels
