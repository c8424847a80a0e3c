// The predicted bytes and flops of a linear launch, for both backends.
#pragma once

#include "kernels/ops.h"
#include "model/launches/linear.h"
#include "model/launches/row_ops.h"
#include "model/words/traffic.h"

namespace versieve::kernels {

template <class T>
Traffic linear_traffic(const LinearParams<T>& p) {
  const std::int64_t bytes = sizeof(T);
  if (p.swiglu) {
    return traffic::linear_swiglu(p.n, p.k, p.m, bytes, p.weight_term);
  }
  Traffic t = traffic::linear(p.n, p.k, p.m, bytes, p.weight_term);
  if (p.norm.y_weight != nullptr) {
    t += traffic::weighted_rows(p.n, p.m, bytes);
  }
  if (p.y_copy != nullptr) {
    t += traffic::kept_rows(p.n, p.m, bytes);
  }
  return t;
}

}  // namespace versieve::kernels
