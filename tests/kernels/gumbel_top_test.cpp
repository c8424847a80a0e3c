// gumbel_top on the CPU: a draw from the softmax, lists without replacement, noise that two models
// share.
#include <catch2/catch.hpp>
#include <numeric>

#include "kernels/common/counter_random.h"
#include "kernels/cpu.h"
#include "kernels/spec_sample/categorical.h"
#include "tests/kernels/chi_square.h"
#include "tests/kernels/random_tensor.h"

namespace versieve::kernels {
namespace {

using Ints = std::vector<std::int32_t>;

struct Lists {
  Ints index;                          // [rows, k]
  std::vector<float> log_probability;  // [rows, k]
};

// The lists of rows of `vocab` logits, drawn for positions 0, 1, …
template <class T>
Lists drawn(const std::vector<T>& logits, std::int64_t vocab, std::int64_t k, double temperature,
            std::uint64_t seed, const Ints& token = {}, const Ints& positions = {}) {
  const std::int64_t rows = static_cast<std::int64_t>(logits.size()) / vocab;
  Ints position(static_cast<std::size_t>(rows));
  std::iota(position.begin(), position.end(), 0);
  std::vector<T> perturbed(logits.size());
  Lists lists{Ints(static_cast<std::size_t>(rows * k)),
              std::vector<float>(static_cast<std::size_t>(rows * k))};
  gumbel_top_cpu(
      GumbelTopParams<T>{.rows = rows,
                         .vocab = vocab,
                         .k = k,
                         .temperature = temperature,
                         .seed = seed,
                         .logits = logits.data(),
                         .position = positions.empty() ? position.data() : positions.data(),
                         .token = token.empty() ? nullptr : token.data(),
                         .perturbed = perturbed.data(),
                         .index = lists.index.data(),
                         .log_probability = lists.log_probability.data()},
      1);
  return lists;
}

// The same row `rows` times.
template <class T>
std::vector<T> repeated(const std::vector<T>& row, std::int64_t rows) {
  std::vector<T> all;
  for (std::int64_t i = 0; i < rows; ++i) {
    all.insert(all.end(), row.begin(), row.end());
  }
  return all;
}

std::vector<std::int64_t> counted(const Ints& index, std::size_t k, std::size_t place,
                                  std::int64_t vocab) {
  std::vector<std::int64_t> counts(static_cast<std::size_t>(vocab), 0);
  for (std::size_t row = 0; row * k < index.size(); ++row) {
    ++counts[static_cast<std::size_t>(index[row * k + place])];
  }
  return counts;
}

}  // namespace

TEMPLATE_TEST_CASE("the first of a list is a draw from the softmax at the temperature", "", double,
                   float) {
  constexpr std::int64_t kVocab = 50, kDraws = 200000;
  const auto row = test::random_tensor<TestType>(kVocab, 3, 2.0);
  for (const double temperature : {0.3, 0.7, 1.0, 2.0}) {
    const Ints index = drawn(repeated(row, kDraws), kVocab, 1, temperature, 11).index;
    const std::vector<std::int64_t> counts = counted(index, 1, 0, kVocab);
    CAPTURE(temperature);
    CHECK(test::chi_square_deviate(counts, softmax_row(row.data(), kVocab, temperature)) < 4.0);
    // Can fail: a temperature 4 % off.
    CHECK(test::chi_square_deviate(counts, softmax_row(row.data(), kVocab, temperature * 1.04)) >
          6.0);
  }
}

TEST_CASE("the second of a list is a draw from what the first left") {
  constexpr std::int64_t kVocab = 6, kDraws = 100000;
  const std::vector<double> row = test::random_tensor<double>(kVocab, 4, 1.5);
  const std::vector<double> law = softmax_row(row.data(), kVocab, 1.0);
  std::vector<double> second(kVocab, 0.0);
  for (std::size_t a = 0; a < law.size(); ++a) {
    for (std::size_t b = 0; b < law.size(); ++b) {
      second[b] += a == b ? 0.0 : law[a] * law[b] / (1.0 - law[a]);
    }
  }
  const Ints index = drawn(repeated(row, kDraws), kVocab, 2, 1.0, 12).index;
  const std::vector<std::int64_t> counts = counted(index, 2, 1, kVocab);
  CHECK(test::chi_square_deviate(counts, second) < 4.0);
  CHECK(test::chi_square_deviate(counts, law) > 6.0);
}

TEST_CASE("models share the noise of a token and a place, whatever index it has in either") {
  constexpr std::int64_t kVocab = 64, kRows = 500;
  const std::vector<double> target = test::random_tensor<double>(kRows * kVocab, 5, 2.0);
  // The same logits of every second token.
  Ints token;
  std::vector<double> draft;
  for (std::int32_t i = 0; i < kVocab; i += 2) {
    token.push_back(i);
  }
  for (std::int64_t row = 0; row < kRows; ++row) {
    for (const std::int32_t i : token) {
      draft.push_back(target[static_cast<std::size_t>(row * kVocab + i)]);
    }
  }
  const std::int64_t share = static_cast<std::int64_t>(token.size());
  const Ints wanted = drawn(target, kVocab, 1, 0.8, 21).index;
  const Ints guessed = drawn(draft, share, 1, 0.8, 21, token).index;
  const Ints apart = drawn(draft, share, 1, 0.8, 22, token).index;
  int drafted = 0, matched = 0, by_chance = 0;
  for (std::size_t row = 0; row < wanted.size(); ++row) {
    if (wanted[row] % 2 == 0) {
      ++drafted;
      matched += token[static_cast<std::size_t>(guessed[row])] == wanted[row] ? 1 : 0;
      by_chance += token[static_cast<std::size_t>(apart[row])] == wanted[row] ? 1 : 0;
    }
  }
  CHECK(drafted > 100);
  CHECK(matched == drafted);
  CHECK(by_chance < drafted * 3 / 4);
}

TEST_CASE("a row's draw depends on its place, the seed and nothing beside it") {
  constexpr std::int64_t kVocab = 1000;
  const std::vector<float> rows = test::random_tensor<float>(3 * kVocab, 6, 1.0);
  const Lists all = drawn(rows, kVocab, 8, 1.0, 31, {}, {70, 71, 70});
  const Lists last =
      drawn(std::vector<float>(rows.end() - kVocab, rows.end()), kVocab, 8, 1.0, 31, {}, {70});
  CHECK(Ints(all.index.end() - 8, all.index.end()) == last.index);
  CHECK(std::vector<float>(all.log_probability.end() - 8, all.log_probability.end()) ==
        last.log_probability);
  const std::vector<float> one(rows.begin(), rows.begin() + kVocab);
  CHECK(drawn(one, kVocab, 8, 1.0, 31, {}, {70}).index !=
        drawn(one, kVocab, 8, 1.0, 31, {}, {71}).index);
  CHECK(drawn(one, kVocab, 8, 1.0, 31).index != drawn(one, kVocab, 8, 1.0, 32).index);
}

TEST_CASE("log-probabilities are those of the perturbed row, and what cannot be is never drawn") {
  constexpr std::int64_t kVocab = 40;
  std::vector<double> row = test::random_tensor<double>(kVocab, 7, 1.0);
  row[3] = -std::numeric_limits<double>::infinity();
  const Lists lists = drawn(row, kVocab, kVocab, 0.5, 41);
  double sum = 0.0;
  for (const float p : lists.log_probability) {
    sum += std::exp(static_cast<double>(p));
  }
  CHECK(sum == Approx(1.0).epsilon(1e-6));
  CHECK(lists.index.back() == 3);
}

TEST_CASE("Gumbel numbers of all bits are finite, rise with 1 - v and agree in f32") {
  for (const std::uint32_t bits : {0U, 1U, 12345U, 0x7FFFFFFFU, 0xFFFFFF00U, 0xFFFFFFFEU, ~0U}) {
    CAPTURE(bits);
    CHECK(std::isfinite(gumbel_of<float>(bits)));
    CHECK(gumbel_of<float>(bits) == Approx(gumbel_of<double>(bits)).epsilon(1e-6).margin(1e-6));
  }
  CHECK(gumbel_of<double>(0) > 22.0);
  CHECK(gumbel_of<double>(~0U) < -3.0);
  CHECK(gumbel_of<double>(1000) > gumbel_of<double>(2000));
}

}  // namespace versieve::kernels
