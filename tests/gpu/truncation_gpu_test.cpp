// What is left of a row after top-k, top-p and min-p on CUDA: chains and trees decide as the CPU
// does with the same cuts, every form alike, and the law of the output is the target's cut one.
#include <catch2/catch.hpp>
#include <limits>

#include "kernels/spec_sample/categorical.h"
#include "tests/gpu/sampler_run.h"
#include "tests/kernels/chi_square.h"

namespace versieve::kernels {
namespace {

using test::Chain;
using test::differing;
using test::near;
using test::Outcome;
using Spec = SpecSampleVariant;
using TreeForm = TreeSampleVariant;

constexpr float kNever = -std::numeric_limits<float>::infinity();

const Truncation kCuts[] = {{.top_k = 1},
                            {.top_k = 50},
                            {.top_p = 0.9},
                            {.min_p = 0.05},
                            {.top_k = 40, .top_p = 0.95, .min_p = 0.01},
                            {.top_p = 0.999},
                            {.top_k = 1000, .top_p = 0.5}};

std::string text_of(const Truncation& t) {
  return "k " + std::to_string(t.top_k) + " p " + std::to_string(t.top_p) + " min " +
         std::to_string(t.min_p);
}

// Every token of a row of five drafted once by a uniform draft: tau is its share of what is kept.
void check_row(Ops<float>& ops, const std::vector<float>& row, const Truncation& cuts) {
  Chain<float> c{5, 1, 5, 1.0, row, {0, 0, 0, 0, 0}, {0, 1, 2, 3, 4}, {}};
  c.target.insert(c.target.end(), row.begin(), row.end());
  c.uniforms.assign(10, 0.5F);
  c.truncation = cuts;
  INFO(text_of(cuts) << " row from " << row[0]);
  const Outcome cpu = c.on_cpu(Spec::kExact);
  const Outcome got = c.on_gpu(ops, Spec::kExact);
  CHECK(near(got.tau, cpu.tau));
  CHECK(got.accepted == cpu.accepted);
  CHECK(got == c.on_gpu(ops, Spec::kBaseline));
}

}  // namespace

TEMPLATE_TEST_CASE("CUDA spec_sample cuts rows as the CPU does, every form alike",
                   "[spec_sample][truncation]", float, Bf16, F16) {
  const auto ops = test::try_gpu_ops<test::EngineOf<TestType>>();
  if (!ops) {
    return;
  }
  struct Shape {
    std::int64_t batch, samples, gamma, vocab;
  };
  for (const auto& [batch, samples, gamma, vocab] : {Shape{1, 200, 2, 30},
                                                     {3, 40, 2, 1003},
                                                     {1, 20, 3, 32000},
                                                     {1, 4, 2, 128256},
                                                     {2, 2, 7, 128255},
                                                     {1, 4, 2, 151936},
                                                     {1, 1, 1, 262144},
                                                     {1, 1, 1, 300001}}) {
    for (const Truncation& cuts : kCuts) {
      auto chain = test::random_chain<TestType>(samples, gamma, vocab, 0.8, 11, batch);
      chain.truncation = cuts;
      INFO("B " << batch << " R " << samples << " gamma " << gamma << " V " << vocab << " "
                << text_of(cuts));
      const Outcome cpu = chain.on_cpu(Spec::kExact);
      const Outcome exact = chain.on_gpu(*ops, Spec::kExact);
      CHECK(near(exact.tau, cpu.tau));
      CHECK(differing(cpu, exact) <= 1 + samples / 100);
      CHECK(exact == chain.on_gpu(*ops, Spec::kBaseline));
      const Outcome want = chain.on_cpu(Spec::kSigmoid);
      const Outcome got = chain.on_gpu(*ops, Spec::kSigmoid);
      CHECK(near(got.tau, want.tau));
      CHECK(differing(want, got) <= 1 + samples / 100);
    }
  }
}

TEMPLATE_TEST_CASE("CUDA tree_sample cuts rows as the CPU does, both forms alike",
                   "[tree_sample][truncation]", float, Bf16, F16) {
  const auto ops = test::try_gpu_ops<test::EngineOf<TestType>>();
  if (!ops) {
    return;
  }
  struct Shape {
    std::int64_t samples, nodes, vocab;
    std::int32_t width;
  };
  for (const auto& [samples, nodes, vocab, width] : {Shape{100, 7, 12, 3},
                                                     {40, 33, 1001, 4},
                                                     {2, 129, 700, 4},
                                                     {4, 16, 128256, 4},
                                                     {2, 6, 200000, 2}}) {
    for (const Truncation& cuts : kCuts) {
      auto tree = test::random_tree<TestType>(samples, nodes, vocab, 0.8, width);
      tree.truncation = cuts;
      INFO("R " << samples << " N " << nodes << " V " << vocab << " " << text_of(cuts));
      const Outcome cpu = tree.on_cpu();
      const Outcome exact = tree.on_gpu(*ops, TreeForm::kExact);
      CHECK(near(exact.tau, cpu.tau));
      CHECK(differing(cpu, exact) <= 2);
      CHECK(exact == tree.on_gpu(*ops, TreeForm::kBaseline));
    }
  }
}

TEST_CASE("CUDA cuts a row at equal logits, at -infinity and across the whole range of f32",
          "[spec_sample][truncation]") {
  const auto ops = test::try_gpu_ops<float>();
  if (!ops) {
    return;
  }
  const float least = std::numeric_limits<float>::lowest();
  const float most = std::numeric_limits<float>::max();
  const std::vector<std::vector<float>> rows = {{2, 2, 2, 2, 2},
                                                {3, kNever, 3, 1, kNever},
                                                {most, least, 0, 1e-30F, -1e-30F},
                                                {1e30F, 1e20F, 1e10F, 1, 1e-10F},
                                                {0, -1e-38F, -2e-38F, -3e-38F, 1e-40F}};
  for (const std::vector<float>& row : rows) {
    for (const std::int64_t k : {1, 2, 3, 4}) {
      for (const double p : {0.3, 1.0}) {
        check_row(*ops, row, {.top_k = k, .top_p = p});
      }
    }
  }
}

// For checkers that slow kernels a thousandfold.
TEST_CASE("CUDA cuts a row by all three rules", "[spec_sample][truncation][race]") {
  const auto ops = test::try_gpu_ops<float>();
  if (ops) {
    check_row(*ops, {3, 2.5F, 3, 1, kNever}, {.top_k = 4, .top_p = 0.9, .min_p = 0.2});
  }
}

TEST_CASE("CUDA spec_sample's output follows the target's cut law and a wrong sampler's does not",
          "[spec_sample][truncation][long]") {
  const auto ops = test::try_gpu_ops<float>();
  if (!ops) {
    return;
  }
  const std::int64_t samples = 1 << 19, vocab = 1500;
  const Truncation cuts{.top_k = 400, .top_p = 0.9, .min_p = 0.01};
  const double temperature = 0.7;
  Chain<float> c{samples,
                 1,
                 vocab,
                 temperature,
                 test::random_tensor<float>(2 * vocab, 4, 1.5),
                 test::random_tensor<float>(vocab, 5, 1.5),
                 {},
                 test::random_uniforms<float>(samples * 2, 6)};
  c.truncation = cuts;
  const auto drafted_from = [&](const Truncation& of) {
    std::vector<double> sums = softmax_row(c.draft.data(), vocab, temperature, of);
    for (std::size_t x = 1; x < sums.size(); ++x) {
      sums[x] += sums[x - 1];
    }
    test::Ints drafted;
    for (const float u : test::random_uniforms<float>(samples, 7)) {
      drafted.push_back(static_cast<std::int32_t>(
          std::upper_bound(sums.begin(), sums.end() - 1, static_cast<double>(u)) - sums.begin()));
    }
    return drafted;
  };
  const auto deviate = [&](const Chain<float>& chain, const std::vector<double>& law) {
    const Outcome o = chain.on_gpu(*ops, Spec::kExact);
    std::vector<std::int64_t> counts(static_cast<std::size_t>(vocab));
    for (std::size_t i = 0; i < static_cast<std::size_t>(samples); ++i) {
      ++counts[static_cast<std::size_t>(o.tokens[2 * i])];
    }
    return test::chi_square_deviate(counts, law);
  };
  const std::vector<double> law = softmax_row(c.target.data(), vocab, temperature, cuts);
  c.drafted = drafted_from(cuts);
  CHECK(deviate(c, law) < 4.0);
  CHECK(deviate(c, softmax_row(c.target.data(), vocab, temperature)) > 20.0);
  // Wrong on purpose: drafted from the whole law, tested against the cut one.
  c.drafted = drafted_from({});
  CHECK(deviate(c, law) > 20.0);
}

TEST_CASE("CUDA tree_sample's output follows the target's cut law and a wrong sampler's does not",
          "[tree_sample][truncation][long]") {
  const auto ops = test::try_gpu_ops<float>();
  if (!ops) {
    return;
  }
  const std::int64_t samples = 1 << 18, vocab = 24, nodes = 4;
  test::Tree<float> t{samples,
                      vocab,
                      0.7,
                      test::random_tensor<float>(nodes * vocab, 70, 1.5),
                      {-1, 0, 0, 0},
                      {},
                      test::random_uniforms<float>(samples * nodes, 71),
                      {.top_k = 12, .top_p = 0.9}};
  for (std::int64_t r = 0; r < samples; ++r) {
    t.token.insert(t.token.end(), {0, 3, 11, 17});
  }
  const auto deviate = [&](const std::vector<double>& law) {
    std::vector<std::int64_t> counts(24);
    const Outcome o = t.on_gpu(*ops, TreeForm::kExact);
    for (std::size_t r = 0; r < static_cast<std::size_t>(samples); ++r) {
      ++counts[static_cast<std::size_t>(o.tokens[4 * r])];
    }
    return test::chi_square_deviate(counts, law);
  };
  CHECK(deviate(softmax_row(t.logits.data(), vocab, 0.7, t.truncation)) < 4.0);
  CHECK(deviate(softmax_row(t.logits.data(), vocab, 0.7)) > 20.0);
}

}  // namespace versieve::kernels
