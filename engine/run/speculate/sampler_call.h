// A verified tree as the samplers take it that share no noise with the draft (kernels/spec_sample,
// kernels/tree_sample), and the path that their answer says.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/run/speculate/acceptance.h"
#include "kernels/ops.h"

namespace versieve::engine {

// Lists of a tree of N nodes, in memory of the ops.
template <class T>
struct SamplerLists {
  const std::int32_t* parent = nullptr;         // [N]
  const std::int32_t* token = nullptr;          // [N]
  const kernels::SumOf<T>* uniforms = nullptr;  // [N]
  std::int32_t* answer = nullptr;               // [answer_size(N)]
  kernels::SumOf<T>* tau = nullptr;             // [N]
};

inline std::int64_t answer_size(std::int64_t nodes) {
  return 2 * nodes + 1;
}

// The random numbers of its tests and of the draw after them.
template <class T>
std::vector<kernels::SumOf<T>> test_uniforms(const typename Acceptor<T>::Verified& verified,
                                             std::uint64_t seed);

// Of a chain that the draft sampled. REQUIRES: verified.sampled_logits.
template <class T>
kernels::SpecSampleParams<T> chain_call(const typename Acceptor<T>::Verified& verified,
                                        const AcceptanceOptions& options,
                                        const SamplerLists<T>& lists);
// Of all else. REQUIRES: one node, or no sigmoids.
template <class T>
kernels::TreeSampleParams<T> tree_call(const typename Acceptor<T>::Verified& verified,
                                       const AcceptanceOptions& options,
                                       const SamplerLists<T>& lists);

// What the host reads of `answer`.
Acceptance chain_answer(std::span<const std::int32_t> answer);
Acceptance tree_answer(std::span<const std::int32_t> answer, std::int64_t nodes);

}  // namespace versieve::engine
