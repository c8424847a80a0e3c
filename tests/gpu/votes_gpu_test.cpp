// The votes of spec_sample's positions: more of them than fit on the chip at once, and calls that
// follow calls with more samples.
#include <algorithm>
#include <catch2/catch.hpp>

#include "tests/gpu/sampler_run.h"

namespace versieve::kernels {
namespace {

using test::differing;
using test::near;
using test::Outcome;
using Spec = SpecSampleVariant;

struct ChainShape {
  std::int64_t samples, gamma, vocab;
};

}  // namespace

// From 14 drafts on the clusters of a large vocabulary keep statistics alone and vote before they
// draw.
TEMPLATE_TEST_CASE("CUDA spec_sample decides alike on more positions than fit at once",
                   "[spec_sample][voting]", float, Bf16, F16) {
  const auto ops = test::try_gpu_ops<test::EngineOf<TestType>>();
  if (!ops) {
    return;
  }
  const TestType high = test::narrow<TestType>(40.0F);
  for (const auto& [samples, gamma, vocab] : {ChainShape{1, 13, 128256},
                                              {8, 14, 128256},
                                              {32, 15, 128256},
                                              {2, 16, 131071},
                                              {3, 31, 66000},
                                              {33, 16, 66000},
                                              {2, 8, 151936},
                                              {1, 20, 262144}}) {
    for (const double temperature : {1.0, 0.6, 0.0}) {
      auto chain = test::random_chain<TestType>(samples, gamma, vocab, temperature);
      INFO("R " << samples << " gamma " << gamma << " V " << vocab << " T " << temperature);
      CHECK(chain.on_gpu(*ops, Spec::kExact) == chain.on_gpu(*ops, Spec::kBaseline));
      if (temperature == 1.0) {
        const Outcome want = chain.on_cpu(Spec::kSigmoid);
        const Outcome got = chain.on_gpu(*ops, Spec::kSigmoid);
        CHECK(near(got.tau, want.tau));
        CHECK(differing(want, got) <= 1 + samples / 100);
      }
      // All drafts but a sample's last ones pass: first rejections lie late, or nowhere.
      std::copy(chain.target.begin(), chain.target.begin() + gamma * vocab, chain.draft.begin());
      for (std::int64_t r = 0; r < samples; ++r) {
        const std::int64_t c = gamma - 1 - r % gamma;
        chain.draft[static_cast<std::size_t>(
            c * vocab + chain.drafted[static_cast<std::size_t>(r * gamma + c)])] = high;
      }
      CHECK(chain.on_gpu(*ops, Spec::kExact) == chain.on_gpu(*ops, Spec::kBaseline));
    }
  }
}

TEMPLATE_TEST_CASE("CUDA spec_sample's sequences of a batch are those of calls of their own",
                   "[spec_sample][voting][batch]", float, Bf16) {
  const auto ops = test::try_gpu_ops<TestType>();
  if (!ops) {
    return;
  }
  struct BatchShape {
    std::int64_t batch, samples, gamma, vocab;
  };
  for (const auto& [batch, samples, gamma, vocab] : {BatchShape{2, 1, 3, 700},
                                                     {3, 2, 2, 40000},
                                                     {16, 1, 4, 32000},
                                                     {16, 2, 20, 3000},
                                                     {5, 9, 3, 5000},
                                                     {4, 1, 5, 128256},
                                                     {2, 3, 6, 151936},
                                                     {9, 4, 1, 140000},
                                                     {16, 1, 4, 128256},
                                                     {9, 1, 2, 151936},
                                                     {8, 1, 20, 33001},
                                                     {3, 1, 31, 70000},
                                                     {4, 1, 3, 262144},
                                                     {16, 1, 4, 151936}}) {
    const auto whole = test::random_chain<TestType>(samples, gamma, vocab, 0.8, 50, batch);
    for (const Spec variant : {Spec::kBaseline, Spec::kExact, Spec::kSigmoid}) {
      INFO("B " << batch << " R " << samples << " gamma " << gamma << " V " << vocab);
      const Outcome all = whole.on_gpu(*ops, variant);
      CHECK(all == whole.on_gpu(*ops, variant));
      for (std::int64_t b = 0; b < batch; ++b) {
        const auto part = [&](const auto& of, std::int64_t size) {
          return std::decay_t<decltype(of)>(of.begin() + b * size, of.begin() + (b + 1) * size);
        };
        auto one = whole;
        one.batch = 1;
        one.target = part(whole.target, (gamma + 1) * vocab);
        one.draft = part(whole.draft, gamma * vocab);
        one.drafted = part(whole.drafted, samples * gamma);
        one.uniforms = part(whole.uniforms, samples * (gamma + 1));
        const Outcome own = one.on_gpu(*ops, variant);
        CHECK(own.accepted == part(all.accepted, samples));
        CHECK(own.tokens == part(all.tokens, samples * (gamma + 1)));
        CHECK(own.tau == part(all.tau, samples * gamma));
      }
    }
    CHECK(whole.on_gpu(*ops, Spec::kExact) == whole.on_gpu(*ops, Spec::kBaseline));
    // Drafts of the target's own law pass, so that sequences end late; one-hot; what is cut.
    auto late = whole;
    for (std::int64_t b = 0; b < batch; ++b) {
      std::copy_n(whole.target.begin() + b * (gamma + 1) * vocab, gamma * vocab - b % gamma * vocab,
                  late.draft.begin() + b * gamma * vocab);
    }
    CHECK(late.on_gpu(*ops, Spec::kExact) == late.on_gpu(*ops, Spec::kBaseline));
    late.truncation = {.top_k = 200, .top_p = 0.9};
    CHECK(late.on_gpu(*ops, Spec::kExact) == late.on_gpu(*ops, Spec::kBaseline));
    late.temperature = 0.0;
    CHECK(late.on_gpu(*ops, Spec::kExact) == late.on_gpu(*ops, Spec::kBaseline));
  }
}

// For checkers that slow kernels a thousandfold: one position more than fits, three launches.
TEST_CASE("CUDA spec_sample decides alike on one position more than fits at once",
          "[spec_sample][race][many-clusters]") {
  const auto ops = test::try_gpu_ops<float>();
  if (!ops) {
    return;
  }
  constexpr std::int64_t kGamma = 14, kVocab = 128256;
  auto chain = test::random_chain<float>(2, kGamma, kVocab, 1.0);
  // The second half of the drafts is the target's own law, so that they pass.
  std::copy(chain.target.begin() + kGamma / 2 * kVocab, chain.target.begin() + kGamma * kVocab,
            chain.draft.begin() + kGamma / 2 * kVocab);
  CHECK(chain.on_gpu(*ops, Spec::kExact) == chain.on_gpu(*ops, Spec::kBaseline));
  const Outcome want = chain.on_cpu(Spec::kSigmoid);
  const Outcome got = chain.on_gpu(*ops, Spec::kSigmoid);
  CHECK(near(got.tau, want.tau));
  CHECK(differing(want, got) <= 1);
}

// A batch that is streamed is large: a case of its own for checkers, of sixteen clusters of 16.
TEST_CASE("CUDA spec_sample decides alike on a batch that is streamed",
          "[spec_sample][race][streamed][many-clusters]") {
  const auto ops = test::try_gpu_ops<float>();
  if (!ops) {
    return;
  }
  auto batch = test::random_chain<float>(1, 1, 131200, 1.0, 3, 16);
  batch.truncation = {.top_k = 300};
  CHECK(batch.on_gpu(*ops, Spec::kExact) == batch.on_gpu(*ops, Spec::kBaseline));
}

// The same of several sequences and of two rounds a warp, each with what is cut.
TEST_CASE("CUDA spec_sample decides alike on a cut batch", "[spec_sample][race]") {
  const auto ops = test::try_gpu_ops<float>();
  if (!ops) {
    return;
  }
  auto batch = test::random_chain<float>(2, 2, 2100, 1.0, 3, 3);
  batch.truncation = {.top_k = 300, .top_p = 0.9, .min_p = 0.001};
  CHECK(batch.on_gpu(*ops, Spec::kExact) == batch.on_gpu(*ops, Spec::kBaseline));
  auto wide = test::random_chain<float>(1, 1, 131200, 1.0, 3);
  wide.truncation = {.top_p = 0.9};
  CHECK(wide.on_gpu(*ops, Spec::kExact) == wide.on_gpu(*ops, Spec::kBaseline));
}

TEST_CASE("CUDA spec_sample forgets the votes of samples that a later call lacks",
          "[spec_sample][race]") {
  const auto ops = test::try_gpu_ops<float>();
  if (!ops) {
    return;
  }
  const auto many = test::random_chain<float>(32, 3, 700, 1.0, 5);
  const auto few = test::random_chain<float>(1, 2, 700, 1.0, 6);
  const auto other = test::random_chain<float>(32, 3, 700, 1.0, 7);
  const Outcome want = other.on_gpu(*ops, Spec::kBaseline);
  for (int calls = 0; calls < 4; ++calls) {
    many.on_gpu(*ops, Spec::kExact);
    for (int i = 0; i < calls; ++i) {
      few.on_gpu(*ops, Spec::kExact);
    }
    CHECK(other.on_gpu(*ops, Spec::kExact) == want);
  }
}

}  // namespace versieve::kernels
