#include "kernels/cpu.h"

#include <algorithm>
#include <cmath>

#include "kernels/common/parallel_for.h"
#include "kernels/common/rounded.h"
#include "kernels/common/small_work.h"
#include "model/words/assert.h"

namespace versieve::kernels {
namespace {

// a before b, b lying at a higher index: equal values stay in index order, NaN goes last.
template <class T>
bool ranks_above(T a, T b) {
  return a > b || (std::isnan(b) && !std::isnan(a));
}

// Inserts index i into the sorted list of the best `count` (at most k); returns the new count.
template <class T>
std::int64_t insert(const T* logits, std::int32_t i, std::int64_t count, std::int64_t k,
                    std::int32_t* best) {
  if (count == k && !ranks_above(to_sum(logits[i]), to_sum(logits[best[k - 1]]))) {
    return count;
  }
  std::int64_t at = count < k ? count : k - 1;
  for (; at > 0 && ranks_above(to_sum(logits[i]), to_sum(logits[best[at - 1]])); --at) {
    best[at] = best[at - 1];
  }
  best[at] = i;
  return std::min(count + 1, k);
}

// log sum exp of a row, summed in index order.
template <class T>
double log_normaliser(const T* logits, std::int64_t vocab, double largest) {
  double sum = 0.0;
  for (std::int64_t i = 0; i < vocab; ++i) {
    sum += std::exp(static_cast<double>(to_sum(logits[i])) - largest);
  }
  return largest + std::log(sum);
}

template <class T>
void top_logits_row(const TopLogitsParams<T>& p, std::int64_t row) {
  const T* logits = p.logits + row * p.vocab;
  std::int32_t* best = p.index + row * p.k;
  std::int64_t count = 0;
  for (std::int64_t i = 0; i < p.vocab; ++i) {
    count = insert(logits, static_cast<std::int32_t>(i), count, p.k, best);
  }
  if (p.log_probability != nullptr) {
    const double log_sum =
        log_normaliser(logits, p.vocab, static_cast<double>(to_sum(logits[best[0]])));
    for (std::int64_t j = 0; j < p.k; ++j) {
      p.log_probability[row * p.k + j] =
          static_cast<float>(static_cast<double>(to_sum(logits[best[j]])) - log_sum);
    }
  }
}

}  // namespace

template <class T>
void top_logits_cpu(const TopLogitsParams<T>& p, int threads) {
  VERSIEVE_ASSERT(p.k >= 1 && p.k <= kMaxTopLogits, "top_logits takes k of 1 to 64");
  VERSIEVE_ASSERT(p.k <= p.vocab, "top_logits cannot list more logits than there are");
  parallel_for(p.rows, p.rows * p.vocab < kSmallElements ? 1 : threads,
               [&](std::int64_t row) { top_logits_row(p, row); });
}

template void top_logits_cpu<double>(const TopLogitsParams<double>&, int);
template void top_logits_cpu<float>(const TopLogitsParams<float>&, int);
template void top_logits_cpu<Bf16>(const TopLogitsParams<Bf16>&, int);

}  // namespace versieve::kernels
