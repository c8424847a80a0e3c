// topk, every variant with hints of any quality, and top_logits, against std::stable_sort.
#include <algorithm>
#include <bit>
#include <catch2/catch.hpp>
#include <cstring>
#include <limits>
#include <numeric>

#include "kernels/cpu.h"
#include "kernels/topk/bins.h"
#include "kernels/topk/cut.h"
#include "kernels/topk/order_key.h"
#include "tests/kernels/random_tensor.h"

namespace versieve::kernels {
namespace {

double value_of(float score) {
  return static_cast<double>(score);
}
double value_of(double score) {
  return score;
}
double value_of(Bf16 score) {
  return static_cast<double>(to_float(score));
}

template <class T>
T element(float value) {
  return static_cast<T>(value);
}
template <>
Bf16 element<Bf16>(float value) {
  return to_bf16(value);
}

// Ranked by the rule in words: NaN below everything, -0 equal to +0, lower index first.
template <class T>
std::vector<std::int32_t> ranked(const std::vector<T>& scores) {
  std::vector<std::int32_t> order(scores.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
    const double x = value_of(scores[static_cast<std::size_t>(a)]);
    const double y = value_of(scores[static_cast<std::size_t>(b)]);
    return !std::isnan(x) && (std::isnan(y) || x > y);
  });
  return order;
}

// `hint`: [k] or empty for none.
template <class T>
void check_variant(TopkVariant variant, const std::vector<T>& scores, std::int64_t k,
                   const std::vector<std::int32_t>& hint, std::vector<std::int32_t> want) {
  std::vector<std::int32_t> indices(static_cast<std::size_t>(k), -9);
  std::vector<T> values(static_cast<std::size_t>(k), element<T>(-7.0F));
  topk_cpu(TopkParams<T>{.variant = variant,
                         .rows = 1,
                         .length = static_cast<std::int64_t>(scores.size()),
                         .k = k,
                         .scores = scores.data(),
                         .hint = hint.empty() ? nullptr : hint.data(),
                         .indices = indices.data(),
                         .values = values.data()},
           1);
  want.resize(std::min(want.size(), static_cast<std::size_t>(k)));
  std::sort(want.begin(), want.end());
  for (std::size_t j = 0; j < indices.size(); ++j) {
    if (j < want.size()) {
      REQUIRE(indices[j] == want[j]);
      const T source = scores[static_cast<std::size_t>(want[j])];
      REQUIRE(std::memcmp(&values[j], &source, sizeof(T)) == 0);
    } else {
      REQUIRE(indices[j] == -1);
      REQUIRE(value_of(values[j]) == -std::numeric_limits<double>::infinity());
    }
  }
}

// Guesses from perfect to absurd, all of k entries.
std::vector<std::vector<std::int32_t>> hints_for(const std::vector<std::int32_t>& order,
                                                 std::int64_t k, std::uint32_t seed) {
  std::mt19937 random(seed);
  const std::size_t count = static_cast<std::size_t>(k);
  const auto length = static_cast<std::int32_t>(order.size());
  std::vector<std::int32_t> exact(count, -1), worst(count, -1), half(count), wild(count);
  for (std::size_t i = 0; i < count; ++i) {
    if (i < order.size()) {
      exact[i] = order[i];
      worst[i] = order[order.size() - 1 - i];
    }
    half[i] = i % 2 == 0 ? exact[i] : static_cast<std::int32_t>(random() % order.size());
    wild[i] = static_cast<std::int32_t>(random() % (2 * order.size() + 4)) - 2 - length / 2;
  }
  return {{},
          exact,
          worst,
          half,
          wild,
          std::vector<std::int32_t>(count, order[0]),
          std::vector<std::int32_t>(count, -1),
          std::vector<std::int32_t>(count, std::numeric_limits<std::int32_t>::max()),
          std::vector<std::int32_t>(count, std::numeric_limits<std::int32_t>::min())};
}

template <class T>
void check_topk(const std::vector<T>& scores, std::int64_t k) {
  const std::vector<std::int32_t> order = ranked(scores);
  for (const TopkVariant variant : {TopkVariant::kSort, TopkVariant::kRadix}) {
    check_variant(variant, scores, k, {}, order);
  }
  for (const std::vector<std::int32_t>& hint : hints_for(order, k, 5)) {
    check_variant(TopkVariant::kGvr, scores, k, hint, order);
  }
}

template <class T>
std::vector<T> adversarial(std::int64_t count, std::uint32_t seed) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinity = std::numeric_limits<float>::infinity();
  const float denormal = std::bit_cast<float>(std::uint32_t{0x00010000});  // exact in bf16 too
  const float pool[] = {nan,      -nan,      infinity,     -infinity, 0.0F, -0.0F,
                        denormal, -denormal, 2 * denormal, 1.0F,      1.0F, -1.0F};
  std::mt19937 random(seed);
  std::vector<T> scores;
  for (std::int64_t i = 0; i < count; ++i) {
    scores.push_back(element<T>(pool[random() % std::size(pool)]));
  }
  return scores;
}

}  // namespace

TEMPLATE_TEST_CASE("topk equals a stable sort on random, equal and adversarial scores", "[topk]",
                   float, double, Bf16) {
  for (const std::int64_t count : {1, 2, 63, 64, 1000}) {
    std::vector<TestType> random;
    for (const float value : test::random_tensor<float>(count, 10)) {
      random.push_back(element<TestType>(value));
    }
    const std::vector<TestType> equal(static_cast<std::size_t>(count), element<TestType>(0.5F));
    for (const std::int64_t k : {std::int64_t{1}, count / 2 + 1, count, count + 3}) {
      check_topk(random, k);
      check_topk(equal, k);
      check_topk(adversarial<TestType>(count, 11), k);
    }
  }
}

// Scores of few values (ties), of ordinary spread, of any bits; lengths and k at random.
TEMPLATE_TEST_CASE("topk variants agree on many random rows", "[topk]", float, double, Bf16) {
  std::mt19937 random(20261121);
  for (int round = 0; round < 1500; ++round) {
    const std::size_t count = 1 + random() % (round % 16 == 0 ? 2500 : 90);
    const std::int64_t k = 1 + static_cast<std::int64_t>(random() % (count + 2));
    std::vector<TestType> scores;
    for (std::size_t i = 0; i < count; ++i) {
      const auto bits = static_cast<std::uint32_t>(random());
      scores.push_back(element<TestType>(round % 3 == 0   ? static_cast<float>(bits % 7) - 3.0F
                                         : round % 3 == 1 ? static_cast<float>(bits) * 1e-9F
                                                          : std::bit_cast<float>(bits)));
    }
    CAPTURE(round, count, k);
    check_topk(scores, k);
  }
}

TEST_CASE("gvr verifies a good hint in one count and gives way to radix on a plateau", "[topk]") {
  const std::int64_t k = 64;
  std::vector<std::uint32_t> keys;
  for (const float score : test::random_tensor<float>(20000, 3)) {
    keys.push_back(order_key<float>(std::bit_cast<std::uint32_t>(score)));
  }
  std::vector<std::int32_t> order(keys.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
    return keys[static_cast<std::size_t>(a)] > keys[static_cast<std::size_t>(b)];
  });
  const std::vector<std::int32_t> exact(order.begin(), order.begin() + k);
  const TopkCut<std::uint32_t> want = radix_cut<std::uint32_t>(keys, k);
  CHECK(want.key == keys[static_cast<std::size_t>(order[static_cast<std::size_t>(k - 1)])]);
  GvrTrace trace;
  CHECK(gvr_cut<std::uint32_t>(keys, k, exact, &trace).key == want.key);
  CHECK(trace.hints == k);
  CHECK(trace.counts == 1);
  CHECK(!trace.finished_by_radix);

  const std::vector<std::int32_t> lowest(order.end() - k, order.end());
  CHECK(gvr_cut<std::uint32_t>(keys, k, lowest, &trace).key == want.key);
  CHECK(trace.counts > 1);
  CHECK(gvr_cut<std::uint32_t>(keys, k, {}, &trace).key == want.key);
  CHECK(trace.counts == 0);
  CHECK(trace.finished_by_radix);

  std::fill(keys.begin() + 100, keys.end() - 100, 7U);  // no count falls between
  const TopkCut<std::uint32_t> plateau = gvr_cut<std::uint32_t>(keys, 10000, lowest, &trace);
  CHECK(trace.finished_by_radix);
  CHECK(plateau.key == 7U);
  CHECK(plateau.ties == 10000 - 200);
}

TEST_CASE("every key that a pass counts lies in its bin's range of keys", "[topk]") {
  std::mt19937 random(4);
  for (int round = 0; round < 2000; ++round) {
    std::uint32_t ends[3] = {1 + static_cast<std::uint32_t>(random()) % 0xFFFFFFFFU,
                             1 + static_cast<std::uint32_t>(random()) % 0xFFFFFFFFU,
                             round % 2 == 0 ? 0xFFFFFFFFU : static_cast<std::uint32_t>(random())};
    std::sort(std::begin(ends), std::end(ends));
    const TopkBins bins = topk_bins(std::max(ends[0], 1U), ends[1], ends[2]);
    CHECK(!bins.holds(0));
    CHECK(!bins.holds(bins.low - 1));
    for (const std::uint32_t key :
         {bins.low, ends[1], bins.last, bins.low + (bins.last - bins.low) / 3, bins.last - 1}) {
      if (!bins.holds(key)) {
        continue;
      }
      const int bin = bins.bin_of(key);
      CAPTURE(bins.low, bins.last, bins.shift, key, bin);
      CHECK((bin >= 0 && bin < kTopkBins));
      CHECK((bins.low_of(bin) <= key && key <= bins.last_of(bin)));
      CHECK(bins.last_of(bin) <= bins.last);
    }
  }
  const TopkBins radix = topk_bins(1, 0xFFFFFFFFU, 0xFFFFFFFFU);
  CHECK(radix.shift == 21);
}

TEST_CASE("the sampled threshold admits more than k and believes what k scores reach", "[topk]") {
  for (const std::int64_t length : {8192, 65536, 262144}) {
    int before = 0;
    for (const std::int64_t k : {1, 16, 256, 2048}) {
      const SampleRanks ranks = sample_ranks(length, k);
      const double mean = static_cast<double>(k * kSampleCount) / static_cast<double>(length);
      CHECK(ranks.safe > mean + 2.5 * std::sqrt(mean));
      CHECK(ranks.safe >= before);
      CHECK((ranks.in_warp < 32 && ranks.of_warps < 16));
      CHECK(ranks.warps_reached <= static_cast<int>(16.0 * (1.0 - std::exp(-mean / 16.0))));
      before = ranks.safe;
    }
  }
  CHECK(sample_ranks(600, 599).safe == kSampleCount);
}

TEST_CASE("topk keeps rows apart", "[topk]") {
  const std::vector<float> scores = {1, 3, 2, 9, 7, 8};
  std::vector<std::int32_t> indices(4);
  std::vector<float> values(4);
  topk_cpu(TopkParams<float>{.rows = 2,
                             .length = 3,
                             .k = 2,
                             .scores = scores.data(),
                             .indices = indices.data(),
                             .values = values.data()},
           2);
  CHECK(indices == std::vector<std::int32_t>{1, 2, 0, 2});
  CHECK(values == std::vector<float>{3, 2, 9, 8});
}

TEST_CASE("top_logits lists the largest in order with their log-probabilities", "[top_logits]") {
  const std::int64_t vocab = 513, k = 9;
  std::vector<float> logits = test::random_tensor<float>(2 * vocab, 12, 3.0);
  for (float& value : logits) {
    value = std::round(value * 2.0F) / 2.0F;  // many ties
  }
  logits[3] = -std::numeric_limits<float>::infinity();
  std::vector<std::int32_t> index(static_cast<std::size_t>(2 * k));
  std::vector<float> log_probability(index.size());
  TopLogitsParams<float> p{.rows = 2,
                           .vocab = vocab,
                           .k = k,
                           .logits = logits.data(),
                           .index = index.data(),
                           .log_probability = log_probability.data()};
  top_logits_cpu(p, 1);
  for (std::size_t row = 0; row < 2; ++row) {
    const std::vector<float> one(logits.begin() + static_cast<std::ptrdiff_t>(row) * vocab,
                                 logits.begin() + static_cast<std::ptrdiff_t>(row + 1) * vocab);
    double sum = 0.0;
    for (const float value : one) {
      sum += std::exp(static_cast<double>(value));
    }
    const std::vector<std::int32_t> want = ranked(one);
    for (std::size_t j = 0; j < static_cast<std::size_t>(k); ++j) {
      REQUIRE(index[row * 9 + j] == want[j]);
      CHECK(log_probability[row * 9 + j] ==
            Approx(static_cast<double>(one[static_cast<std::size_t>(want[j])]) - std::log(sum)));
    }
  }
  std::vector<std::int32_t> second(static_cast<std::size_t>(k));
  std::vector<float> second_log(second.size());
  p.rows = 1;
  p.logits = logits.data() + vocab;
  p.index = second.data();
  p.log_probability = second_log.data();
  top_logits_cpu(p, 1);
  CHECK(std::equal(second.begin(), second.end(), index.begin() + k));
  CHECK(std::equal(second_log.begin(), second_log.end(), log_probability.begin() + k));
}

}  // namespace versieve::kernels
