#include "engine/run/calibrate/text_loss.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "engine/run/model/wide.h"
#include "kernels/common/bf16.h"
#include "kernels/common/parallel_for.h"
#include "model/words/assert.h"

namespace versieve::engine {
namespace {

constexpr std::int64_t kChunk = Target<float>::kMostTogether;  // nodes of a chain

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
                      std::vector<std::vector<std::int32_t>> texts, int threads)
    : ops_(&ops), target_(&target), threads_(threads) {
  for (std::vector<std::int32_t>& text : texts) {
    const std::int64_t inputs = static_cast<std::int64_t>(text.size()) - 1;
    scored_ += std::max<std::int64_t>(0, inputs - first_scored(target.shape().nsa));
    texts_.push_back({std::move(text), KvCache<T>(ops, target.shape())});
  }
  VERSIEVE_ASSERT(scored_ >= 1, "a loss needs a token to predict");
}

template <class T>
double TextLoss<T>::operator()(const std::string& schedule) {
  double sum = 0.0;
  for (Text& text : texts_) {
    const bool is_scored =
        static_cast<std::int64_t>(text.tokens.size()) - 1 > first_scored(target_->shape().nsa);
    sum += is_scored ? text_loss(text, schedule) : 0.0;
  }
  return sum / static_cast<double>(scored_);
}

// The text's own cache lies in the target meanwhile.
template <class T>
double TextLoss<T>::text_loss(Text& text, const std::string& schedule) {
  const std::int64_t inputs = static_cast<std::int64_t>(text.tokens.size()) - 1;
  const std::int64_t first = first_scored(target_->shape().nsa);
  std::swap(target_->cache(), text.cache);
  target_->cache().truncate(text.is_begun ? first : 0);
  target_->cache().reserve(inputs);
  double sum = 0.0;
  for (std::int64_t at = target_->length(); at < inputs;) {
    // The first chunk behind what no schedule changes begins there, so that it can be kept.
    const std::int64_t end = std::min(at < first ? first : inputs, at + kChunk);
    run_chunk(text.tokens, at, end, schedule, sum);
    at = end;
  }
  text.is_begun = true;
  std::swap(target_->cache(), text.cache);
  return sum;
}

// Adds what is lost on the tokens behind text[at, end) that are scored, one after the other.
template <class T>
void TextLoss<T>::run_chunk(std::span<const std::int32_t> text, std::int64_t at, std::int64_t end,
                            const std::string& schedule, double& sum) {
  const std::size_t vocab = static_cast<std::size_t>(target_->shape().vocab);
  const bool is_scored = at >= first_scored(target_->shape().nsa);
  target_->verify(chain_tree({text.begin() + at, text.begin() + end}),
                  {.schedule = schedule, .last_logits_only = !is_scored});
  const std::size_t rows = static_cast<std::size_t>(end - at);
  std::vector<double> losses(is_scored ? rows : 0);
  if (is_scored) {
    logits_.resize(rows * vocab);
    ops_->download(logits_.data(), target_->logits(), rows * vocab * sizeof(T));
    kernels::parallel_for(static_cast<std::int64_t>(rows), threads_, [&](std::int64_t i) {
      const std::size_t row = static_cast<std::size_t>(i);
      losses[row] = token_loss(std::span<const T>(logits_).subspan(row * vocab, vocab),
                               text[static_cast<std::size_t>(at) + row + 1]);
    });
  }
  std::vector<std::int32_t> path(rows);
  std::iota(path.begin(), path.end(), 0);
  target_->commit(path);
  sum = std::accumulate(losses.begin(), losses.end(), sum);
}

template double token_loss(std::span<const double>, std::int32_t);
template double token_loss(std::span<const float>, std::int32_t);
template double token_loss(std::span<const Bf16>, std::int32_t);
template class TextLoss<double>;
template class TextLoss<float>;
template class TextLoss<Bf16>;

}  // namespace versieve::engine
