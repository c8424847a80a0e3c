#include "kernels/cpu.h"
#include "kernels/common/parallel_for.h"
#include "kernels/common/rounded.h"
#include "kernels/common/small_work.h"
#include "kernels/gumbel_top/perturbed.h"
#include "model/words/assert.h"

namespace versieve::kernels {

template <class T>
void gumbel_top_cpu(const GumbelTopParams<T>& p, int threads) {
  VERSIEVE_ASSERT(p.temperature > 0.0, "gumbel_top samples above temperature 0");
  const SumOf<T> inverse = static_cast<SumOf<T>>(1.0 / p.temperature);
  parallel_for(p.rows, p.rows * p.vocab < kSmallElements ? 1 : threads, [&](std::int64_t row) {
    const std::uint64_t place = row_place(p, row);
    for (std::int64_t i = 0; i < p.vocab; ++i) {
      const std::int64_t at = row * p.vocab + i;
      p.perturbed[at] =
          perturbed(to_sum(p.logits[at]), inverse, place, p.token == nullptr ? i : p.token[i]);
    }
  });
  top_logits_cpu(TopLogitsParams<SumOf<T>>{.rows = p.rows,
                                           .vocab = p.vocab,
                                           .k = p.k,
                                           .logits = p.perturbed,
                                           .index = p.index,
                                           .log_probability = p.log_probability},
                 threads);
}

template void gumbel_top_cpu<double>(const GumbelTopParams<double>&, int);
template void gumbel_top_cpu<float>(const GumbelTopParams<float>&, int);
template void gumbel_top_cpu<Bf16>(const GumbelTopParams<Bf16>&, int);

}  // namespace versieve::kernels
