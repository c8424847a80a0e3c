#include "engine/run/model/index_selector.h"

#include <algorithm>

#include "kernels/choose_together.h"
#include "model/words/assert.h"

namespace versieve::engine {

template <class T>
kernels::IndexKeysParams<T> IndexSelector<T>::key_params(const KvCache<T>& cache) const {
  return {.layers = shape_.layers,
          .num_kv_heads = shape_.num_kv_heads,
          .head_dim = shape_.head_dim,
          .index = index_,
          .k_layer_rows = cache.rows().layer_rows,
          .key_layer_rows = capacity_,
          .pages = cache.pages(),
          .k = cache.k(0),
          .keys = keys_.data()};
}

template <class T>
void IndexSelector<T>::keep(const KvCache<T>& cache) {
  VERSIEVE_ASSERT(shape_.attention != AttentionKind::kNsa, "index keys are for dense targets");
  index_ = index_shape(shape_);
  if (weights_.count() != index_.heads) {
    weights_ = {*ops_, std::vector<float>(static_cast<std::size_t>(index_.heads), 1.0F)};
    query_ = {*ops_, index_.heads * index_.dim};
  }
  keeps_ = true;
  update(cache, 0);
}

template <class T>
void IndexSelector<T>::ensure_room(const KvCache<T>& cache, std::int64_t& first_token) {
  if (capacity_ != cache.capacity()) {
    capacity_ = cache.capacity();
    keys_ = kernels::OpsBuffer<T>();  // frees first: the two need not fit together
    keys_ = {*ops_, shape_.layers * capacity_ * index_.dim};
    scores_ = kernels::OpsBuffer<T>();
    scores_ = {*ops_, capacity_};
    first_token = 0;
  }
}

template <class T>
kernels::IndexKeysParams<T> IndexSelector<T>::update_call(const KvCache<T>& cache,
                                                          std::int64_t first_token) {
  VERSIEVE_ASSERT(keeps_, "index keys are kept");
  ensure_room(cache, first_token);
  kernels::IndexKeysParams<T> p = key_params(cache);
  p.first_token = first_token;
  p.length = cache.length();
  return p;
}

template <class T>
void IndexSelector<T>::update(const KvCache<T>& cache, std::int64_t first_token) {
  if (keeps_) {
    ops_->index_keys(update_call(cache, first_token));
  }
}

template <class T>
void IndexSelector<T>::update_device(const KvCache<T>& cache, const kernels::StepCounts* counts,
                                     std::int64_t tokens) {
  if (!keeps_) {
    return;
  }
  VERSIEVE_ASSERT(capacity_ == cache.capacity(), "the index keys are those of this cache");
  kernels::IndexKeysParams<T> p = key_params(cache);
  p.counts = counts;
  p.length = tokens;
  ops_->index_keys(p);
}

template <class T>
void IndexSelector<T>::begin(const IndexSelection& selection) {
  VERSIEVE_ASSERT(keeps_, "index keys are kept before a step chooses by them");
  VERSIEVE_ASSERT(selection.chosen >= 1 && selection.newest >= 0, "a token is chosen");
  if (selection == selection_) {
    return;
  }
  selection_ = selection;
  const std::int64_t listed = shape_.layers * selection.tokens();
  // -1 is no hint.
  lists_ = {*ops_, std::vector<std::int32_t>(static_cast<std::size_t>(listed), -1)};
  ensure_count(*ops_, hint_, selection.chosen);
  ensure_count(*ops_, values_, selection.chosen);
  ensure_count(*ops_, count_, 1);
}

template <class T>
kernels::IndexQueryParams<T> IndexSelector<T>::query_call(const LayerQueries<T>& layer) const {
  return {.counts = layer.counts,
          .context_len = layer.context_len,
          .num_heads = shape_.num_heads,
          .num_kv_heads = shape_.num_kv_heads,
          .head_dim = shape_.head_dim,
          .index = index_,
          .chosen = selection_.chosen,
          .newest = selection_.newest,
          .q = layer.q,
          .index_q = query_.data(),
          .list = list(layer.layer),
          .hint = hint_.data(),
          .count = count_.data()};
}

template <class T>
kernels::IndexScoresParams<T> IndexSelector<T>::scores_call(const LayerQueries<T>& layer) const {
  return {.counts = layer.counts,
          .newest = selection_.newest,
          .rows = 1,
          .length = scored(layer),
          .num_heads = index_.heads,
          .head_dim = index_.dim,
          .q = query_.data(),
          .weights = weights_.data(),
          .keys = keys_.data() + layer.layer * capacity_ * index_.dim,
          .scores = scores_.data()};
}

template <class T>
kernels::TopkParams<T> IndexSelector<T>::topk_call(const LayerQueries<T>& layer) const {
  return {.variant = selection_.topk,
          .rows = 1,
          .length = scored(layer),
          .k = selection_.chosen,
          .scores = scores_.data(),
          .hint = selection_.topk == kernels::TopkVariant::kGvr ? hint_.data() : nullptr,
          .indices = list(layer.layer),
          .values = values_.data()};
}

template <class T>
kernels::SelectedTokens IndexSelector<T>::select(const LayerQueries<T>& layer) {
  const bool recorded = layer.counts != nullptr;
  if (!recorded && announce(layer.context_len).token == nullptr) {
    return {};
  }
  read_all_ = false;
  const Choice own{.selector = this, .layer = layer};
  select_together(*ops_, std::span(&own, 1));
  return {.token = list(layer.layer),
          .count = selection_.tokens(),
          .known_count = recorded ? count_.data() : nullptr};
}

template <class T>
kernels::SelectedTokens IndexSelector<T>::announce(std::int64_t context_len) {
  read_all_ = context_len <= selection_.tokens();
  if (read_all_) {
    return {};
  }
  return {.token = list(0), .count = selection_.tokens()};
}

template <class T>
void IndexSelector<T>::select_together(kernels::Ops<T>& ops, std::span<const Choice> choices) {
  std::vector<kernels::IndexQueryParams<T>> queries;
  std::vector<kernels::IndexScoresParams<T>> scores;
  std::vector<kernels::TopkParams<T>> chosen;
  for (const Choice& choice : choices) {
    queries.push_back(choice.selector->query_call(choice.layer));
    scores.push_back(choice.selector->scores_call(choice.layer));
    chosen.push_back(choice.selector->topk_call(choice.layer));
  }
  kernels::index_query_together<T>(ops, queries);
  kernels::index_scores_together<T>(ops, scores);
  kernels::topk_together<T>(ops, chosen);
}

template <class T>
std::vector<std::int32_t> IndexSelector<T>::listed(std::int64_t layer) const {
  if (read_all_) {
    return {};
  }
  std::int32_t count = 0;
  ops_->download(&count, count_.data(), sizeof count);
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(count));
  ops_->download(tokens.data(), list(layer), tokens.size() * sizeof(std::int32_t));
  return tokens;
}

template class IndexSelector<double>;
template class IndexSelector<float>;
template class IndexSelector<Bf16>;

}  // namespace versieve::engine
