#include "engine/run/speculate/rectify.h"

#include <numeric>

#include "model/words/assert.h"

namespace versieve::engine {

VerifyOptions rectification_options() {
  return {.last_logits_only = true, .splits_chain = true, .dense_pass = true};
}

template <class T>
Rectifier<T>::Rectifier(Target<T>& target, std::int64_t every) : target_(&target), every_(every) {
  VERSIEVE_ASSERT(every >= 1, "a period has a step");
}

template <class T>
void Rectifier<T>::reserve() {
  const std::vector<std::int32_t> tokens(static_cast<std::size_t>(every_), 0);
  target_->verify(chain_tree(tokens), rectification_options());
}

template <class T>
bool Rectifier<T>::committed(std::int32_t token) {
  tokens_.push_back(token);
  if (steps_left() > 0) {
    return false;
  }
  VERSIEVE_ASSERT(target_->length() >= every_, "the tokens are in the cache");
  target_->cache().truncate(target_->length() - every_);
  target_->verify(chain_tree(tokens_), rectification_options());
  std::vector<std::int32_t> path(tokens_.size());
  std::iota(path.begin(), path.end(), 0);
  target_->commit(path);
  tokens_.clear();
  ++passes_;
  return true;
}

template class Rectifier<double>;
template class Rectifier<float>;
template class Rectifier<Bf16>;

}  // namespace versieve::engine
