#include "kernels/cpu.h"

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

template void embed_cpu(const EmbedParams<double>&, int);
template void embed_cpu(const EmbedParams<float>&, int);
template void embed_cpu(const EmbedParams<Bf16>&, int);

}  // namespace versieve::kernels
