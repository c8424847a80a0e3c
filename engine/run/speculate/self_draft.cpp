#include "engine/run/speculate/self_draft.h"

#include <algorithm>

#include "model/words/assert.h"

namespace versieve::engine {

template <class T>
void SelfDrafter<T>::run(std::int32_t token) {
  constexpr std::int32_t kPath[1] = {0};
  target_->verify(chain_tree({token}), sparse_);
  target_->commit(kPath);
}

template <class T>
void SelfDrafter<T>::begin(std::int64_t position, const Observation<T>& observation) {
  VERSIEVE_ASSERT(target_->length() == position, "the root follows what is committed");
  VERSIEVE_ASSERT(!observation.next_token.empty(), "the newest token was observed");
  run(observation.next_token.back());
}

template <class T>
void SelfDrafter<T>::step(const typename Drafter<T>::Nodes& nodes) {
  VERSIEVE_ASSERT(nodes.token.size() == 1 && nodes.position[0] == target_->length(),
                  "a chain grows by one node, behind the last");
  run(nodes.token[0]);
}

template <class T>
SelfSource<T>::SelfSource(kernels::Ops<T>& ops, Target<T>& target, const VerifyOptions& sparse,
                          const DraftSourceOptions& options)
    : target_(&target), chains_(ops, std::make_unique<SelfDrafter<T>>(target, sparse), options) {}

template <class T>
DraftTree SelfSource<T>::propose(std::int64_t position, std::int32_t token) {
  const DraftTree tree = chains_.propose(position, token);
  target_->cache().truncate(position);
  return tree;
}

template <class T>
DraftTree RecordedSelfSource<T>::propose(std::int64_t position, std::int32_t token) {
  DraftTree tree = NoDraft<T>().propose(position, token);
  start_.context_len = position;
  start_.token = token;
  steps_->begin(start_);
  for (std::int64_t drafted = 0; drafted < drafted_; ++drafted) {
    while (steps_->pending() < std::min<std::int64_t>(2, drafted_ - drafted)) {
      steps_->launch();
    }
    tree.token.push_back(steps_->wait().token[0]);
    tree.parent.push_back(static_cast<std::int32_t>(drafted));
    tree.depth.push_back(static_cast<std::int32_t>(drafted + 1));
    tree.log_probability.push_back(0.0F);
  }
  target_->cache().set_length(position);  // which recorded steps do not move
  return tree;
}

template class SelfDrafter<double>;
template class SelfDrafter<float>;
template class SelfDrafter<Bf16>;
template class SelfSource<double>;
template class SelfSource<float>;
template class SelfSource<Bf16>;
template class RecordedSelfSource<double>;
template class RecordedSelfSource<float>;
template class RecordedSelfSource<Bf16>;

}  // namespace versieve::engine
