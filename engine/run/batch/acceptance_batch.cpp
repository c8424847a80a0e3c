#include "engine/run/batch/acceptance_batch.h"

#include <algorithm>

namespace versieve::engine {
namespace {

bool is_coupled(const AcceptanceOptions& options) {
  return options.temperature > 0.0 && options.sampling == SamplingAlgorithm::kCoupled;
}

bool tests_draws(const AcceptanceOptions& options) {
  return options.temperature > 0.0 && options.sampling != SamplingAlgorithm::kCoupled;
}

}  // namespace

// Request by request: each has a seed and a temperature of its own.
template <class T>
void AcceptanceBatch<T>::list_draws(const T* logits, std::int64_t vocab,
                                    std::span<const VerifiedTree<T>> trees) {
  std::vector<std::int32_t> position;
  std::int64_t most = 0;
  for (const VerifiedTree<T>& v : trees) {
    if (is_coupled(v.options)) {
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
  for (const VerifiedTree<T>& v : trees) {
    if (is_coupled(v.options)) {
      ops_->gumbel_top({.rows = v.tree->size(),
                        .vocab = vocab,
                        .k = 1,
                        .temperature = v.options.temperature,
                        .seed = v.options.seed,
                        .logits = logits + v.first_row * vocab,
                        .position = next,
                        .perturbed = perturbed_.data(),
                        .index = best_.data() + v.first_row});
      next += v.tree->size();
    }
  }
}

template <class T>
std::vector<std::int32_t> AcceptanceBatch<T>::best_of(const T* logits, std::int64_t rows,
                                                      std::int64_t vocab,
                                                      std::span<const VerifiedTree<T>> trees) {
  std::vector<std::int32_t> best(static_cast<std::size_t>(rows));
  if (std::all_of(trees.begin(), trees.end(),
                  [](const VerifiedTree<T>& v) { return tests_draws(v.options); })) {
    return best;
  }
  ensure_count(*ops_, best_, rows);
  if (std::any_of(trees.begin(), trees.end(),
                  [](const VerifiedTree<T>& v) { return v.options.temperature == 0.0; })) {
    ops_->top_logits(
        {.rows = rows, .vocab = vocab, .k = 1, .logits = logits, .index = best_.data()});
  }
  list_draws(logits, vocab, trees);
  ops_->download(best.data(), best_.data(), best.size() * sizeof(std::int32_t));
  return best;
}

template <class T>
std::vector<Acceptance> AcceptanceBatch<T>::accept(const T* logits, std::int64_t rows,
                                                   std::int64_t vocab,
                                                   std::span<const VerifiedTree<T>> trees) {
  const std::vector<std::int32_t> best = best_of(logits, rows, vocab, trees);
  std::vector<Acceptance> out;
  for (const VerifiedTree<T>& v : trees) {
    if (tests_draws(v.options)) {
      out.push_back(acceptor_.accept({.tree = *v.tree,
                                      .position = v.position,
                                      .vocab = vocab,
                                      .logits = logits + v.first_row * vocab,
                                      .sampled_logits = v.sampled_logits},
                                     v.options));
    } else {
      out.push_back(
          follow(*v.tree, std::span(best).subspan(static_cast<std::size_t>(v.first_row))));
    }
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
