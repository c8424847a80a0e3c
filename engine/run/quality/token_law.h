// The law of a next token as logarithms, and what one law says about another and about a text. A
// vocabulary's row is read a handful of times for each token of a text: loops here are vectors of
// floats, their sums doubles.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace versieve::engine {

using Law = std::vector<float>;  // [V]: natural logarithms of probabilities

// Of what sigmoids never yield: e to this, near the least float, so that what is said of such a law
// is a lower bound and a number.
inline constexpr float kLeastLog = -87.0F;

// softmax(logits).
template <class T>
Law law_of(std::span<const T> logits);

// Of the token that a step yields whose draft proposed from softmax(draft) and whose test is
// sampling=sigmoid's, at temperature 1: a drafted x stays with min(1, p(x) / q(x)), p and q the
// sigmoids of target and draft; else max(0, p - q) is drawn from (Optimized Speculative Sampling,
// section 3.2.2; kernels/spec_sample).
// `stays`: null, or takes the probability that the drafted token does.
template <class T>
Law sigmoid_law(std::span<const T> target, std::span<const T> draft, double* stays = nullptr);

struct TokenScore {
  double loss = 0.0;           // nats: -law[token]
  std::int32_t likeliest = 0;  // the lowest of equals
  double divergence = 0.0;     // KL(exact || law), nats; 0 without an exact law
};
// `exact`: null or the law to compare with.
TokenScore score_token(const Law& law, std::int32_t token, const Law* exact);
// The same of law_of(logits), which is not made.
template <class T>
TokenScore score_logits(std::span<const T> logits, std::int32_t token, const Law* exact);
// The loss alone.
template <class T>
double loss_of(std::span<const T> logits, std::int32_t token);

}  // namespace versieve::engine
