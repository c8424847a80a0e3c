#include "engine/run/speculate/sampler_call.h"

#include "engine/run/model/uniform.h"
#include "engine/run/speculate/kernel_variants.h"
#include "model/words/assert.h"

namespace versieve::engine {

template <class T>
std::vector<kernels::SumOf<T>> test_uniforms(const typename Acceptor<T>::Verified& verified,
                                             std::uint64_t seed) {
  std::vector<kernels::SumOf<T>> values;
  for (std::int64_t i = 0; i < verified.tree.size(); ++i) {
    values.push_back(
        static_cast<kernels::SumOf<T>>(uniform_at(seed, verified.position, UniformUse::kTest, i)));
  }
  return values;
}

template <class T>
kernels::SpecSampleParams<T> chain_call(const typename Acceptor<T>::Verified& verified,
                                        const AcceptanceOptions& options,
                                        const SamplerLists<T>& lists) {
  return {.variant = variant_of(options.sampling),
          .samples = 1,
          .gamma = verified.tree.size() - 1,
          .vocab = verified.vocab,
          .temperature = options.temperature,
          .alpha = options.sigmoid.alpha,
          .beta = options.sigmoid.beta,
          .target_logits = verified.logits,
          .draft_logits = verified.sampled_logits,
          .draft_tokens = lists.token + 1,
          .uniforms = lists.uniforms,
          .accepted = lists.answer,
          .tokens = lists.answer + 1,
          .tau = lists.tau,
          .truncation = options.truncation};
}

template <class T>
kernels::TreeSampleParams<T> tree_call(const typename Acceptor<T>::Verified& verified,
                                       const AcceptanceOptions& options,
                                       const SamplerLists<T>& lists) {
  const std::int64_t count = verified.tree.size();
  VERSIEVE_ASSERT(count == 1 || options.sampling != SamplingAlgorithm::kSigmoid,
                  "sigmoids test chains that the draft sampled");
  const bool separate = options.sampling == SamplingAlgorithm::kBaseline;
  return {.variant =
              separate ? kernels::TreeSampleVariant::kBaseline : kernels::TreeSampleVariant::kExact,
          .samples = 1,
          .num_nodes = count,
          .vocab = verified.vocab,
          .temperature = options.temperature,
          .target_logits = verified.logits,
          .parent = lists.parent,
          .token = lists.token,
          .uniforms = lists.uniforms,
          .accepted = lists.answer,
          .tokens = lists.answer + 1,
          .path = lists.answer + 1 + count,
          .tau = lists.tau,
          .truncation = options.truncation};
}

Acceptance chain_answer(std::span<const std::int32_t> answer) {
  const std::int32_t accepted = answer[0];
  Acceptance result{.path = {}, .next_token = answer[static_cast<std::size_t>(1 + accepted)]};
  for (std::int32_t node = 0; node <= accepted; ++node) {
    result.path.push_back(node);
  }
  return result;
}

Acceptance tree_answer(std::span<const std::int32_t> answer, std::int64_t nodes) {
  const std::int64_t accepted = answer[0];
  Acceptance result{.path = {0}, .next_token = answer[static_cast<std::size_t>(1 + accepted)]};
  for (std::int64_t i = 0; i < accepted; ++i) {
    result.path.push_back(answer[static_cast<std::size_t>(1 + nodes + i)]);
  }
  return result;
}

#define VERSIEVE_INSTANTIATE(T)                                                          \
  template std::vector<kernels::SumOf<T>> test_uniforms<T>(const Acceptor<T>::Verified&, \
                                                           std::uint64_t);               \
  template kernels::SpecSampleParams<T> chain_call<T>(                                   \
      const Acceptor<T>::Verified&, const AcceptanceOptions&, const SamplerLists<T>&);   \
  template kernels::TreeSampleParams<T> tree_call<T>(                                    \
      const Acceptor<T>::Verified&, const AcceptanceOptions&, const SamplerLists<T>&);
VERSIEVE_INSTANTIATE(double)
VERSIEVE_INSTANTIATE(float)
VERSIEVE_INSTANTIATE(Bf16)
#undef VERSIEVE_INSTANTIATE

}  // namespace versieve::engine
