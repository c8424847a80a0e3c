// token_list by hand and against its rule.
#include "kernels/cpu.h"

#include <catch2/catch.hpp>
#include <random>
#include <vector>

namespace versieve::kernels {
namespace {

using Ints = std::vector<std::int32_t>;

Ints list_of(const Ints& mask, std::int64_t chunk) {
  Ints token(mask.size(), -7);
  std::int32_t count = -7;
  token_list_cpu({.lists = 1,
                  .length = static_cast<std::int64_t>(mask.size()),
                  .chunk = chunk,
                  .mask = mask.data(),
                  .token = token.data(),
                  .count = &count},
                 1);
  for (std::size_t i = static_cast<std::size_t>(count); i < token.size(); ++i) {
    CHECK(token[i] == -7);  // nothing is written behind the list
  }
  token.resize(static_cast<std::size_t>(count));
  return token;
}

}  // namespace

TEST_CASE("a chunk is listed whole if any of its tokens is wanted") {
  CHECK(list_of({0, 0, 0, 0, 1, 0, 0, 0, 0, 1}, 4) == Ints{4, 5, 6, 7, 8, 9});
  CHECK(list_of({1, 0, 1}, 1) == Ints{0, 2});
  CHECK(list_of({0, 0, 0}, 2).empty());
  CHECK(list_of({0, -3, 0}, 99) == Ints{0, 1, 2});
}

TEST_CASE("lists keep apart, and totals grow") {
  const Ints mask = {1, 0, 0, 0, 0, 0, 0, 1};
  Ints token(2 * 5, -7), count(2, -7);
  std::vector<std::int64_t> total = {100, 0};
  const TokenListParams p{.lists = 2,
                          .length = 4,
                          .chunk = 2,
                          .token_stride = 5,
                          .mask = mask.data(),
                          .token = token.data(),
                          .count = count.data(),
                          .total = total.data()};
  token_list_cpu(p, 2);
  token_list_cpu(p, 2);
  CHECK(token == Ints{0, 1, -7, -7, -7, 2, 3, -7, -7, -7});
  CHECK(count == Ints{2, 2});
  CHECK(total == std::vector<std::int64_t>{104, 4});
}

TEST_CASE("token_list takes its length from memory, and masks apart from each other") {
  const std::vector<std::int32_t> mask = {1, 0, 0, 0, 0, 1, 1, 9,  //
                                          0, 0, 0, 1, 1, 0, 1, 9};
  const StepCounts counts{.context_len = 5};
  std::vector<std::int32_t> token(14, -9), count(2, -9);
  token_list_cpu({.lists = 2,
                  .length = 7,
                  .chunk = 2,
                  .token_stride = 7,
                  .mask_stride = 8,
                  .counts = &counts,
                  .mask = mask.data(),
                  .token = token.data(),
                  .count = count.data()},
                 1);
  CHECK(count == std::vector<std::int32_t>{2, 3});
  CHECK(token == std::vector<std::int32_t>{0, 1, -9, -9, -9, -9, -9, 2, 3, 4, -9, -9, -9, -9});
}

}  // namespace versieve::kernels
