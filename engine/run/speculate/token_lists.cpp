#include "engine/run/speculate/token_lists.h"

#include <algorithm>

#include "model/words/assert.h"

namespace versieve::engine {

ReadCount indexed_reads(const Strategy& strategy, std::int64_t context_len) {
  if (strategy.attention != AttentionMethod::kIndexer) {
    return {};
  }
  return {.read = std::min(context_len, strategy.indexer_k + strategy.indexer_window),
          .present = context_len};
}

template <class T>
kernels::SelectedTokens ListSelector<T>::select(const LayerQueries<T>& layer) {
  const TokenList* tokens = tokens_of(layer);
  reads_.present += layer.context_len;
  if (tokens == nullptr) {
    reads_.read += layer.context_len;
    return {};
  }
  const std::int64_t lists = per_kv_head() ? layer.num_kv_heads : 1;
  const std::int64_t count = static_cast<std::int64_t>(tokens->size()) / lists;
  VERSIEVE_ASSERT(count * lists == static_cast<std::int64_t>(tokens->size()), "equal lists");
  reads_.read += count;
  // A list of nothing is still a list: the pointer says so.
  static constexpr std::int32_t kNone = 0;
  const std::int32_t* const device =
      tokens->empty() ? staged_.upload(*ops_, {kNone}) : staged_.upload(*ops_, *tokens);
  return {.token = device, .count = count, .per_kv_head = per_kv_head()};
}

template class ListSelector<double>;
template class ListSelector<float>;
template class ListSelector<Bf16>;

}  // namespace versieve::engine
