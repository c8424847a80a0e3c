#include "engine/run/specattn/other_choices.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "engine/run/model/wide.h"
#include "model/words/assert.h"

namespace versieve::engine {
namespace {

// The layer's budget, at most what there is; negative: all.
std::int64_t budget_of(const TokenBudget& budget, std::int64_t layer, std::int64_t context_len) {
  const std::int64_t tokens = budget[static_cast<std::size_t>(layer)];
  return tokens < 0 ? -1 : std::min(tokens, context_len);
}

}  // namespace

double page_bound(const std::vector<double>& q, const std::vector<double>& low,
                  const std::vector<double>& high) {
  double sum = 0.0;
  for (std::size_t j = 0; j < q.size(); ++j) {
    sum += std::max(q[j] * low[j], q[j] * high[j]);
  }
  return sum;
}

template <class T>
const TokenList* StreamingSelector<T>::tokens_of(const LayerQueries<T>& layer) {
  const std::int64_t count = budget_of(budget_, layer.layer, layer.context_len);
  if (count < 0) {
    return nullptr;
  }
  const std::int64_t first = std::min(sinks_, count);
  tokens_.resize(static_cast<std::size_t>(count));
  std::iota(tokens_.begin(), tokens_.begin() + first, 0);
  std::iota(tokens_.begin() + first, tokens_.end(),
            static_cast<std::int32_t>(layer.context_len - (count - first)));
  return &tokens_;
}

template <class T>
PageSelector<T>::PageSelector(kernels::Ops<T>& ops, const LlmShape& shape, std::int64_t page,
                              bool newest_first)
    : ListSelector<T>(ops), shape_(shape), page_(page), newest_first_(newest_first) {}

template <class T>
void PageSelector<T>::choose_pages(std::int64_t g, std::int64_t budget, std::int64_t context_len) {
  const std::int64_t d = shape_.head_dim;
  const std::int64_t group = shape_.num_heads / shape_.num_kv_heads;
  const std::int64_t pages = (context_len + page_ - 1) / page_;
  std::vector<double> score(static_cast<std::size_t>(pages),
                            -std::numeric_limits<double>::infinity());
  std::vector<std::vector<double>> mean;  // [queries][d]
  for (std::int64_t n = 0; n < queries_; ++n) {
    mean.emplace_back(static_cast<std::size_t>(d), 0.0);
    for (std::int64_t h = 0; h < group; ++h) {
      for (std::int64_t e = 0; e < d; ++e) {
        mean.back()[static_cast<std::size_t>(e)] +=
            wide(q_[static_cast<std::size_t>(((n * shape_.num_kv_heads + g) * group + h) * d + e)]);
      }
    }
  }
  for (std::int64_t page = 0; page < pages; ++page) {
    std::vector<double> low(static_cast<std::size_t>(d), std::numeric_limits<double>::infinity());
    std::vector<double> high(static_cast<std::size_t>(d), -std::numeric_limits<double>::infinity());
    for (std::int64_t i = page * page_; i < std::min(context_len, (page + 1) * page_); ++i) {
      for (std::int64_t e = 0; e < d; ++e) {
        const double key =
            wide(k_[static_cast<std::size_t>((i * shape_.num_kv_heads + g) * d + e)]);
        low[static_cast<std::size_t>(e)] = std::min(low[static_cast<std::size_t>(e)], key);
        high[static_cast<std::size_t>(e)] = std::max(high[static_cast<std::size_t>(e)], key);
      }
    }
    for (const std::vector<double>& q : mean) {
      score[static_cast<std::size_t>(page)] =
          std::max(score[static_cast<std::size_t>(page)], page_bound(q, low, high));
    }
  }
  if (newest_first_ && pages > 0) {
    score.back() = std::numeric_limits<double>::infinity();
  }
  std::vector<std::int64_t> order(static_cast<std::size_t>(pages));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
    return score[static_cast<std::size_t>(a)] > score[static_cast<std::size_t>(b)];
  });
  TokenList list;
  for (const std::int64_t page : order) {
    for (std::int64_t i = page * page_; i < std::min(context_len, (page + 1) * page_) &&
                                        static_cast<std::int64_t>(list.size()) < budget;
         ++i) {
      list.push_back(static_cast<std::int32_t>(i));
    }
  }
  std::sort(list.begin(), list.end());
  tokens_.insert(tokens_.end(), list.begin(), list.end());
}

template <class T>
const TokenList* PageSelector<T>::tokens_of(const LayerQueries<T>& layer) {
  const std::int64_t budget = budget_of(budget_, layer.layer, layer.context_len);
  if (budget < 0) {
    return nullptr;
  }
  queries_ = layer.num_queries;
  q_.resize(static_cast<std::size_t>(layer.num_queries * shape_.q_width()));
  k_.resize(static_cast<std::size_t>(layer.context_len * shape_.kv_width()));
  this->ops().download(q_.data(), layer.q, q_.size() * sizeof(T));
  this->ops().download(k_.data(), layer.k, k_.size() * sizeof(T));
  tokens_.clear();
  for (std::int64_t g = 0; g < shape_.num_kv_heads; ++g) {
    choose_pages(g, budget, layer.context_len);
  }
  return &tokens_;
}

template class StreamingSelector<double>;
template class StreamingSelector<float>;
template class StreamingSelector<Bf16>;
template class PageSelector<double>;
template class PageSelector<float>;
template class PageSelector<Bf16>;

}  // namespace versieve::engine
