// top_logits on CUDA against the CPU form in double: places exactly, log-probabilities closely; a
// row's bits depend neither on the rows beside it nor on how many there are.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/cpu.h"
#include "tests/gpu/gpu_ops.h"

namespace versieve::kernels {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

struct Lists {
  std::vector<std::int32_t> index;     // [rows, k]
  std::vector<float> log_probability;  // [rows, k], or none
};

// The lists of `rows` rows from `logits` on, in poisoned memory.
template <class T>
Lists gpu_lists(Ops<T>& ops, const T* logits, std::int64_t rows, std::int64_t vocab, std::int64_t k,
                bool scores) {
  const std::size_t count = static_cast<std::size_t>(rows * k);
  OpsBuffer<T, std::int32_t> index(ops, std::vector<std::int32_t>(count, -5));
  OpsBuffer<T, float> log_probability(ops, std::vector<float>(count, 12345.0F));
  ops.top_logits({.rows = rows,
                  .vocab = vocab,
                  .k = k,
                  .logits = logits,
                  .index = index.data(),
                  .log_probability = scores ? log_probability.data() : nullptr});
  return {index.read(), scores ? log_probability.read() : std::vector<float>{}};
}

template <class T>
Lists cpu_lists(const T* logits, std::int64_t rows, std::int64_t vocab, std::int64_t k) {
  const std::vector<double> wide =
      test::widen_all(std::vector<T>(logits, logits + static_cast<std::size_t>(rows * vocab)));
  Lists lists{std::vector<std::int32_t>(static_cast<std::size_t>(rows * k)),
              std::vector<float>(static_cast<std::size_t>(rows * k))};
  top_logits_cpu(TopLogitsParams<double>{.rows = rows,
                                         .vocab = vocab,
                                         .k = k,
                                         .logits = wide.data(),
                                         .index = lists.index.data(),
                                         .log_probability = lists.log_probability.data()},
                 8);
  return lists;
}

void require_close(const std::vector<float>& got, const std::vector<float>& want) {
  for (std::size_t i = 0; i < want.size(); ++i) {
    if (!(std::isnan(got[i]) && std::isnan(want[i]))) {
      INFO("entry " << i);
      REQUIRE(got[i] == Approx(want[i]).epsilon(1e-5).margin(4e-6));
    }
  }
}

// Row `row` of `all` is `alone`, bit for bit.
void require_row(const Lists& all, std::int64_t row, std::int64_t k, const Lists& alone) {
  const std::size_t at = static_cast<std::size_t>(row * k);
  const std::size_t count = static_cast<std::size_t>(k);
  REQUIRE(std::memcmp(alone.index.data(), all.index.data() + at, count * sizeof(std::int32_t)) ==
          0);
  REQUIRE(std::memcmp(alone.log_probability.data(), all.log_probability.data() + at,
                      count * sizeof(float)) == 0);
}

// Lists with and without log-probabilities, and those of single rows.
template <class T>
void check_rows(Ops<T>& ops, const std::vector<T>& logits, std::int64_t vocab, std::int64_t k) {
  const std::int64_t rows = static_cast<std::int64_t>(logits.size()) / vocab;
  INFO("rows " << rows << " V " << vocab << " k " << k);
  const OpsBuffer<T> device_logits(ops, logits);
  const Lists want = cpu_lists(logits.data(), rows, vocab, k);
  const Lists got = gpu_lists(ops, device_logits.data(), rows, vocab, k, true);
  REQUIRE(got.index == want.index);
  require_close(got.log_probability, want.log_probability);
  REQUIRE(gpu_lists(ops, device_logits.data(), rows, vocab, k, false).index == want.index);
  for (const std::int64_t row : {std::int64_t{0}, rows / 2, rows - 1}) {
    require_row(got, row, k, gpu_lists(ops, device_logits.data() + row * vocab, 1, vocab, k, true));
  }
}

template <class T>
void check_top_logits(Ops<T>& ops, std::int64_t vocab, std::int64_t k, bool ties) {
  const std::int64_t rows = 3;
  std::vector<float> values = test::random_tensor<float>(rows * vocab, 7, 2.0);
  for (float& value : values) {
    value = ties ? std::round(value) : value;
  }
  values[1] = -kInfinity;
  // The best of row 1 lie side by side; row 2 begins with a quarter of nothing.
  std::fill_n(values.begin() + vocab + vocab / 3, vocab / 7, 9.0F);
  std::fill_n(values.begin() + 2 * vocab, vocab / 4, -kInfinity);
  check_rows(ops, test::narrow_all<T>(values), vocab, k);
}

// Numbers of all sizes at the cost of a multiplication: some millions are asked for.
template <class T>
std::vector<T> scattered(std::int64_t count, std::uint32_t seed) {
  std::vector<T> values(static_cast<std::size_t>(count));
  std::uint32_t state = seed;
  for (T& value : values) {
    state = state * 1664525U + 1013904223U;
    value = test::narrow<T>(static_cast<float>(state >> 8) * (12.0F / (1 << 24)) - 6.0F);
  }
  return values;
}

// Rows that are hard to rank, one after the other.
template <class T>
std::vector<T> hard_rows(std::int64_t vocab) {
  std::vector<float> values;
  const auto add = [&](auto&& value_of) {
    for (std::int64_t i = 0; i < vocab; ++i) {
      values.push_back(value_of(i));
    }
  };
  const float span = static_cast<float>(vocab);
  add([](std::int64_t) { return 1.5F; });
  add([](std::int64_t) { return kNaN; });
  add([](std::int64_t) { return -kInfinity; });
  add([](std::int64_t) { return kInfinity; });
  add([&](std::int64_t i) { return static_cast<float>(i) / span * 8.0F; });
  add([&](std::int64_t i) { return -static_cast<float>(i) / span * 8.0F; });
  add([](std::int64_t i) { return i % 2 == 0 ? -0.0F : 0.0F; });
  add([](std::int64_t i) { return i % 3 == 0 ? kNaN : i % 3 == 1 ? -kInfinity : -0.0F; });
  add([&](std::int64_t i) { return i == vocab - 1 ? -3.0F : -kInfinity; });
  add([&](std::int64_t i) { return i == vocab - 1 ? -kInfinity : kNaN; });
  add([](std::int64_t i) { return i % 5 == 0 ? 1e4F : -3e38F; });
  add([](std::int64_t i) { return static_cast<float>(i % 64 / 8); });   // best late in each word
  add([](std::int64_t i) { return static_cast<float>(-(i % 1024)); });  // best in one lane a piece
  add([&](std::int64_t i) { return i < vocab - 70 ? -1.0F : 2.0F; });
  add([](std::int64_t i) { return static_cast<float>(i % 7) * 1e-40F; });  // denormals
  return test::narrow_all<T>(values);
}

}  // namespace

TEMPLATE_TEST_CASE("CUDA top_logits lists what the CPU lists, ties included", "[top_logits]", float,
                   Bf16) {
  const auto ops = test::try_gpu_ops<TestType>();
  if (!ops) {
    return;
  }
  for (const std::int64_t vocab : {64, 100, 272, 512, 513, 1024, 1025, 1027, 2048, 2056, 4096, 4100,
                                   16384, 32000, 32003, 50257, 128256, 131072, 262144}) {
    for (const std::int64_t k : {1, 2, 8, 16, 33, 64}) {
      check_top_logits<TestType>(*ops, vocab, k, false);
      check_top_logits<TestType>(*ops, vocab, k, true);
    }
  }
}

TEMPLATE_TEST_CASE("CUDA top_logits lists rows that are hard to rank", "[top_logits]", float,
                   Bf16) {
  const auto ops = test::try_gpu_ops<TestType>();
  if (!ops) {
    return;
  }
  for (const std::int64_t vocab : {1025, 1032, 2047, 32000, 50257, 128256}) {
    const std::vector<TestType> logits = hard_rows<TestType>(vocab);
    for (const std::int64_t k : {1, 8, 64}) {
      check_rows(*ops, logits, vocab, k);
    }
  }
}

TEMPLATE_TEST_CASE("CUDA top_logits lists any number of rows alike", "[top_logits]", float, Bf16) {
  const auto ops = test::try_gpu_ops<TestType>();
  if (!ops) {
    return;
  }
  for (const std::int64_t rows : {1, 3, 8, 16, 17, 64, 128, 200}) {
    for (const std::int64_t vocab : {1025, 32000, 128256}) {
      const std::vector<TestType> logits =
          scattered<TestType>(rows * vocab, static_cast<std::uint32_t>(rows + vocab));
      check_rows(*ops, logits, vocab, 1);
      check_rows(*ops, logits, vocab, 8);
    }
  }
  check_rows(*ops, scattered<TestType>(700 * 1048, 5), 1048, 2);
}

TEMPLATE_TEST_CASE("CUDA top_logits takes rows that are not on 16 bytes", "[top_logits]", float,
                   Bf16) {
  const auto ops = test::try_gpu_ops<TestType>();
  if (!ops) {
    return;
  }
  constexpr std::int64_t kVocab = 32000;
  const std::vector<TestType> logits = scattered<TestType>(2 * kVocab + 1, 9);
  const OpsBuffer<TestType> device_logits(*ops, logits);
  for (const std::int64_t k : {1, 8}) {
    const Lists want = cpu_lists(logits.data() + 1, 2, kVocab, k);
    const Lists got = gpu_lists(*ops, device_logits.data() + 1, 2, kVocab, k, true);
    REQUIRE(got.index == want.index);
    require_close(got.log_probability, want.log_probability);
    REQUIRE(gpu_lists(*ops, device_logits.data() + 1, 2, kVocab, k, false).index == want.index);
    const std::vector<TestType> shifted(logits.begin() + 1, logits.end());
    const OpsBuffer<TestType> aligned(*ops, shifted);
    require_row(got, 1, k, gpu_lists(*ops, aligned.data() + kVocab, 1, kVocab, k, true));
  }
}

// For checkers that slow kernels a thousandfold: a short row, and long ones of both kernels.
TEST_CASE("CUDA top_logits lists what the CPU lists in some small shapes", "[top_logits][race]") {
  const auto ops = test::try_gpu_ops<float>();
  const auto bf16_ops = test::try_gpu_ops<Bf16>();
  if (!ops || !bf16_ops) {
    return;
  }
  check_top_logits<float>(*ops, 513, 8, true);
  check_top_logits<float>(*ops, 32003, 8, false);
  check_top_logits<float>(*ops, 4100, 1, true);
  check_top_logits<Bf16>(*bf16_ops, 32000, 1, false);
  check_top_logits<Bf16>(*bf16_ops, 128256, 8, true);
  check_rows(*bf16_ops, scattered<Bf16>(20 * 4104, 3), 4104, 1);
}

}  // namespace versieve::kernels
