// Speed of top_logits where engines call it: each draft level (k of 4 to 8 with log-probabilities)
// and verification (k = 1). Run on request: test_gpu_ops "[top_logits][bench]". Medians over
// replays of a graph of fifty launches, each behind the one before; the logits lie in the
// second-level cache, as they do behind the layer that writes them.
#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdio>

#include "tests/gpu/gpu_ops.h"

namespace versieve::kernels {
namespace {

struct Case {
  std::int64_t rows, vocab, k;
  bool scores;
  double most_us;
};

double median_us(Ops<Bf16>& ops, const std::function<void()>& launch) {
  constexpr int kLaunches = 50;
  constexpr std::size_t kReplays = 21;
  launch();
  const std::unique_ptr<Recording> graph = ops.record([&] {
    for (int i = 0; i < kLaunches; ++i) {
      launch();
    }
  });
  graph->launch();
  ops.synchronize();
  std::vector<double> us;
  for (std::size_t i = 0; i < kReplays; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    graph->launch();
    ops.synchronize();
    const std::chrono::duration<double, std::micro> taken =
        std::chrono::steady_clock::now() - begin;
    us.push_back(taken.count() / kLaunches);
  }
  std::sort(us.begin(), us.end());
  return us[kReplays / 2];
}

}  // namespace

TEST_CASE("CUDA top_logits of large vocabularies takes microseconds", "[.][top_logits][bench]") {
  const auto ops = test::try_gpu_ops<Bf16>();
  if (!ops) {
    return;
  }
  constexpr std::int64_t kVocab = 128256;
  constexpr std::int64_t kSmallVocab = 32000;
  constexpr std::int64_t kRows = 200;
  const OpsBuffer<Bf16> logits(*ops, test::random_elements<Bf16>(kRows * kVocab, 5, 2.0));
  const OpsBuffer<Bf16, std::int32_t> index(*ops, kRows * 64);
  const OpsBuffer<Bf16, float> log_probability(*ops, kRows * 64);
  std::printf("%5s %7s %3s %6s %9s\n", "rows", "V", "k", "log p", "us");
  for (const Case& c : {Case{1, kVocab, 1, false, 6},
                        {4, kVocab, 1, false, 6},
                        {16, kVocab, 1, false, 6},
                        {64, kVocab, 1, false, 8},
                        {128, kVocab, 1, false, 13},
                        {200, kVocab, 1, false, 20},
                        {1, kVocab, 4, true, 6},
                        {1, kVocab, 8, true, 6},
                        {8, kVocab, 4, true, 7},
                        {8, kVocab, 8, true, 7},
                        {16, kVocab, 8, true, 9},
                        {1, kVocab, 64, true, 15},
                        {64, kVocab, 1, true, 15},
                        {64, kVocab, 8, true, 20},
                        {1, kSmallVocab, 8, true, 6},
                        {8, kSmallVocab, 8, true, 6},
                        {64, kSmallVocab, 1, false, 6},
                        {128, kSmallVocab, 1, false, 6}}) {
    const double us = median_us(*ops, [&] {
      ops->top_logits({.rows = c.rows,
                       .vocab = c.vocab,
                       .k = c.k,
                       .logits = logits.data(),
                       .index = index.data(),
                       .log_probability = c.scores ? log_probability.data() : nullptr});
    });
    std::printf("%5lld %7lld %3lld %6s %9.2f\n", static_cast<long long>(c.rows),
                static_cast<long long>(c.vocab), static_cast<long long>(c.k),
                c.scores ? "yes" : "no", us);
    CHECK(us < 2.0 * c.most_us);
  }
}

}  // namespace versieve::kernels
