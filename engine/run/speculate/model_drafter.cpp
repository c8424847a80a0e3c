#include "engine/run/speculate/model_drafter.h"

#include <algorithm>
#include <numeric>

#include "model/words/assert.h"

namespace versieve::engine {
namespace {

constexpr std::int64_t kChunk = Target<float>::kMostTogether;  // nodes of a chain
// Columns of the weights beyond the first context's.
constexpr std::int64_t kSpare = 4096;

}  // namespace

template <class T>
void HeadDrafter<T>::begin(std::int64_t position, const Observation<T>& observation) {
  const std::int64_t count = static_cast<std::int64_t>(observation.next_token.size());
  VERSIEVE_ASSERT(observation.first + count == position, "the root follows what was observed");
  VERSIEVE_ASSERT(draft_->length() == observation.first + 1, "entries follow without a gap");
  draft_->extend(observation.first + 1, observation.next_token, observation.captured,
                 observation.rows, true);
}

template <class T>
ModelDrafter<T>::ModelDrafter(kernels::Ops<T>& ops, Target<T>& model,
                              std::vector<std::int32_t> text, bool chain)
    : ops_(&ops), model_(&model), chain_(chain), text_(std::move(text)) {
  const std::int64_t held = std::min(model.length(), static_cast<std::int64_t>(text_.size()));
  model_->cache().truncate(held);
  cached_.assign(text_.begin(), text_.begin() + held);
}

template <class T>
ModelDrafter<T>::~ModelDrafter() {
  model_->set_attention_capture({});
}

template <class T>
void ModelDrafter<T>::capture_attention(std::int64_t steps, std::int64_t first_layer) {
  VERSIEVE_ASSERT(chain_ && steps >= 1, "attention is kept of chains");
  capture_steps_ = steps;
  capture_layer_ = first_layer;
}

// The next verify's last query writes the next row.
template <class T>
void ModelDrafter<T>::aim_capture() {
  if (capture_steps_ == 0 || captured_ == capture_steps_) {
    model_->set_attention_capture({});
    return;
  }
  model_->set_attention_capture({.first_layer = capture_layer_,
                                 .layer_stride = capture_steps_ * stride_,
                                 .weights = weights_.data() + captured_ * stride_});
  ++captured_;
}

// The cache takes what it lacks of the true tokens before the root; of a chain the root too.
template <class T>
void ModelDrafter<T>::catch_up(std::int64_t position) {
  std::int64_t same = 0;
  const std::int64_t most = std::min(static_cast<std::int64_t>(cached_.size()), position);
  while (same < most &&
         cached_[static_cast<std::size_t>(same)] == text_[static_cast<std::size_t>(same)]) {
    ++same;
  }
  model_->cache().truncate(same);
  cached_.resize(static_cast<std::size_t>(same));
  const std::int64_t end = position + (chain_ ? 1 : 0);
  while (same < end) {
    const std::int64_t next = std::min(end, same + kChunk);
    if (chain_ && next == end) {
      aim_capture();
    }
    const std::vector<std::int32_t> tokens(text_.begin() + same, text_.begin() + next);
    model_->verify(chain_tree(tokens), {.last_logits_only = true});
    std::vector<std::int32_t> path(tokens.size());
    std::iota(path.begin(), path.end(), 0);
    model_->commit(path);
    cached_.insert(cached_.end(), tokens.begin(), tokens.end());
    same = next;
  }
}

template <class T>
void ModelDrafter<T>::begin(std::int64_t position, const Observation<T>& observation) {
  text_.resize(static_cast<std::size_t>(observation.first + 1));
  text_.insert(text_.end(), observation.next_token.begin(), observation.next_token.end());
  VERSIEVE_ASSERT(static_cast<std::int64_t>(text_.size()) == position + 1,
                  "the root follows what was observed");
  root_position_ = position;
  captured_ = 0;
  if (capture_steps_ > 0 && stride_ < position + capture_steps_ + 1) {
    stride_ = position + capture_steps_ + kSpare;
    ensure_count(*ops_, weights_, model_->shape().layers * capture_steps_ * stride_);
  }
  model_->set_attention_capture({});
  catch_up(position);
  if (!chain_) {
    tree_ = chain_tree({text_.back()});
    model_->verify(tree_, {});
  }
  logits_ = model_->logits();
}

template <class T>
void ModelDrafter<T>::step_chain(const typename Drafter<T>::Nodes& nodes) {
  VERSIEVE_ASSERT(nodes.token.size() == 1, "a chain grows by one node");
  VERSIEVE_ASSERT(nodes.position[0] == model_->length(), "each node follows the last");
  aim_capture();
  model_->verify(chain_tree(nodes.token), {});
  const std::int32_t path[1] = {0};
  model_->commit(path);
  cached_.push_back(nodes.token[0]);
}

template <class T>
void ModelDrafter<T>::step(const typename Drafter<T>::Nodes& nodes) {
  if (chain_) {
    step_chain(nodes);
    logits_ = model_->logits();
    return;
  }
  const std::int64_t before = tree_.size();
  for (std::size_t i = 0; i < nodes.token.size(); ++i) {
    tree_.token.push_back(nodes.token[i]);
    tree_.parent.push_back(nodes.parent[i] + 1);  // slot s is node s + 1
    tree_.depth.push_back(nodes.position[i] - static_cast<std::int32_t>(root_position_));
    tree_.log_probability.push_back(0.0F);
  }
  model_->verify(tree_, {});
  logits_ = model_->logits() + before * vocab();
}

template <class T>
DraftAttention<T> ModelDrafter<T>::attention() const {
  return {.steps = captured_,
          .context_len = root_position_,
          .stride = stride_,
          .layer_stride = capture_steps_ * stride_,
          .first_layer = capture_layer_,
          .weights = weights_.data()};
}

template class HeadDrafter<double>;
template class HeadDrafter<float>;
template class HeadDrafter<Bf16>;
template class ModelDrafter<double>;
template class ModelDrafter<float>;
template class ModelDrafter<Bf16>;

}  // namespace versieve::engine
