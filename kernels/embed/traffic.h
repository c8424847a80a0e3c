// The predicted bytes and flops of an embed launch, for both backends.
#pragma once

#include "kernels/ops.h"
#include "kernels/rms_norm/traffic.h"
#include "model/launches/rope_append.h"
#include "model/words/traffic.h"

namespace versieve::kernels {

template <class T>
Traffic embed_traffic(const EmbedParams<T>& p) {
  Traffic t;
  for (const RmsNormParams<T>* norm : {&p.token, &p.feature}) {
    if (norm->n > 0) {
      t += rms_norm_traffic(*norm);
    }
  }
  if (p.angles.n > 0) {
    t += traffic::rope_table(p.angles.n, p.angles.head_dim, sizeof(SumOf<T>));
  }
  return t;
}

}  // namespace versieve::kernels
