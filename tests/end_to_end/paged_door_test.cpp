// Keys in pages of any size and both orders, as serving engines hold them: the same bits as side by
// side, and a sentence for a table that cannot be.
#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>
#include <random>

#include "tests/end_to_end/door_case.h"
#include "tests/support/errors.h"

using namespace versieve;
using namespace versieve::engine;
using namespace versieve::test;

namespace {

// k and v [L, G, d] of a file scattered over more pages than are needed; the rest holds NaN.
TensorSet paged(TensorSet set, std::int64_t page, bool heads_first, std::uint64_t seed) {
  const Shape of = set.tensors.at("v").shape;
  const std::int64_t context_len = of[0], heads = of[1], width = of[2];
  const std::int64_t needed = (context_len + page - 1) / page;
  const std::int64_t pages = needed + 3;
  std::vector<std::int32_t> table(static_cast<std::size_t>(pages));
  std::iota(table.begin(), table.end(), 0);
  std::mt19937_64 rng(seed);
  std::shuffle(table.begin(), table.end(), rng);
  for (const char* name : {"k", "v"}) {
    const Tensor& plain = set.tensors.at(name);
    const std::vector<double> values = values_as<double>(
        TensorView{.type = plain.type, .shape = plain.shape, .bytes = plain.bytes}, name);
    std::vector<double> out(static_cast<std::size_t>(pages * page * heads * width),
                            std::numeric_limits<double>::quiet_NaN());
    for (std::int64_t i = 0; i < context_len * heads * width; ++i) {
      const std::int64_t token = i / (heads * width), head = i / width % heads, at = i % width;
      const std::int64_t in = table[static_cast<std::size_t>(token / page)];
      const std::int64_t row = heads_first ? (in * heads + head) * page + token % page
                                           : (in * page + token % page) * heads + head;
      out[static_cast<std::size_t>(row * width + at)] = values[static_cast<std::size_t>(i)];
    }
    const Shape shape =
        heads_first ? Shape{pages, heads, page, width} : Shape{pages, page, heads, width};
    set.tensors[std::string(name) + "_pages"] = tensor_of(out, shape);
    set.tensors.erase(name);
  }
  std::fill(table.begin() + needed, table.end(), -1);  // as engines fill their tables up
  set.tensors["page_table"] = tensor_of(table, {pages});
  set.metadata["context_len"] = std::to_string(context_len);
  if (heads_first) {
    set.metadata["page_layout"] = "HND";
  }
  return set;
}

TensorSet resa_case() {
  std::mt19937_64 rng(3);
  std::normal_distribution<double> normal;
  TensorSet set;
  const auto add = [&](const char* name, const Shape& shape) {
    std::vector<double> values(static_cast<std::size_t>(
        std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>())));
    std::generate(values.begin(), values.end(), [&] { return normal(rng); });
    set.tensors[name] = tensor_of(values, shape);
  };
  add("q", {4, 16});
  add("k", {301, 2, 16});
  add("v", {301, 2, 16});
  set.metadata = {{"key_block", "16"},
                  {"active_ratio", "0.3"},
                  {"n_min", "1"},
                  {"n_local", "1"},
                  {"splits", "3"}};
  return set;
}

void check_same(const TensorSet& plain, const std::string& arguments) {
  const DoorRun side_by_side = run_door_on(plain, arguments);
  INFO(side_by_side.command.err);
  REQUIRE(side_by_side.command.code == 0);
  for (const std::int64_t page : {1, 16, 32, 64, 128, 1000}) {
    for (const bool heads_first : {false, true}) {
      CAPTURE(arguments, page, heads_first);
      const DoorRun run = run_door_on(paged(plain, page, heads_first, 7), arguments);
      INFO(run.command.err);
      REQUIRE(run.command.code == 0);
      for (const auto& [name, tensor] : side_by_side.results.tensors()) {
        const TensorView* got = run.results.find(name);
        REQUIRE(got != nullptr);
        CHECK(std::equal(tensor.bytes.begin(), tensor.bytes.end(), got->bytes.begin(),
                         got->bytes.end()));
      }
    }
  }
}

std::string refusal(const TensorSet& set) {
  const DoorRun run = run_door_on(set, "resa_decode");
  CHECK(run.command.code == 3);
  CHECK(!run.wrote);
  return run.command.err;
}

}  // namespace

TEST_CASE("nsa_verify reads keys in pages of another engine's size") {
  check_same(nsa_tensors(many_blocks_case(2)), "nsa_verify --variant exact --dtype f32");
}

TEST_CASE("resa_decode and block_keys read keys in pages") {
  check_same(resa_case(), "resa_decode --dtype bf16");
  check_same(resa_case(), "block_keys --dtype f64");
}

// Two requests that begin alike, whose tables name pages of one buffer.
TEST_CASE("requests that share pages each read their own keys") {
  for (const std::int64_t page : {16, 32, 64, 128}) {
    CAPTURE(page);
    const std::int64_t shared = 128 / page, context_len = 301;
    const std::int64_t own = (context_len - 128 + page - 1) / page;
    TensorSet plain = resa_case(), all = plain;  // `all`: pages of both
    const std::int64_t pages = shared + 2 * own;
    std::vector<std::int32_t> order(static_cast<std::size_t>(pages));
    std::iota(order.begin(), order.end(), 0);
    std::mt19937_64 rng(static_cast<std::uint64_t>(page));
    std::shuffle(order.begin(), order.end(), rng);
    std::normal_distribution<double> normal;
    for (const char* name : {"k", "v"}) {
      std::vector<double> values(static_cast<std::size_t>(pages * page * 2 * 16));
      std::generate(values.begin(), values.end(), [&] { return normal(rng); });
      all.tensors[std::string(name) + "_pages"] = tensor_of(values, {pages, page, 2, 16});
      all.tensors.erase(name);
    }
    all.metadata["context_len"] = std::to_string(context_len);
    std::vector<std::vector<std::byte>> answers;
    for (const std::int64_t first : {shared, shared + own}) {
      std::vector<std::int32_t> table(order.begin(), order.begin() + shared);
      table.insert(table.end(), order.begin() + first, order.begin() + first + own);
      all.tensors["page_table"] = tensor_of(table, {static_cast<std::int64_t>(table.size())});
      for (const char* name : {"k", "v"}) {  // the same rows side by side
        const Tensor& of = all.tensors.at(std::string(name) + "_pages");
        const std::vector<double> values = values_as<double>(
            TensorView{.type = of.type, .shape = of.shape, .bytes = of.bytes}, name);
        std::vector<double> rows;
        for (std::int64_t token = 0; token < context_len; ++token) {
          const std::int64_t at =
              (table[static_cast<std::size_t>(token / page)] * page + token % page) * 32;
          rows.insert(rows.end(), values.begin() + at, values.begin() + at + 32);
        }
        plain.tensors[name] = tensor_of(rows, {context_len, 2, 16});
      }
      const DoorRun side_by_side = run_door_on(plain, "resa_decode");
      const DoorRun paged_run = run_door_on(all, "resa_decode");
      INFO(paged_run.command.err);
      REQUIRE(side_by_side.command.code == 0);
      REQUIRE(paged_run.command.code == 0);
      const TensorView& want = *side_by_side.results.find("out");
      const TensorView& got = *paged_run.results.find("out");
      answers.emplace_back(got.bytes.begin(), got.bytes.end());
      CHECK(std::equal(want.bytes.begin(), want.bytes.end(), got.bytes.begin(), got.bytes.end()));
    }
    CHECK(answers[0] != answers[1]);
  }
}

TEST_CASE("a table of pages that cannot be is refused by what is wrong with it") {
  for (const std::int64_t page : {16, 32, 64, 128}) {
    for (const bool heads_first : {false, true}) {
      CAPTURE(page, heads_first);
      TensorSet set = paged(resa_case(), page, heads_first, 2);
      const std::int64_t needed = (301 + page - 1) / page, pages = needed + 3;
      std::vector<std::int32_t> table(static_cast<std::size_t>(needed));
      std::iota(table.begin(), table.end(), 0);
      const auto said = [&](std::size_t entry, std::int64_t named) {
        std::vector<std::int32_t> wrong = table;
        wrong[entry] = static_cast<std::int32_t>(named);
        set.tensors["page_table"] = tensor_of(wrong, {needed});
        return refusal(set);
      };
      const std::size_t last = table.size() - 1;
      const std::string last_entry = std::to_string(last);
      CHECK(contains(said(last, -1), "names page -1 at entry " + last_entry));
      CHECK(contains(said(last, pages), "names page " + std::to_string(pages) + " at entry " +
                                            last_entry + ", but there are " +
                                            std::to_string(pages)));
      CHECK(contains(said(last, 1), "names page 1 at entries 1 and " + last_entry));
    }
  }
  const TensorSet right = paged(resa_case(), 16, false, 1);
  TensorSet set = right;
  set.tensors["page_table"] = tensor_of(std::vector<std::int32_t>{1, 2}, {2});
  CHECK(contains(refusal(set), "has 2 entries, but 301 tokens in pages of 16 need 19"));
  set.tensors["page_table"] = tensor_of(std::vector<std::int32_t>(19, 99), {19});
  CHECK(contains(refusal(set), "names page 99 at entry 0, but there are 22"));
  set.tensors["page_table"] = tensor_of(std::vector<std::int32_t>(19, -1), {19});
  CHECK(contains(refusal(set), "names page -1"));
  set = right;
  set.metadata["page_layout"] = "DNH";
  CHECK(contains(refusal(set), "is NHD or HND, not 'DNH'"));
  set = right;
  set.metadata.erase("context_len");
  CHECK(contains(refusal(set), "'context_len' is missing"));
  set.metadata["context_len"] = "-1";
  CHECK(contains(refusal(set), "'context_len' must be an integer from 0"));
  set = right;
  set.tensors["k"] = set.tensors.at("k_pages");
  CHECK(contains(refusal(set), "has both 'k' and 'k_pages'"));
  set = right;
  set.tensors["v_pages"].shape = {22 * 16, 2, 16};
  CHECK(contains(refusal(set), "'v_pages' has the shape [352, 2, 16]"));
  set = right;
  set.tensors.erase("page_table");
  CHECK(contains(refusal(set), "tensor 'page_table' is missing"));
  set = right;
  set.tensors.erase("v_pages");
  CHECK(contains(refusal(set), "tensor 'v_pages' is missing"));
  set = right;
  set.tensors.erase("k_pages");
  CHECK(contains(refusal(set), "tensor 'k_pages' is missing"));
  set = right;  // what is wrong with k or v itself is said of the pages
  set.metadata["context_len"] = "302";
  CHECK(contains(refusal(set), "its pages side by side: tensor 'k' holds a value that is not"));
}
