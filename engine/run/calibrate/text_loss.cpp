#include "engine/run/calibrate/text_loss.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "kernels/common/bf16.h"
#include "model/words/assert.h"

namespace versieve::engine {
namespace {

constexpr std::int64_t kChunk = 256;  // nodes of a chain, as in prefill

double wide(double x) {
  return x;
}
double wide(float x) {
  return x;
}
double wide(Bf16 x) {
  return to_float(x);
}

}  // namespace

template <class T>
double token_loss(std::span<const T> logits, std::int32_t token) {
  double most = -INFINITY;
  for (const T logit : logits) {
    most = std::max(most, wide(logit));
  }
  double sum = 0.0;
  for (const T logit : logits) {
    sum += std::exp(wide(logit) - most);
  }
  return most + std::log(sum) - wide(logits[static_cast<std::size_t>(token)]);
}

template <class T>
TextLoss<T>::TextLoss(kernels::Ops<T>& ops, Target<T>& target,
                      std::vector<std::vector<std::int32_t>> texts)
    : ops_(&ops), target_(&target), texts_(std::move(texts)) {
  for (const std::vector<std::int32_t>& text : texts_) {
    const std::int64_t inputs = static_cast<std::int64_t>(text.size()) - 1;
    scored_ += std::max<std::int64_t>(0, inputs - first_scored(target.shape().nsa));
  }
  VERSIEVE_ASSERT(scored_ >= 1, "a loss needs a token to predict");
}

template <class T>
double TextLoss<T>::operator()(const std::string& schedule) {
  double sum = 0.0;
  for (const std::vector<std::int32_t>& text : texts_) {
    sum += text_loss(text, schedule);
  }
  return sum / static_cast<double>(scored_);
}

template <class T>
double TextLoss<T>::text_loss(std::span<const std::int32_t> text, const std::string& schedule) {
  const std::size_t vocab = static_cast<std::size_t>(target_->shape().vocab);
  const std::int64_t inputs = static_cast<std::int64_t>(text.size()) - 1;
  target_->cache().truncate(0);
  target_->cache().reserve(inputs);
  double sum = 0.0;
  for (std::int64_t at = 0; at < inputs; at += kChunk) {
    const std::int64_t end = std::min(inputs, at + kChunk);
    const std::size_t rows = static_cast<std::size_t>(end - at);
    target_->verify(chain_tree({text.begin() + at, text.begin() + end}), {.schedule = schedule});
    std::vector<T> logits(rows * vocab);
    ops_->download(logits.data(), target_->logits(), logits.size() * sizeof(T));
    const std::int64_t unscored = first_scored(target_->shape().nsa) - at;
    for (std::size_t row = static_cast<std::size_t>(std::max<std::int64_t>(0, unscored));
         row < rows; ++row) {
      sum += token_loss(std::span<const T>(logits).subspan(row * vocab, vocab),
                        text[static_cast<std::size_t>(at) + row + 1]);
    }
    std::vector<std::int32_t> path(rows);
    std::iota(path.begin(), path.end(), 0);
    target_->commit(path);
  }
  return sum;
}

template double token_loss(std::span<const double>, std::int32_t);
template double token_loss(std::span<const float>, std::int32_t);
template double token_loss(std::span<const Bf16>, std::int32_t);
template class TextLoss<double>;
template class TextLoss<float>;
template class TextLoss<Bf16>;

}  // namespace versieve::engine
