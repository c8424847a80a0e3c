// Chains and trees for the samplers' tests, run on the CPU or through the CUDA engine.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "kernels/cpu.h"
#include "tests/gpu/gpu_ops.h"

namespace versieve::test {

using Ints = std::vector<std::int32_t>;

// The engine whose samplers take logits of T: f16 is any engine's.
template <class T>
using EngineOf = std::conditional_t<std::is_same_v<T, F16>, float, T>;

template <class E, class P>
void run_sampler(kernels::Ops<E>& ops, const P& p) {
  if constexpr (std::is_same_v<P, kernels::SpecSampleParams<F16>>) {
    ops.spec_sample_f16(p);
  } else if constexpr (std::is_same_v<P, kernels::TreeSampleParams<F16>>) {
    ops.tree_sample_f16(p);
  } else if constexpr (std::is_same_v<P, kernels::SpecSampleParams<E>>) {
    ops.spec_sample(p);
  } else {
    ops.tree_sample(p);
  }
}

struct Outcome {
  Ints accepted, tokens, path;
  std::vector<float> tau;

  bool operator==(const Outcome&) const = default;
};

template <class T>
struct Chain {
  std::int64_t samples, gamma, vocab;
  double temperature;
  std::vector<T> target, draft;
  Ints drafted;
  std::vector<float> uniforms;
  double alpha = -10.0, beta = 10.0;
  std::int64_t batch = 1;
  kernels::Truncation truncation = {};

  kernels::SpecSampleParams<T> params(kernels::SpecSampleVariant variant) const {
    kernels::SpecSampleParams<T> p;
    p.variant = variant;
    p.samples = samples;
    p.gamma = gamma;
    p.vocab = vocab;
    p.temperature = temperature;
    p.alpha = alpha;
    p.beta = beta;
    p.batch = batch;
    p.truncation = truncation;
    return p;
  }
  Outcome blank() const {
    return {Ints(static_cast<std::size_t>(batch * samples), -9),
            Ints(static_cast<std::size_t>(batch * samples * (gamma + 1)), -9),
            {},
            std::vector<float>(static_cast<std::size_t>(batch * samples * gamma), -9.0F)};
  }
  Outcome on_cpu(kernels::SpecSampleVariant variant) const {
    Outcome o = blank();
    kernels::SpecSampleParams<T> p = params(variant);
    p.target_logits = target.data();
    p.draft_logits = draft.data();
    p.draft_tokens = drafted.data();
    p.uniforms = uniforms.data();
    p.accepted = o.accepted.data();
    p.tokens = o.tokens.data();
    p.tau = o.tau.data();
    kernels::spec_sample_cpu(p, 2);
    return o;
  }
  Outcome on_gpu(kernels::Ops<EngineOf<T>>& ops, kernels::SpecSampleVariant variant) const {
    using E = EngineOf<T>;
    const Outcome o = blank();
    const kernels::OpsBuffer<E, T> t(ops, target), d(ops, draft);
    const kernels::OpsBuffer<E, std::int32_t> x(ops, drafted), a(ops, o.accepted),
        tokens(ops, o.tokens);
    const kernels::OpsBuffer<E, float> u(ops, uniforms), tau(ops, o.tau);
    kernels::SpecSampleParams<T> p = params(variant);
    p.target_logits = t.data();
    p.draft_logits = d.data();
    p.draft_tokens = x.data();
    p.uniforms = u.data();
    p.accepted = a.data();
    p.tokens = tokens.data();
    p.tau = tau.data();
    run_sampler(ops, p);
    return {a.read(), tokens.read(), {}, tau.read()};
  }
};

// Logits of both models; half of the drafted tokens are the draft's favourites.
template <class T>
Chain<T> random_chain(std::int64_t samples, std::int64_t gamma, std::int64_t vocab,
                      double temperature, std::uint32_t seed = 1, std::int64_t batch = 1) {
  Chain<T> c{samples,
             gamma,
             vocab,
             temperature,
             random_elements<T>(batch * (gamma + 1) * vocab, seed, 2.0),
             random_elements<T>(batch * gamma * vocab, seed + 1, 2.0),
             {},
             random_uniforms<float>(batch * samples * (gamma + 1), seed + 2)};
  c.batch = batch;
  Ints favourite;
  for (std::int64_t i = 0; i < batch * gamma; ++i) {
    const T* row = c.draft.data() + i * vocab;
    favourite.push_back(static_cast<std::int32_t>(
        std::max_element(row, row + vocab, [](T a, T b) { return widen(a) < widen(b); }) - row));
  }
  for (std::int64_t i = 0; i < batch * samples * gamma; ++i) {
    const std::int64_t row = i / (samples * gamma) * gamma + i % gamma;
    c.drafted.push_back(i % 2 == 0 ? favourite[static_cast<std::size_t>(row)]
                                   : static_cast<std::int32_t>(i * 37 % vocab));
  }
  return c;
}

template <class T>
struct Tree {
  std::int64_t samples, vocab;
  double temperature;
  std::vector<T> logits;
  Ints parent, token;
  std::vector<float> uniforms;
  kernels::Truncation truncation = {};

  std::int64_t nodes() const { return static_cast<std::int64_t>(parent.size()); }
  kernels::TreeSampleParams<T> params(kernels::TreeSampleVariant variant) const {
    kernels::TreeSampleParams<T> p;
    p.variant = variant;
    p.samples = samples;
    p.num_nodes = nodes();
    p.vocab = vocab;
    p.temperature = temperature;
    p.truncation = truncation;
    return p;
  }
  Outcome blank() const {
    return {Ints(static_cast<std::size_t>(samples), -9), Ints(token.size(), -9),
            Ints(token.size(), -9), std::vector<float>(token.size(), -9.0F)};
  }
  Outcome on_cpu() const {
    Outcome o = blank();
    kernels::TreeSampleParams<T> p = params(kernels::TreeSampleVariant::kBaseline);
    p.target_logits = logits.data();
    p.parent = parent.data();
    p.token = token.data();
    p.uniforms = uniforms.data();
    p.accepted = o.accepted.data();
    p.tokens = o.tokens.data();
    p.path = o.path.data();
    p.tau = o.tau.data();
    kernels::tree_sample_cpu(p, 2);
    return o;
  }
  Outcome on_gpu(kernels::Ops<EngineOf<T>>& ops, kernels::TreeSampleVariant variant) const {
    using E = EngineOf<T>;
    const Outcome o = blank();
    const kernels::OpsBuffer<E, T> z(ops, logits);
    const kernels::OpsBuffer<E, std::int32_t> parents(ops, parent), proposed(ops, token),
        accepted(ops, o.accepted), tokens(ops, o.tokens), path(ops, o.path);
    const kernels::OpsBuffer<E, float> u(ops, uniforms), tau(ops, o.tau);
    kernels::TreeSampleParams<T> p = params(variant);
    p.target_logits = z.data();
    p.parent = parents.data();
    p.token = proposed.data();
    p.uniforms = u.data();
    p.accepted = accepted.data();
    p.tokens = tokens.data();
    p.path = path.data();
    p.tau = tau.data();
    run_sampler(ops, p);
    return {accepted.read(), tokens.read(), path.read(), tau.read()};
  }
};

// A tree of `width` children a node; tokens near the top of the parent's row, with repeats.
template <class T>
Tree<T> random_tree(std::int64_t samples, std::int64_t nodes, std::int64_t vocab,
                    double temperature, std::int32_t width = 3, std::uint32_t seed = 8) {
  Tree<T> tree{samples,
               vocab,
               temperature,
               random_elements<T>(nodes * vocab, seed, 3.0),
               {-1},
               {},
               random_uniforms<float>(samples * nodes, seed + 1)};
  for (std::int32_t i = 1; i < nodes; ++i) {
    tree.parent.push_back((i - 1) / width);
  }
  Ints favourite;
  for (std::size_t i = 0; i < tree.parent.size(); ++i) {
    const T* row = tree.logits.data() + (i == 0 ? 0 : tree.parent[i]) * vocab;
    std::int32_t best = static_cast<std::int32_t>((i * 13) % static_cast<std::size_t>(vocab));
    for (std::int64_t x = static_cast<std::int64_t>(i) % width; x < vocab; x += width) {
      best = widen(row[x]) > widen(row[best]) ? static_cast<std::int32_t>(x) : best;
    }
    favourite.push_back(best);
  }
  for (std::int64_t r = 0; r < samples; ++r) {
    for (std::size_t i = 0; i < favourite.size(); ++i) {
      const std::int64_t at = r * nodes + static_cast<std::int64_t>(i);
      tree.token.push_back(at % 3 == 0 ? static_cast<std::int32_t>(at * 13 % vocab) : favourite[i]);
    }
  }
  return tree;
}

// |got - want| within 1e-5, or 1e-4 of it.
inline bool near(const std::vector<float>& got, const std::vector<float>& want) {
  return std::equal(got.begin(), got.end(), want.begin(), want.end(),
                    [](float a, float b) { return std::abs(a - b) <= std::max(1e-5F, 1e-4F * b); });
}

// Samples whose tokens differ: only rounding at a boundary may do that.
inline std::int64_t differing(const Outcome& a, const Outcome& b) {
  std::int64_t count = 0;
  const std::size_t width = a.tokens.size() / a.accepted.size();
  for (std::size_t r = 0; r < a.accepted.size(); ++r) {
    const auto first = static_cast<std::ptrdiff_t>(r * width);
    const auto last = static_cast<std::ptrdiff_t>((r + 1) * width);
    count +=
        std::equal(a.tokens.begin() + first, a.tokens.begin() + last, b.tokens.begin() + first) &&
                a.accepted[r] == b.accepted[r]
            ? 0
            : 1;
  }
  return count;
}

}  // namespace versieve::test
