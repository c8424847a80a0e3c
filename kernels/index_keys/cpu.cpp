#include <algorithm>

#include "kernels/common/parallel_for.h"
#include "kernels/common/small_work.h"
#include "kernels/cpu.h"
#include "model/words/assert.h"

namespace versieve::kernels {

template <class T>
void index_keys_cpu(const IndexKeysParams<T>& params, int threads) {
  IndexKeysParams<T> p = params;
  if (p.counts != nullptr) {
    const std::int64_t newest = p.length - p.first_token;
    p.length = p.counts->context_len;
    p.first_token = std::max<std::int64_t>(0, p.length - newest);
  }
  VERSIEVE_ASSERT(p.first_token >= 0 && p.first_token <= p.length, "tokens exist");
  VERSIEVE_ASSERT(p.index.pairs >= 1 && 2 * p.index.pairs * p.num_kv_heads <= p.index.dim,
                  "an index key holds pairs of every KV head");
  const std::int64_t tokens = p.length - p.first_token;
  const std::int64_t rows = p.layers * tokens;
  parallel_for(rows, rows * p.index.dim < kSmallElements ? 1 : threads, [&](std::int64_t row) {
    const std::int64_t layer = row / tokens;
    const std::int64_t token = p.first_token + row % tokens;
    const T* k = p.k + (layer * p.k_layer_rows + p.pages.row(token)) * p.num_kv_heads * p.head_dim;
    T* key = p.keys + (layer * p.key_layer_rows + token) * p.index.dim;
    for (std::int64_t e = 0; e < p.index.dim; ++e) {
      const std::int64_t g = index_slot(p.index, e);
      key[e] = g < p.num_kv_heads ? k[g * p.head_dim + index_source(p.index, p.head_dim, e)] : T{};
    }
  });
}

template <class T>
void index_query_cpu(const IndexQueryParams<T>& p) {
  VERSIEVE_ASSERT(p.num_heads >= 1 && p.num_heads <= p.index.heads, "an index head a query head");
  const std::int64_t context_len = p.counts == nullptr ? p.context_len : p.counts->context_len;
  for (std::int64_t h = 0; h < p.index.heads; ++h) {
    for (std::int64_t e = 0; e < p.index.dim; ++e) {
      const bool own =
          h < p.num_heads && index_slot(p.index, e) == h / (p.num_heads / p.num_kv_heads);
      p.index_q[h * p.index.dim + e] =
          own ? p.q[h * p.head_dim + index_source(p.index, p.head_dim, e)] : T{};
    }
  }
  std::copy_n(p.list, p.chosen, p.hint);
  for (std::int64_t i = 0; i < p.newest; ++i) {
    p.list[p.chosen + i] =
        static_cast<std::int32_t>(first_newest(context_len, p.chosen, p.newest) + i);
  }
  *p.count = static_cast<std::int32_t>(std::min(context_len, p.chosen + p.newest));
}

template void index_keys_cpu<double>(const IndexKeysParams<double>&, int);
template void index_keys_cpu<float>(const IndexKeysParams<float>&, int);
template void index_keys_cpu<Bf16>(const IndexKeysParams<Bf16>&, int);
template void index_query_cpu<double>(const IndexQueryParams<double>&);
template void index_query_cpu<float>(const IndexQueryParams<float>&);
template void index_query_cpu<Bf16>(const IndexQueryParams<Bf16>&);

}  // namespace versieve::kernels
