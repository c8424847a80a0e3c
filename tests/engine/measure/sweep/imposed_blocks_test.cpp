// Imposed block sets: forced blocks inside, the declared overlap on the mean, U(C, rho) distinct
// blocks of a group.
#include "engine/measure/sweep/imposed_blocks.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "engine/run/speculate/block_statistics.h"
#include "model/launches/distinct_blocks.h"

using namespace versieve;
using namespace versieve::engine;

namespace {

constexpr std::int64_t kHeads = 8;
constexpr std::int64_t kQueries = 256;

std::vector<std::int32_t> imposed(double overlap, std::int32_t own, std::int64_t queries = kQueries,
                                  std::uint64_t seed = 7) {
  SyntheticRandom random(seed);
  return imposed_blocks({}, kHeads,
                        std::vector<std::int32_t>(static_cast<std::size_t>(queries), own), overlap,
                        random);
}

}  // namespace

TEST_CASE("imposed rows are ascending, hold the forced blocks and none that a query cannot see") {
  for (const std::int32_t own : {0, 1, 5, 15, 16, 63, 1024}) {
    const std::vector<std::int32_t> indices = imposed(0.5, own, 20);
    for (std::size_t row = 0; row < indices.size(); row += 16) {
      const std::size_t count = static_cast<std::size_t>(std::min(16, own + 1));
      CAPTURE(own, row);
      for (std::size_t i = 0; i < 16; ++i) {
        CHECK((indices[row + i] == -1) == (i >= count));
        CHECK((i == 0 || i >= count || indices[row + i - 1] < indices[row + i]));
      }
      CHECK(indices[row] == 0);
      CHECK(indices[row + count - 1] == own);
      CHECK((own == 0 || indices[row + count - 2] == own - 1));
    }
  }
}

TEST_CASE("the mean overlap of imposed neighbours is the declared one") {
  for (const double overlap : {0.2, 0.35, 0.5, 0.8, 0.95, 1.0}) {
    const BlockStatistics found = block_statistics(imposed(overlap, 1024), kQueries, kHeads, 16);
    CAPTURE(overlap, *found.adjacent_overlap);
    CHECK(std::abs(*found.adjacent_overlap - overlap) < 0.004);
  }
  // Three forced blocks of 16 are always shared.
  CHECK(*block_statistics(imposed(0.0, 1024), kQueries, kHeads, 16).adjacent_overlap ==
        Approx(3.0 / 16.0));
}

TEST_CASE("a group of imposed queries has U(C, rho) distinct blocks") {
  for (const double overlap : {0.2, 0.5, 0.8, 0.95}) {
    const std::vector<std::int32_t> indices = imposed(overlap, 1024);
    for (const std::int64_t group : {1, 2, 4, 8}) {
      const double expected = distinct_blocks(static_cast<double>(group), 16, 1025, overlap, 1.0);
      const double found = group_blocks(indices, kQueries, kHeads, 16, group);
      CAPTURE(overlap, group, expected, found);
      CHECK(found == Approx(expected).epsilon(0.01));
    }
  }
}

TEST_CASE("the same seed imposes the same blocks, another one others") {
  CHECK(imposed(0.5, 300, 16, 1) == imposed(0.5, 300, 16, 1));
  CHECK(imposed(0.5, 300, 16, 1) != imposed(0.5, 300, 16, 2));
}

TEST_CASE("queries that are blocks apart keep their own forced blocks") {
  SyntheticRandom random(3);
  std::vector<std::int32_t> own;
  for (std::int32_t i = 0; i < 60; ++i) {
    own.push_back(200 + i);
  }
  const std::vector<std::int32_t> indices = imposed_blocks({}, 1, own, 0.8, random);
  for (std::size_t i = 0; i < own.size(); ++i) {
    CHECK(indices[16 * i + 15] == own[i]);
    CHECK(indices[16 * i + 14] == own[i] - 1);
  }
  CHECK(*block_statistics(indices, 60, 1, 16).adjacent_overlap == Approx(0.8).margin(0.02));
}

TEST_CASE("a group's queries take the blocks of their deepest query, the first such") {
  std::vector<std::int32_t> indices = {0, 1, 2, 3, 4};  // one block each
  share_in_groups({10, 11, 11, 10, 12}, 4, indices);
  CHECK(indices == std::vector<std::int32_t>{1, 1, 1, 1, 4});
  std::vector<std::int32_t> grouped = imposed(0.5, 500, 32);
  share_in_groups(std::vector<std::int32_t>(32, 32000), 8, grouped);
  CHECK(group_blocks(grouped, 32, kHeads, 16, 8) == 16.0);
}

TEST_CASE("a pool bounds the distinct blocks and leaves the overlap") {
  SyntheticRandom random(7);
  const std::vector<std::int32_t> indices =
      imposed_blocks({}, kHeads, std::vector<std::int32_t>(kQueries, 1024), 0.8, random, 80);
  const BlockStatistics found = block_statistics(indices, kQueries, kHeads, 16);
  CHECK(found.unique_blocks > 60.0);
  CHECK(found.unique_blocks <= 83.0);  // and three forced ones
  CHECK(std::abs(*found.adjacent_overlap - 0.8) < 0.02);
  CHECK(block_statistics(imposed(0.8, 1024), kQueries, kHeads, 16).unique_blocks > 400.0);
}
