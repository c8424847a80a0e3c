// What SpecAttn is compared with, reading as many tokens of each layer: the first and the newest
// ones (StreamingLLM-like), and the pages whose key bounds promise the highest scores (Quest-like).
#pragma once

#include <cstdint>
#include <vector>

#include "engine/run/speculate/token_lists.h"

namespace versieve::engine {

// Tokens to read of each layer in one verify; negative: all. [layers]
using TokenBudget = std::vector<std::int64_t>;

// The first `sinks` tokens and the newest ones.
template <class T>
class StreamingSelector final : public ListSelector<T> {
 public:
  StreamingSelector(kernels::Ops<T>& ops, std::int64_t sinks)
      : ListSelector<T>(ops), sinks_(sinks) {}
  void set_budget(TokenBudget budget) { budget_ = std::move(budget); }

 protected:
  const TokenList* tokens_of(const LayerQueries<T>& layer) override;

 private:
  std::int64_t sinks_;
  TokenBudget budget_;
  TokenList tokens_;
};

// Pages of `page` aligned tokens with the elementwise minimum and maximum of their keys. A KV head
// reads the pages with the highest bound on q k, q the mean over the head's group, the highest over
// the verify's queries; ties: the lower page. The last page taken is cut where the budget ends.
// `newest_first`: the newest page is read whatever it promises, as Quest has it.
template <class T>
class PageSelector final : public ListSelector<T> {
 public:
  PageSelector(kernels::Ops<T>& ops, const LlmShape& shape, std::int64_t page,
               bool newest_first = false);
  void set_budget(TokenBudget budget) { budget_ = std::move(budget); }

 protected:
  const TokenList* tokens_of(const LayerQueries<T>& layer) override;
  bool per_kv_head() const override { return true; }

 private:
  void choose_pages(std::int64_t g, std::int64_t budget, std::int64_t context_len);

  LlmShape shape_;
  std::int64_t page_;
  bool newest_first_;
  TokenBudget budget_;
  std::vector<T> q_, k_;  // the layer's, on the host
  std::int64_t queries_ = 0;
  TokenList tokens_;
};

// The highest q k that keys within the bounds can have: sum over j of max(q_j low_j, q_j high_j).
double page_bound(const std::vector<double>& q, const std::vector<double>& low,
                  const std::vector<double>& high);

}  // namespace versieve::engine
