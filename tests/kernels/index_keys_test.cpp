// index_keys and index_query on the CPU: which elements go where, counts on the device, and that
// their traffic is what they load and store.
#include <catch2/catch.hpp>
#include <numeric>

#include "kernels/cpu.h"
#include "model/launches/index_scores.h"

namespace versieve::kernels {
namespace {

std::vector<double> counted(std::int64_t count, double first = 1.0) {
  std::vector<double> values(static_cast<std::size_t>(count));
  std::iota(values.begin(), values.end(), first);
  return values;
}

}  // namespace

TEST_CASE("an index shape holds the slowest pairs of all KV heads in 64 or 128 elements") {
  const auto check = [](std::int64_t heads, std::int64_t kv, std::int64_t dim, std::int64_t pairs,
                        std::int64_t width, std::int64_t index_heads) {
    const IndexShape index = index_shape(heads, kv, dim);
    CHECK(index.pairs == pairs);
    CHECK(index.dim == width);
    CHECK(index.heads == index_heads);
  };
  check(32, 8, 64, 8, 128, 32);
  check(32, 8, 128, 8, 128, 32);
  check(9, 3, 64, 21, 128, 16);
  check(4, 2, 16, 8, 64, 8);
  check(64, 64, 128, 1, 128, 64);
  check(1, 1, 256, 64, 128, 8);
}

TEST_CASE("index_keys takes the slowest pairs of every KV head, of the tokens that are new") {
  const IndexShape index{.pairs = 1, .dim = 6, .heads = 8};
  const std::vector<double> k = counted(2 * 4 * 2 * 4);  // two layers of four rows, G 2, d 4
  std::vector<double> keys(2 * 5 * 6, -1.0);
  IndexKeysParams<double> p{.layers = 2,
                            .num_kv_heads = 2,
                            .head_dim = 4,
                            .index = index,
                            .first_token = 1,
                            .length = 3,
                            .k_layer_rows = 4,
                            .key_layer_rows = 5,
                            .k = k.data(),
                            .keys = keys.data()};
  index_keys_cpu(p, 2);
  // Of a head's elements 0 to 3 the pair (1, 3); token t of layer l begins at 1 + 32 l + 8 t.
  for (std::size_t layer = 0; layer < 2; ++layer) {
    for (std::size_t token = 0; token < 5; ++token) {
      const std::size_t at = (layer * 5 + token) * 6;
      const std::vector<double> row(keys.begin() + static_cast<std::ptrdiff_t>(at),
                                    keys.begin() + static_cast<std::ptrdiff_t>(at) + 6);
      const double base =
          1.0 + 32.0 * static_cast<double>(layer) + 8.0 * static_cast<double>(token);
      CAPTURE(layer, token);
      CHECK(row == (token == 1 || token == 2
                        ? std::vector<double>{base + 1, base + 3, base + 5, base + 7, 0, 0}
                        : std::vector<double>(6, -1.0)));
    }
  }
  // The same of a length on the device: the newest token of three.
  std::vector<double> again(keys.size(), -1.0);
  const StepCounts counts{.context_len = 3};
  p.counts = &counts;
  p.first_token = 0;
  p.length = 1;
  p.keys = again.data();
  index_keys_cpu(p, 1);
  CHECK(again[12] == keys[12]);
  CHECK(again[5] == -1.0);
  CHECK(again[6] == -1.0);
}

TEST_CASE("index keys of a sequence in pages are those of its rows side by side") {
  constexpr std::int64_t kTokens = 150, kPages = 5, kWidth = 2 * 4;
  const IndexShape index{.pairs = 1, .dim = 6, .heads = 8};
  const std::vector<std::int32_t> page = {3, 0, 4};
  const std::vector<double> k = counted(2 * kTokens * kWidth);  // of two layers
  std::vector<double> paged(2 * kPages * kPageRows * kWidth, 7.0), keys(2 * kTokens * 6, -1.0);
  for (std::int64_t row = 0; row < 2 * kTokens; ++row) {
    const std::int64_t to =
        row / kTokens * kPages * kPageRows + row_in_page(page.data(), row % kTokens);
    std::copy_n(k.begin() + row * kWidth, kWidth, paged.begin() + to * kWidth);
  }
  std::vector<double> from_pages = keys;
  IndexKeysParams<double> p{.layers = 2,
                            .num_kv_heads = 2,
                            .head_dim = 4,
                            .index = index,
                            .first_token = 60,
                            .length = kTokens,
                            .k_layer_rows = kTokens,
                            .key_layer_rows = kTokens,
                            .k = k.data(),
                            .keys = keys.data()};
  index_keys_cpu(p, 1);
  p.k_layer_rows = kPages * kPageRows;
  p.pages = {.page = page.data(), .count = kPages};
  p.k = paged.data();
  p.keys = from_pages.data();
  index_keys_cpu(p, 1);
  CHECK(keys[(kTokens - 1) * 6] == k[(kTokens - 1) * kWidth + 1]);
  CHECK(from_pages == keys);
}

TEST_CASE("index_query puts a head's pairs in its KV head's place and lists the newest tokens") {
  const IndexShape index{.pairs = 1, .dim = 6, .heads = 8};
  const std::vector<double> q = counted(4 * 4);  // H 4, G 2, d 4
  std::vector<double> query(8 * 6, -1.0);
  std::vector<std::int32_t> list = {4, 2, 9, -7, -7}, hint(3, -7);
  std::int32_t count = 0;
  IndexQueryParams<double> p{.context_len = 40,
                             .num_heads = 4,
                             .num_kv_heads = 2,
                             .head_dim = 4,
                             .index = index,
                             .chosen = 3,
                             .newest = 2,
                             .q = q.data(),
                             .index_q = query.data(),
                             .list = list.data(),
                             .hint = hint.data(),
                             .count = &count};
  index_query_cpu(p);
  std::vector<double> want(8 * 6, 0.0);
  for (std::size_t h = 0; h < 4; ++h) {
    want[h * 6 + h / 2 * 2] = q[h * 4 + 1];
    want[h * 6 + h / 2 * 2 + 1] = q[h * 4 + 3];
  }
  CHECK(query == want);
  CHECK(hint == std::vector<std::int32_t>{4, 2, 9});
  CHECK(list == std::vector<std::int32_t>{4, 2, 9, 38, 39});
  CHECK(count == 5);
  // Short contexts: all tokens are listed, the chosen ones being the first.
  const StepCounts counts{.context_len = 4};
  p.counts = &counts;
  index_query_cpu(p);
  CHECK(list[3] == 3);
  CHECK(count == 4);
}

TEST_CASE("what index_keys and index_query are said to move is what they load and store") {
  constexpr std::int64_t kHeads = 9, kKvHeads = 3, kDim = 64, kLayers = 2, kTokens = 5;
  const IndexShape index = index_shape(kHeads, kKvHeads, kDim);
  std::int64_t of_token = 0, of_query = 0;
  for (std::int64_t e = 0; e < index.dim; ++e) {
    of_token += index_slot(index, e) < kKvHeads ? 1 : 0;
    for (std::int64_t h = 0; h < kHeads; ++h) {
      of_query += index_slot(index, e) == h / (kHeads / kKvHeads) ? 1 : 0;
    }
  }
  const Traffic keys = traffic::index_keys(kLayers, kTokens, kKvHeads, index, 2);
  CHECK(keys.total_read() == static_cast<double>(2 * kLayers * kTokens * of_token));
  CHECK(keys.total_write() == static_cast<double>(2 * kLayers * kTokens * index.dim));
  const Traffic query = traffic::index_query(kHeads, index, 2048, 64, 2);
  CHECK(query.total_read() == static_cast<double>(2 * of_query + 4 * 2048));
  CHECK(query.total_write() ==
        static_cast<double>(2 * index.heads * index.dim + 4 * (2048 + 64 + 1)));
}

}  // namespace versieve::kernels
