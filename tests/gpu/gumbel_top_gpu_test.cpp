// gumbel_top on CUDA against the CPU form in double: the noise bit for bit alike but for f32's
// logarithms, the draws the same wherever two tokens are not as good as even; a row's bits depend
// neither on the rows beside it nor on how many there are; the law of the draws.
#include <catch2/catch.hpp>
#include <numeric>

#include "kernels/cpu.h"
#include "kernels/spec_sample/categorical.h"
#include "tests/gpu/gpu_ops.h"
#include "tests/kernels/chi_square.h"

namespace versieve::kernels {
namespace {

using Ints = std::vector<std::int32_t>;

struct Lists {
  Ints index;
  std::vector<float> log_probability, perturbed;
};

struct Case {
  std::int64_t rows, vocab, k;
  double temperature;
  bool own_tokens;
};

Ints token_map(std::int64_t vocab) {
  Ints token(static_cast<std::size_t>(vocab));
  for (std::size_t i = 0; i < token.size(); ++i) {
    token[i] = static_cast<std::int32_t>(3 * i + 1);
  }
  return token;
}

Ints positions(std::int64_t rows) {
  Ints position(static_cast<std::size_t>(rows));
  std::iota(position.begin(), position.end(), 900);
  return position;
}

template <class T>
Lists on_gpu(Ops<T>& ops, const std::vector<T>& logits, const Case& c, std::int64_t first,
             std::int64_t rows) {
  const OpsBuffer<T> in(ops, logits);
  const OpsBuffer<T, std::int32_t> token(ops, token_map(c.vocab));
  const OpsBuffer<T, std::int32_t> position(ops, positions(c.rows));
  OpsBuffer<T, std::int32_t> index(ops, Ints(static_cast<std::size_t>(rows * c.k), -5));
  OpsBuffer<T, float> score(ops, std::vector<float>(static_cast<std::size_t>(rows * c.k), 9.0F));
  OpsBuffer<T, float> perturbed(ops, rows * c.vocab);
  ops.gumbel_top({.rows = rows,
                  .vocab = c.vocab,
                  .k = c.k,
                  .temperature = c.temperature,
                  .seed = 77,
                  .logits = in.data() + first * c.vocab,
                  .position = position.data() + first,
                  .token = c.own_tokens ? token.data() : nullptr,
                  .perturbed = perturbed.data(),
                  .index = index.data(),
                  .log_probability = score.data()});
  return {index.read(), score.read(), perturbed.read()};
}

template <class T>
std::vector<double> on_cpu(const std::vector<T>& logits, const Case& c) {
  const std::vector<double> wide = test::widen_all(logits);
  const Ints token = token_map(c.vocab), position = positions(c.rows);
  std::vector<double> perturbed(wide.size());
  Ints index(static_cast<std::size_t>(c.rows));
  gumbel_top_cpu(GumbelTopParams<double>{.rows = c.rows,
                                         .vocab = c.vocab,
                                         .temperature = c.temperature,
                                         .seed = 77,
                                         .logits = wide.data(),
                                         .position = position.data(),
                                         .token = c.own_tokens ? token.data() : nullptr,
                                         .perturbed = perturbed.data(),
                                         .index = index.data()},
                 8);
  return perturbed;
}

}  // namespace

TEMPLATE_TEST_CASE("CUDA gumbel_top perturbs and ranks as the CPU does", "[gumbel]", float, Bf16) {
  const auto ops = test::try_gpu_ops<TestType>();
  if (!ops) {
    return;
  }
  for (const Case& c :
       {Case{1, 1, 1, 1.0, false}, Case{3, 40, 5, 0.7, true}, Case{64, 1025, 8, 0.7, false},
        Case{48, 49152, 1, 0.7, false}, Case{8, 16384, 8, 1.3, true},
        Case{2, 128256, 1, 0.01, false}, Case{5, 128257, 4, 1.0, false}}) {
    CAPTURE(c.rows, c.vocab, c.k, c.temperature);
    const auto logits = test::random_elements<TestType>(c.rows * c.vocab, 51, 3.0);
    const Lists got = on_gpu(*ops, logits, c, 0, c.rows);
    const std::vector<double> want = on_cpu(logits, c);
    double furthest = 0.0;
    for (std::size_t i = 0; i < want.size(); ++i) {
      const double error = std::abs(static_cast<double>(got.perturbed[i]) - want[i]);
      furthest = std::max(furthest, error / std::max(1.0, std::abs(want[i])));
    }
    CHECK(furthest < 2e-6);
    for (std::int64_t row = 0; row < c.rows; ++row) {
      const auto begin = want.begin() + row * c.vocab;
      std::vector<double> sorted(begin, begin + c.vocab);
      std::sort(sorted.begin(), sorted.end(), std::greater<>());
      for (std::int64_t j = 0; j < c.k; ++j) {
        const std::size_t at = static_cast<std::size_t>(row * c.k + j);
        const double chosen = want[static_cast<std::size_t>(row * c.vocab + got.index[at])];
        REQUIRE(std::abs(chosen - sorted[static_cast<std::size_t>(j)]) <
                1e-4 * std::max(1.0, std::abs(chosen)));
      }
    }
    const std::int64_t first = c.rows / 2, rows = c.rows - first;
    const Lists part = on_gpu(*ops, logits, c, first, rows);
    CHECK(part.index == Ints(got.index.begin() + first * c.k, got.index.end()));
    CHECK(part.log_probability ==
          std::vector<float>(got.log_probability.begin() + first * c.k, got.log_probability.end()));
    CHECK(part.perturbed ==
          std::vector<float>(got.perturbed.begin() + first * c.vocab, got.perturbed.end()));
  }
}

TEST_CASE("CUDA gumbel_top draws from the softmax", "[gumbel]") {
  const auto ops = test::try_gpu_ops<float>();
  if (!ops) {
    return;
  }
  constexpr std::int64_t kVocab = 50, kDraws = 60000;
  const std::vector<float> row = test::random_tensor<float>(kVocab, 3, 2.0);
  std::vector<float> rows;
  for (std::int64_t i = 0; i < kDraws; ++i) {
    rows.insert(rows.end(), row.begin(), row.end());
  }
  const Lists got = on_gpu(*ops, rows, {kDraws, kVocab, 1, 0.7, false}, 0, kDraws);
  std::vector<std::int64_t> counts(kVocab, 0);
  for (const std::int32_t index : got.index) {
    ++counts[static_cast<std::size_t>(index)];
  }
  CHECK(test::chi_square_deviate(counts, softmax_row(row.data(), kVocab, 0.7)) < 4.0);
  CHECK(test::chi_square_deviate(counts, softmax_row(row.data(), kVocab, 0.75)) > 6.0);
}

}  // namespace versieve::kernels
