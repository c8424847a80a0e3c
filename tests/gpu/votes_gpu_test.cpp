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
                   "[spec_sample][voting]", float, Bf16) {
  const auto ops = test::try_gpu_ops<TestType>();
  if (!ops) {
    return;
  }
  const TestType high = test::narrow<TestType>(40.0F);
  for (const auto& [samples, gamma, vocab] : {ChainShape{1, 13, 128256},
                                              {8, 14, 128256},
                                              {32, 15, 128256},
                                              {2, 16, 131071},
                                              {3, 31, 66000},
                                              {33, 16, 66000}}) {
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
