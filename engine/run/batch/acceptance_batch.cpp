#include "engine/run/batch/acceptance_batch.h"

#include <algorithm>

namespace versieve::engine {

// Request by request: each has a seed and a temperature of its own.
template <class T>
void AcceptanceBatch<T>::list_draws(const T* logits, std::int64_t vocab,
                                    std::span<const VerifiedTree> trees) {
  std::vector<std::int32_t> position;
  std::int64_t most = 0;
  for (const VerifiedTree& v : trees) {
    if (v.temperature > 0.0) {
      most = std::max(most, v.tree->size());
      for (const std::int32_t depth : v.tree->depth) {
        position.push_back(static_cast<std::int32_t>(v.position + depth));
      }
    }
  }
  if (most == 0) {
    return;
  }
  ensure_count(*ops_, perturbed_, most * vocab);
  const std::int32_t* next = positions_.upload(*ops_, position);
  for (const VerifiedTree& v : trees) {
    if (v.temperature > 0.0) {
      ops_->gumbel_top({.rows = v.tree->size(),
                        .vocab = vocab,
                        .k = 1,
                        .temperature = v.temperature,
                        .seed = v.seed,
                        .logits = logits + v.first_row * vocab,
                        .position = next,
                        .perturbed = perturbed_.data(),
                        .index = best_.data() + v.first_row});
      next += v.tree->size();
    }
  }
}

template <class T>
std::vector<Acceptance> AcceptanceBatch<T>::accept(const T* logits, std::int64_t rows,
                                                   std::int64_t vocab,
                                                   std::span<const VerifiedTree> trees) {
  if (trees.empty()) {
    return {};
  }
  ensure_count(*ops_, best_, rows);
  if (std::any_of(trees.begin(), trees.end(),
                  [](const VerifiedTree& v) { return v.temperature == 0.0; })) {
    ops_->top_logits(
        {.rows = rows, .vocab = vocab, .k = 1, .logits = logits, .index = best_.data()});
  }
  list_draws(logits, vocab, trees);
  std::vector<std::int32_t> best(static_cast<std::size_t>(rows));
  ops_->download(best.data(), best_.data(), best.size() * sizeof(std::int32_t));
  std::vector<Acceptance> out;
  for (const VerifiedTree& v : trees) {
    const std::span<const std::int32_t> own =
        std::span(best).subspan(static_cast<std::size_t>(v.first_row));
    out.push_back(follow(*v.tree, own));
    if (v.forced_yield > 0) {
      out.back().path = path_of_yield(*v.tree, v.forced_yield);
    }
  }
  return out;
}

template class AcceptanceBatch<double>;
template class AcceptanceBatch<float>;
template class AcceptanceBatch<Bf16>;

}  // namespace versieve::engine
