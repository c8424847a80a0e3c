// spec_sample and tree_sample on CUDA: every form decides alike, as the CPU does, and the law of
// the output is the target's.
#include <catch2/catch.hpp>
#include <limits>

#include "kernels/spec_sample/categorical.h"
#include "tests/gpu/sampler_run.h"
#include "tests/kernels/chi_square.h"

namespace versieve::kernels {
namespace {

using test::Chain;
using test::differing;
using test::Ints;
using test::near;
using test::Outcome;
using test::Tree;
using Spec = SpecSampleVariant;
using TreeForm = TreeSampleVariant;

constexpr float kNever = -std::numeric_limits<float>::infinity();
const float kAlmostOne = std::nextafter(1.0F, 0.0F);

struct ChainShape {
  std::int64_t samples, gamma, vocab;
};

}  // namespace

TEMPLATE_TEST_CASE(
    "CUDA spec_sample decides as the CPU does, and exact as the baseline bit for bit",
    "[spec_sample]", float, Bf16, F16) {
  const auto ops = test::try_gpu_ops<test::EngineOf<TestType>>();
  if (!ops) {
    return;
  }
  for (const auto& [samples, gamma, vocab] : {ChainShape{50, 0, 5},
                                              {200, 1, 2},
                                              {200, 3, 100},
                                              {8, 2, 256},
                                              {33, 3, 513},
                                              {1000, 5, 4097},
                                              {1, 40, 1000},
                                              {100, 4, 40000},
                                              {8, 1, 128256},
                                              {3, 2, 131071},
                                              {2, 1, 131072},
                                              {2, 2, 131073},
                                              {3, 2, 151936},
                                              {40, 8, 151936},
                                              {2, 6, 262144},
                                              {1, 1, 300000}}) {
    for (const double temperature : {1.0, 0.6, 0.01, 0.0}) {
      const auto chain = test::random_chain<TestType>(samples, gamma, vocab, temperature);
      INFO("R " << samples << " gamma " << gamma << " V " << vocab << " T " << temperature);
      const Outcome cpu = chain.on_cpu(Spec::kBaseline);
      const Outcome baseline = chain.on_gpu(*ops, Spec::kBaseline);
      const Outcome exact = chain.on_gpu(*ops, Spec::kExact);
      CHECK(near(baseline.tau, cpu.tau));
      CHECK(differing(cpu, baseline) <= 1 + samples / 100);
      CHECK(exact == baseline);
      if (temperature > 0.0) {
        const Outcome want = chain.on_cpu(Spec::kSigmoid);
        const Outcome got = chain.on_gpu(*ops, Spec::kSigmoid);
        CHECK(near(got.tau, want.tau));
        CHECK(differing(want, got) <= 1 + samples / 100);
      }
    }
  }
}

TEST_CASE("CUDA spec_sample redraws from a residual that f32 cannot hold", "[spec_sample]") {
  const auto ops = test::try_gpu_ops<float>();
  if (!ops) {
    return;
  }
  for (const double apart : {1e-2, 1e-4, 1e-6, 0.0}) {
    for (const std::int64_t vocab : {7, 3000, 40000}) {
      auto c = test::random_chain<float>(64, 2, vocab, 1.0, 40);
      const auto noise = test::random_tensor<float>(2 * vocab, 43, apart);
      for (std::size_t i = 0; i < noise.size(); ++i) {
        c.draft[i] = c.target[i] + noise[i];
      }
      for (std::size_t i = 0; i < c.uniforms.size(); ++i) {
        c.uniforms[i] = i % 3 == 2 ? c.uniforms[i] : kAlmostOne;
      }
      const Outcome cpu = c.on_cpu(Spec::kBaseline);
      const Outcome exact = c.on_gpu(*ops, Spec::kExact);
      INFO("apart " << apart << " V " << vocab);
      CHECK(exact == c.on_gpu(*ops, Spec::kBaseline));
      CHECK(near(exact.tau, cpu.tau));
      CHECK(differing(cpu, exact) <= (apart == 1e-6 ? 16 : 2));
    }
  }
}

TEST_CASE("CUDA spec_sample keeps the rules at zero probabilities", "[spec_sample][race]") {
  const auto ops = test::try_gpu_ops<float>();
  if (!ops) {
    return;
  }
  // Position 0: q = 0, p > 0; position 1: p = 0 at r = 0, then p = q leaves no residual.
  const Chain<float> c{1,
                       2,
                       3,
                       1.0,
                       {0, 0, 0, 0, 0, kNever, 0, 0, 0},
                       {0, 0, kNever, 0, 0, kNever},
                       {2, 2},
                       {0.999F, 0.0F, 0.4F}};
  for (const Spec variant : {Spec::kBaseline, Spec::kExact, Spec::kSigmoid}) {
    const Outcome o = c.on_gpu(*ops, variant);
    CHECK(o.tau == std::vector<float>{1.0F, 0.0F});
    CHECK(o.accepted == Ints{1});
    CHECK(o.tokens == Ints{2, 0, -1});
  }
  // tau underflows f32, but the target can say the token: r = 0 accepts.
  const Chain<float> tiny{1, 1, 2, 1.0, {0, -300, 0, 0}, {0, 0}, {1}, {0.0F, 0.0F}};
  for (const Spec variant : {Spec::kBaseline, Spec::kExact}) {
    CHECK(tiny.on_gpu(*ops, variant).tokens == tiny.on_cpu(variant).tokens);
    CHECK(tiny.on_gpu(*ops, variant).accepted == Ints{1});
  }
}

// For checkers that slow kernels a thousandfold: clusters of four blocks, votes, a slow draw.
TEST_CASE("CUDA samplers decide alike on one small vocabulary of several blocks",
          "[spec_sample][tree_sample][race]") {
  const auto ops = test::try_gpu_ops<float>();
  if (!ops) {
    return;
  }
  const auto chain = test::random_chain<float>(2, 2, 2000, 1.0);
  CHECK(chain.on_gpu(*ops, Spec::kExact) == chain.on_gpu(*ops, Spec::kBaseline));
  const Outcome sigmoid = chain.on_gpu(*ops, Spec::kSigmoid);
  CHECK(near(sigmoid.tau, chain.on_cpu(Spec::kSigmoid).tau));
  auto close = chain;
  const auto noise = test::random_tensor<float>(2 * close.vocab, 43, 1e-2);
  for (std::size_t i = 0; i < noise.size(); ++i) {
    close.draft[i] = close.target[i] + noise[i];
  }
  close.uniforms.assign(close.uniforms.size(), kAlmostOne);
  CHECK(close.on_gpu(*ops, Spec::kExact) == close.on_gpu(*ops, Spec::kBaseline));
  const auto tree = test::random_tree<float>(2, 9, 2000, 1.0);
  CHECK(tree.on_gpu(*ops, TreeForm::kExact) == tree.on_gpu(*ops, TreeForm::kBaseline));
}

TEST_CASE("CUDA spec_sample draws at the ends of [0, 1)", "[spec_sample]") {
  const auto ops = test::try_gpu_ops<float>();
  if (!ops) {
    return;
  }
  for (const std::int64_t vocab : {3, 512, 9000, 128256}) {
    auto c = test::random_chain<float>(2, 0, vocab, 1.0, 60);
    c.target[0] = kNever;
    c.target.back() = kNever;
    c.uniforms = {0.0F, kAlmostOne};
    for (const Spec variant : {Spec::kBaseline, Spec::kExact}) {
      const Outcome o = c.on_gpu(*ops, variant);
      CHECK(o.tokens[0] == 1);
      CHECK(c.target[static_cast<std::size_t>(o.tokens[1])] > kNever);
      CHECK(o.tokens[1] >= vocab - vocab / 500 - 2);
    }
  }
}

TEST_CASE("CUDA spec_sample's output follows the target's law and a wrong sampler's does not",
          "[spec_sample][long]") {
  const auto ops = test::try_gpu_ops<float>();
  if (!ops) {
    return;
  }
  const std::int64_t samples = 1 << 20;
  for (const std::int64_t vocab : {24, 1500}) {
    Chain<float> c{samples,
                   1,
                   vocab,
                   1.0,
                   test::random_tensor<float>(2 * vocab, 4, 1.5),
                   test::random_tensor<float>(vocab, 5, 1.5),
                   {},
                   test::random_uniforms<float>(samples * 2, 6)};
    std::vector<double> sums = softmax_row(c.draft.data(), vocab, 1.0);
    for (std::size_t x = 1; x < sums.size(); ++x) {
      sums[x] += sums[x - 1];
    }
    for (const float u : test::random_uniforms<float>(samples, 7)) {
      c.drafted.push_back(static_cast<std::int32_t>(
          std::upper_bound(sums.begin(), sums.end() - 1, static_cast<double>(u)) - sums.begin()));
    }
    const std::vector<double> law = softmax_row(c.target.data(), vocab, 1.0);
    const auto deviate = [&](const Outcome& o) {
      std::vector<std::int64_t> counts(static_cast<std::size_t>(vocab));
      for (std::size_t i = 0; i < static_cast<std::size_t>(samples); ++i) {
        ++counts[static_cast<std::size_t>(o.tokens[2 * i])];
      }
      return test::chi_square_deviate(counts, law);
    };
    const Outcome exact = c.on_gpu(*ops, Spec::kExact);
    INFO("V " << vocab);
    CHECK(deviate(exact) < 4.0);
    CHECK(exact == c.on_gpu(*ops, Spec::kBaseline));
    CHECK(deviate(c.on_gpu(*ops, Spec::kSigmoid)) > 20.0);  // lossy, and the test can tell
    // Wrong on purpose: the drafts are not samples of the law that they are tested against.
    Chain<float> wrong = c;
    for (float& z : wrong.draft) {
      z *= 0.9F;
    }
    CHECK(deviate(wrong.on_gpu(*ops, Spec::kExact)) > 20.0);
    // Direct draws from the target by the same kernel, as the yardstick.
    Chain<float> direct = c;
    direct.gamma = 0;
    direct.drafted.clear();
    direct.uniforms.resize(static_cast<std::size_t>(samples));
    std::vector<std::int64_t> counts(static_cast<std::size_t>(vocab));
    for (const std::int32_t token : direct.on_gpu(*ops, Spec::kExact).tokens) {
      ++counts[static_cast<std::size_t>(token)];
    }
    CHECK(test::chi_square_deviate(counts, law) < 4.0);
  }
}

TEMPLATE_TEST_CASE(
    "CUDA tree_sample decides as the CPU does, and exact as the baseline bit for bit",
    "[tree_sample]", float, Bf16, F16) {
  const auto ops = test::try_gpu_ops<test::EngineOf<TestType>>();
  if (!ops) {
    return;
  }
  struct Shape {
    std::int64_t samples, nodes, vocab;
    std::int32_t width;
  };
  for (const auto& [samples, nodes, vocab, width] : {Shape{100, 1, 3, 3},
                                                     {100, 7, 6, 3},
                                                     {100, 33, 50, 3},
                                                     {20, 64, 4097, 3},
                                                     {50, 20, 20000, 8},
                                                     {1, 128, 5000, 127},
                                                     {2, 128, 700, 1},
                                                     {2, 129, 700, 4},
                                                     {4, 16, 128256, 4},
                                                     {1, 5, 131073, 2},
                                                     {2, 9, 151936, 3},
                                                     {1, 7, 262144, 2}}) {
    for (const double temperature : {1.0, 0.5, 0.01, 0.0}) {
      const auto tree = test::random_tree<TestType>(samples, nodes, vocab, temperature, width);
      INFO("R " << samples << " N " << nodes << " V " << vocab << " T " << temperature);
      const Outcome cpu = tree.on_cpu();
      const Outcome baseline = tree.on_gpu(*ops, TreeForm::kBaseline);
      CHECK(near(baseline.tau, cpu.tau));
      CHECK(differing(cpu, baseline) <= 2);
      CHECK(tree.on_gpu(*ops, TreeForm::kExact) == baseline);
    }
  }
}

TEST_CASE("CUDA tree_sample takes what is left far below the rejected tokens",
          "[tree_sample][race]") {
  const auto ops = test::try_gpu_ops<float>();
  if (!ops) {
    return;
  }
  // After token 0: e^-300 and e^-301; then e^-301 alone; then nothing.
  Tree<float> t{1,
                3,
                1.0,
                {0, -300, -301, 0, 0, 0, 0, 0, 0, 0, 0, 0},
                {-1, 0, 0, 0},
                {0, 0, 1, 2},
                {kAlmostOne, kAlmostOne, kAlmostOne, 0.5F}};
  for (const TreeForm form : {TreeForm::kBaseline, TreeForm::kExact}) {
    const Outcome o = t.on_gpu(*ops, form);
    CHECK(o.tau[1] == 1.0F);
    CHECK(o.tau[2] == Approx(1.0 / (1.0 + std::exp(-1.0))));
    CHECK(o.tau[3] == 1.0F);
    CHECK(o.tokens == t.on_cpu().tokens);
  }
  t.logits[1] = t.logits[2] = kNever;  // rejected at r > tau is impossible: a repeat instead
  t.token = {0, 1, 2, 1};
  for (const TreeForm form : {TreeForm::kBaseline, TreeForm::kExact}) {
    const Outcome o = t.on_gpu(*ops, form);
    CHECK(o.tau == std::vector<float>{1, 0, 0, 0});
    CHECK(o.tokens == Ints{0, -1, -1, -1});
  }
}

TEST_CASE("CUDA tree_sample's output follows the target's law and a wrong sampler's does not",
          "[tree_sample][long]") {
  const auto ops = test::try_gpu_ops<float>();
  if (!ops) {
    return;
  }
  const std::int64_t samples = 1 << 20, vocab = 24, nodes = 4;
  Tree<float> t{samples,
                vocab,
                1.0,
                test::random_tensor<float>(nodes * vocab, 70, 1.5),
                {-1, 0, 0, 0},
                {},
                test::random_uniforms<float>(samples * nodes, 71)};
  for (std::int64_t r = 0; r < samples; ++r) {
    t.token.insert(t.token.end(), {0, 3, 11, 17});
  }
  const std::vector<double> law = softmax_row(t.logits.data(), vocab, 1.0);
  const auto deviate = [&] {
    std::vector<std::int64_t> counts(24);
    const Outcome o = t.on_gpu(*ops, TreeForm::kExact);
    for (std::size_t r = 0; r < static_cast<std::size_t>(samples); ++r) {
      ++counts[static_cast<std::size_t>(o.tokens[4 * r])];
    }
    return test::chi_square_deviate(counts, law);
  };
  CHECK(deviate() < 4.0);
  // Wrong on purpose: the draw's number is the one that rejected the first child.
  for (std::size_t r = 0; r < static_cast<std::size_t>(samples); ++r) {
    t.uniforms[4 * r + 3] = t.uniforms[4 * r];
  }
  CHECK(deviate() > 20.0);
}

}  // namespace versieve::kernels
