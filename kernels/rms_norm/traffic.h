// The predicted bytes and flops of an rms_norm launch, for both backends.
#pragma once

#include "kernels/ops.h"
#include "model/launches/row_ops.h"
#include "model/words/traffic.h"

namespace versieve::kernels {

template <class T>
Traffic rms_norm_traffic(const RmsNormParams<T>& p) {
  Traffic t = traffic::rms_norm(p.n, p.k, sizeof(T));
  if (p.copy != nullptr) {
    t += traffic::kept_rows(p.n, p.k, sizeof(T));
  }
  return t;
}

}  // namespace versieve::kernels
