#include "engine/run/specattn/similarity.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "model/words/assert.h"

namespace versieve::engine {
namespace {

constexpr double kFloor =
    1e-12;  // a draft that sees nothing at a place is unlike, not infinitely so

}  // namespace

template <class S>
double kl_divergence(std::span<const S> a, std::span<const S> b) {
  VERSIEVE_ASSERT(a.size() == b.size(), "two distributions over the same places");
  double sum = 0.0;
  for (std::size_t k = 0; k < a.size(); ++k) {
    const double p = static_cast<double>(a[k]);
    if (p > 0.0) {
      sum += p * std::log(p / std::max(static_cast<double>(b[k]), kFloor));
    }
  }
  return sum;
}

template <class T>
AttentionSimilarity<T>::AttentionSimilarity(kernels::Ops<T>& ops, Target<T>& draft,
                                            Target<T>& target)
    : ops_(&ops), draft_(&draft), target_(&target) {
  sums_.assign(static_cast<std::size_t>(draft.shape().layers * target.shape().layers), 0.0);
}

// Runs and commits the tokens; the weights [layers, length] of the last of them.
template <class T>
std::vector<kernels::SumOf<T>> AttentionSimilarity<T>::weights_after(
    Target<T>& model, std::span<const std::int32_t> tokens, std::int64_t length) {
  kernels::OpsBuffer<T, kernels::SumOf<T>> weights(*ops_, model.shape().layers * length);
  model.set_attention_capture({.layer_stride = length, .weights = weights.data()});
  model.verify(chain_tree({tokens.begin(), tokens.end()}), {.last_logits_only = true});
  model.set_attention_capture({});
  std::vector<std::int32_t> path(tokens.size());
  std::iota(path.begin(), path.end(), 0);
  model.commit(path);
  return weights.read();
}

template <class T>
void AttentionSimilarity<T>::add(std::span<const std::int32_t> text, std::int64_t stride,
                                 std::int64_t first) {
  using S = kernels::SumOf<T>;
  draft_->cache().truncate(0);
  target_->cache().truncate(0);
  const std::int64_t draft_layers = draft_->shape().layers;
  const std::int64_t target_layers = target_->shape().layers;
  for (std::int64_t end = stride; end <= static_cast<std::int64_t>(text.size()); end += stride) {
    const std::span<const std::int32_t> tokens =
        text.subspan(static_cast<std::size_t>(end - stride), static_cast<std::size_t>(stride));
    const std::vector<S> of_draft = weights_after(*draft_, tokens, end);
    const std::vector<S> of_target = weights_after(*target_, tokens, end);
    if (end - 1 < first) {
      continue;
    }
    ++positions_;
    const std::size_t length = static_cast<std::size_t>(end);
    for (std::int64_t i = 0; i < draft_layers; ++i) {
      for (std::int64_t j = 0; j < target_layers; ++j) {
        sums_[static_cast<std::size_t>(i * target_layers + j)] -= kl_divergence(
            std::span<const S>(of_target).subspan(static_cast<std::size_t>(j) * length, length),
            std::span<const S>(of_draft).subspan(static_cast<std::size_t>(i) * length, length));
      }
    }
  }
}

template <class T>
std::vector<double> AttentionSimilarity<T>::similarity() const {
  VERSIEVE_ASSERT(positions_ >= 1, "a mean needs a position");
  std::vector<double> means = sums_;
  for (double& value : means) {
    value /= static_cast<double>(positions_);
  }
  return means;
}

template double kl_divergence(std::span<const float>, std::span<const float>);
template double kl_divergence(std::span<const double>, std::span<const double>);
template class AttentionSimilarity<double>;
template class AttentionSimilarity<float>;
template class AttentionSimilarity<Bf16>;

}  // namespace versieve::engine
