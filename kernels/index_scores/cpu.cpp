#include "kernels/index_scores/cpu.h"

#include <algorithm>
#include <limits>

#include "kernels/common/attention_chunk.h"
#include "kernels/common/parallel_for.h"
#include "model/words/assert.h"

namespace versieve::kernels {
namespace {

constexpr std::int64_t kPart = 256;  // positions that a thread takes at once

template <class T>
SumOf<T> score_of(const IndexScoresParams<T>& p, std::int64_t row, const T* key) {
  SumOf<T> sum = 0;
  for (std::int64_t h = 0; h < p.num_heads; ++h) {
    const T* q = p.q + (row * p.num_heads + h) * p.head_dim;
    SumOf<T> product = 0;
    for (std::int64_t e = 0; e < p.head_dim; ++e) {
      product += to_sum(q[e]) * to_sum(key[e]);
    }
    sum += static_cast<SumOf<T>>(p.weights[row * p.num_heads + h]) * std::max(product, SumOf<T>{0});
  }
  return sum;
}

}  // namespace

template <class T>
void index_scores_cpu(const IndexScoresParams<T>& p, int threads) {
  VERSIEVE_ASSERT(p.rows >= 1 && p.length >= 1, "index_scores needs queries and positions");
  VERSIEVE_ASSERT(p.num_heads >= 1 && p.head_dim >= 1, "index_scores needs heads");
  const std::int64_t scored = p.counts == nullptr ? p.length : p.counts->context_len - p.newest;
  parallel_for((p.length + kPart - 1) / kPart, threads, [&](std::int64_t part) {
    for (std::int64_t i = part * kPart; i < std::min(p.length, (part + 1) * kPart); ++i) {
      for (std::int64_t row = 0; row < p.rows; ++row) {
        p.scores[row * p.length + i] =
            from_sum<T>(i < scored ? score_of(p, row, p.keys + i * p.head_dim)
                                   : -std::numeric_limits<SumOf<T>>::infinity());
      }
    }
  });
}

template void index_scores_cpu<double>(const IndexScoresParams<double>&, int);
template void index_scores_cpu<float>(const IndexScoresParams<float>&, int);
template void index_scores_cpu<Bf16>(const IndexScoresParams<Bf16>&, int);

}  // namespace versieve::kernels
