#include "engine/run/model/index_selector.h"

#include <algorithm>

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
void IndexSelector<T>::update(const KvCache<T>& cache, std::int64_t first_token) {
  if (!keeps_) {
    return;
  }
  if (capacity_ != cache.capacity()) {
    capacity_ = cache.capacity();
    keys_ = kernels::OpsBuffer<T>();  // frees first: the two need not fit together
    keys_ = {*ops_, shape_.layers * capacity_ * index_.dim};
    scores_ = kernels::OpsBuffer<T>();
    scores_ = {*ops_, capacity_};
    first_token = 0;
  }
  kernels::IndexKeysParams<T> p = key_params(cache);
  p.first_token = first_token;
  p.length = cache.length();
  ops_->index_keys(p);
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
kernels::SelectedTokens IndexSelector<T>::select(const LayerQueries<T>& layer) {
  const bool recorded = layer.counts != nullptr;
  read_all_ = !recorded && layer.context_len <= selection_.tokens();
  if (read_all_) {
    return {};
  }
  ops_->index_query({.counts = layer.counts,
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
                     .count = count_.data()});
  // A recorded step's length is a bound, behind which nothing has a score.
  const std::int64_t scored = recorded ? layer.context_len : layer.context_len - selection_.newest;
  ops_->index_scores({.counts = layer.counts,
                      .newest = selection_.newest,
                      .rows = 1,
                      .length = scored,
                      .num_heads = index_.heads,
                      .head_dim = index_.dim,
                      .q = query_.data(),
                      .weights = weights_.data(),
                      .keys = keys_.data() + layer.layer * capacity_ * index_.dim,
                      .scores = scores_.data()});
  ops_->topk({.variant = selection_.topk,
              .rows = 1,
              .length = scored,
              .k = selection_.chosen,
              .scores = scores_.data(),
              .hint = selection_.topk == kernels::TopkVariant::kGvr ? hint_.data() : nullptr,
              .indices = list(layer.layer),
              .values = values_.data()});
  return {.token = list(layer.layer),
          .count = selection_.tokens(),
          .known_count = recorded ? count_.data() : nullptr};
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
