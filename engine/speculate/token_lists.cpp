#include "engine/speculate/token_lists.h"

#include <algorithm>

#include "model/assert.h"

namespace versieve::engine {

TokenList chunked_tokens(const std::vector<std::int32_t>& mask, std::int64_t chunk) {
  VERSIEVE_ASSERT(chunk >= 1, "a chunk holds a token");
  TokenList tokens;
  const std::int64_t length = static_cast<std::int64_t>(mask.size());
  for (std::int64_t base = 0; base < length; base += chunk) {
    const std::int64_t end = std::min(length, base + chunk);
    if (std::any_of(mask.begin() + base, mask.begin() + end,
                    [](std::int32_t m) { return m != 0; })) {
      for (std::int64_t token = base; token < end; ++token) {
        tokens.push_back(static_cast<std::int32_t>(token));
      }
    }
  }
  return tokens;
}

template <class T>
kernels::SelectedTokens ListSelector<T>::select(const LayerQueries<T>& layer) {
  const TokenList* tokens = tokens_of(layer);
  reads_.present += layer.context_len;
  sent_ = layer.layer == 0 ? nullptr : sent_;
  if (tokens == nullptr) {
    reads_.read += layer.context_len;
    return {};
  }
  const std::int64_t lists = per_kv_head() ? layer.num_kv_heads : 1;
  const std::int64_t count = static_cast<std::int64_t>(tokens->size()) / lists;
  VERSIEVE_ASSERT(count * lists == static_cast<std::int64_t>(tokens->size()), "equal lists");
  reads_.read += count;
  if (!keeps_lists() || tokens != sent_) {
    // A list of nothing is still a list: the pointer says so.
    static constexpr std::int32_t kNone = 0;
    device_ = tokens->empty() ? staged_.upload(*ops_, {kNone}) : staged_.upload(*ops_, *tokens);
    sent_ = tokens;
  }
  return {.token = device_, .count = count, .per_kv_head = per_kv_head()};
}

template class ListSelector<double>;
template class ListSelector<float>;
template class ListSelector<Bf16>;

}  // namespace versieve::engine
