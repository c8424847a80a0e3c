// embed on the CPU: its parts one after another. T = double or float.
#pragma once

#include "kernels/rms_norm/cpu.h"
#include "kernels/rope_append/cpu.h"

namespace versieve::kernels {

template <class T>
void embed_cpu(const EmbedParams<T>& p, int threads) {
  for (const RmsNormParams<T>* norm : {&p.token, &p.feature}) {
    if (norm->n > 0) {
      rms_norm_cpu(*norm, threads);
    }
  }
  if (p.angles.n > 0) {
    rope_table_cpu(p.angles, threads);
  }
}

}  // namespace versieve::kernels
