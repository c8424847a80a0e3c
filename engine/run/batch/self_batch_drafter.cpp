#include <numeric>
#include <utility>

#include "engine/run/batch/batch_drafter.h"
#include "model/words/assert.h"

namespace versieve::engine {

template <class T>
void SelfBatchDrafter<T>::run(const std::vector<std::size_t>& sequences,
                              const std::vector<std::int32_t>& tokens) {
  std::vector<SequencePart<T>> parts;
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    const Sequence& s = sequences_[sequences[i]];
    parts.push_back({.tree = chain_tree({tokens[i]}),
                     .options = s.sparse,
                     .cache = s.cache,
                     .choice = s.choice});
  }
  target_->verify_batch(std::move(parts));
  target_->commit_batch(std::vector<std::vector<std::int32_t>>(sequences.size(), {0}));
}

template <class T>
void SelfBatchDrafter<T>::begin(std::vector<Sequence> sequences) {
  sequences_ = std::move(sequences);
  std::vector<std::size_t> all(sequences_.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  std::vector<std::int32_t> roots;
  for (const Sequence& s : sequences_) {
    roots.push_back(s.root);
  }
  run(all, roots);
}

template <class T>
void SelfBatchDrafter<T>::step(std::span<const typename BatchDrafter<T>::Nodes> trees) {
  std::vector<std::size_t> sequences;
  std::vector<std::int32_t> tokens;
  for (const typename BatchDrafter<T>::Nodes& nodes : trees) {
    VERSIEVE_ASSERT(nodes.nodes.token.size() == 1, "a chain grows by one node");
    sequences.push_back(nodes.sequence);
    tokens.push_back(nodes.nodes.token[0]);
  }
  run(sequences, tokens);
}

template <class T>
void SelfBatchDrafter<T>::end() {
  for (const Sequence& s : sequences_) {
    s.cache->truncate(s.position);
  }
}

template class SelfBatchDrafter<double>;
template class SelfBatchDrafter<float>;
template class SelfBatchDrafter<Bf16>;

}  // namespace versieve::engine
