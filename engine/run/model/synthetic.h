// Models of a named geometry with random weights and contexts that were never prefilled: time and
// bytes of a step do not depend on what the weights say. Their own acceptance means nothing.
#pragma once

#include <cstdint>

#include "engine/run/model/draft.h"
#include "engine/run/model/target.h"

namespace versieve::engine {

// Normal weights with variance 1 / inputs, norms 1. Large matrices repeat a random block.
// `alike`, from 0 to 1: how much of the variance of an embedding all tokens have in common. The
// more it is, the more blocks do neighbouring queries choose alike.
template <class T>
Target<T> make_synthetic_target(kernels::Ops<T>& ops, const LlmShape& shape,
                                const DraftShape& draft, std::uint64_t seed, double alike = 0.0);
// `target` outlives the draft. `logit_deviation`: standard deviation of its logits. At 1 all
// tokens are about as likely, and trees are as flat as their width allows; at kConfidentLogits the
// best one nearly always has most of the probability, as a trained draft's, and trees are as deep
// as they may be.
inline constexpr double kConfidentLogits = 40.0;
template <class T>
Draft<T> make_synthetic_draft(kernels::Ops<T>& ops, const DraftShape& shape,
                              const Target<T>& target, std::uint64_t seed,
                              double logit_deviation = 1.0);

// Makes the cache hold `context_len` tokens of random normal values: keys, values, raw keys and
// compressed tokens.
template <class T>
void fill_context(kernels::Ops<T>& ops, Target<T>& target, std::int64_t context_len,
                  std::uint64_t seed);
// The same of a cache with room for them.
template <class T>
void fill_context(kernels::Ops<T>& ops, const LlmShape& shape, KvCache<T>& cache,
                  std::int64_t context_len, std::uint64_t seed);
// Entries for every position before `context_len`.
template <class T>
void fill_context(kernels::Ops<T>& ops, Draft<T>& draft, std::int64_t context_len,
                  std::uint64_t seed);

}  // namespace versieve::engine
