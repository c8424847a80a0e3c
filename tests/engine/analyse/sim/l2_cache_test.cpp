// One partition of L2: order of replacement, sectors, write-back.
#include "engine/analyse/sim/l2_cache.h"

#include <catch2/catch.hpp>

using versieve::engine::L2Partition;
using versieve::engine::line_hash;
using versieve::engine::LineStay;

namespace {

constexpr std::int64_t kWays = 4;

// One set of four lines, replaced strictly in order of use.
L2Partition one_set(std::int64_t victim_ways = 1) {
  return L2Partition(kWays * 128, {.ways = kWays, .victim_ways = victim_ways, .dirty_ways = kWays});
}

L2Partition::Outcome read(L2Partition& cache, std::uint64_t line, unsigned mask = 0xF) {
  return cache.read(line, line_hash(line), mask);
}
L2Partition::Outcome write(L2Partition& cache, std::uint64_t line, unsigned mask = 0xF) {
  return cache.write(line, line_hash(line), mask);
}

}  // namespace

TEST_CASE("a set keeps the lines that were used last") {
  L2Partition cache = one_set();
  for (const std::uint64_t line : {1U, 2U, 3U, 4U}) {
    CHECK(read(cache, line).hit == 0);
  }
  CHECK(read(cache, 1).hit == 0xF);
  read(cache, 5);  // replaces 2, the least recent
  CHECK(read(cache, 1).hit == 0xF);
  CHECK(read(cache, 3).hit == 0xF);
  CHECK(read(cache, 4).hit == 0xF);
  CHECK(read(cache, 2).hit == 0);
}

TEST_CASE("sectors of a line are valid each for itself") {
  L2Partition cache = one_set();
  CHECK(read(cache, 7, 0b0011).hit == 0);
  CHECK(read(cache, 7, 0b0110).hit == 0b0010);
  CHECK(read(cache, 7, 0b1111).hit == 0b0111);
  CHECK(read(cache, 7, 0b1111).hit == 0b1111);
}

TEST_CASE("dirty sectors are written back once, when their line is replaced") {
  L2Partition cache = one_set();
  write(cache, 1, 0b0101);
  CHECK(cache.dirty_sectors() == 2);
  for (const std::uint64_t line : {2U, 3U, 4U}) {
    CHECK(read(cache, line).victim_dirty == 0);
  }
  const L2Partition::Outcome outcome = read(cache, 5);
  CHECK(outcome.victim == 1);
  CHECK(outcome.victim_dirty == 0b0101);
  CHECK(cache.dirty_sectors() == 0);
  read(cache, 1);
  for (const std::uint64_t line : {6U, 7U, 8U, 9U}) {
    CHECK(read(cache, line).victim_dirty == 0);
  }
}

TEST_CASE("a dropped copy is gone and its way is filled next") {
  L2Partition cache = one_set();
  for (const std::uint64_t line : {1U, 2U, 3U, 4U}) {
    read(cache, line);
  }
  cache.drop(3, line_hash(3), 0xF);
  CHECK(read(cache, 9).hit == 0);  // takes the empty way
  for (const std::uint64_t line : {1U, 2U, 4U, 9U}) {
    CHECK(read(cache, line).hit == 0xF);
  }
  cache.drop(1, line_hash(1), 0b0001);
  CHECK(read(cache, 1).hit == 0b1110);
}

TEST_CASE("random replacement takes one of the least recent ways and repeats itself") {
  for (int run = 0; run < 2; ++run) {
    L2Partition cache = one_set(2);
    for (const std::uint64_t line : {1U, 2U, 3U, 4U}) {
      read(cache, line);
    }
    read(cache, 5);
    CHECK(read(cache, 3).hit == 0xF);
    CHECK(read(cache, 4).hit == 0xF);
    static unsigned first_run = 0;
    const unsigned kept = read(cache, 1).hit == 0xF ? 1 : 2;
    first_run = run == 0 ? kept : first_run;
    CHECK(kept == first_run);
  }
}

TEST_CASE("a set with too many dirty lines cleans the least recent and keeps it") {
  L2Partition cache(kWays * 128, {.ways = kWays, .victim_ways = 1, .dirty_ways = 2});
  CHECK(write(cache, 1).cleaned_dirty == 0);
  CHECK(write(cache, 2, 0b0011).cleaned_dirty == 0);
  CHECK(write(cache, 1).cleaned_dirty == 0);  // dirty already
  const L2Partition::Outcome outcome = write(cache, 3);
  CHECK(outcome.cleaned == 2);
  CHECK(outcome.cleaned_dirty == 0b0011);
  CHECK(read(cache, 2, 0b0011).hit == 0b0011);
  CHECK(cache.dirty_sectors() == 8);
}

TEST_CASE("how many ways lines that leave first have is the machine's") {
  constexpr std::int64_t kManyWays = 8;
  for (const std::int64_t own : {2, 3, 5}) {
    L2Partition cache(kManyWays * 128, {.ways = kManyWays,
                                        .victim_ways = 1,
                                        .dirty_ways = kManyWays,
                                        .first_ways = own,
                                        .forgotten_fills = 100});
    for (std::uint64_t line = 1; line <= 8; ++line) {
      read(cache, line);
    }
    for (std::uint64_t line = 100; line < 150; ++line) {
      cache.read(line, line_hash(line), 0xF, LineStay::kLeavesFirst);
    }
    std::int64_t kept = 0;
    for (std::uint64_t line = 100; line < 150; ++line) {
      kept += cache.find(line, line_hash(line), 0xF) == 0xF ? 1 : 0;
    }
    CHECK(kept == own);
    for (std::uint64_t line = 200; line < 300; ++line) {
      cache.read(line, line_hash(line), 0xF, LineStay::kLeavesFirst);
    }
    CHECK(cache.find(8, line_hash(8), 0xF) == 0);  // after so many fills it is forgotten
  }
}

TEST_CASE("lines that leave first have three ways of a set and no more") {
  constexpr std::int64_t kManyWays = 8;
  L2Partition cache(kManyWays * 128,
                    {.ways = kManyWays, .victim_ways = 1, .dirty_ways = kManyWays});
  const auto stream = [&](std::uint64_t line) {
    return cache.read(line, line_hash(line), 0xF, LineStay::kLeavesFirst);
  };
  for (std::uint64_t line = 1; line <= 8; ++line) {
    read(cache, line);
  }
  for (std::uint64_t line = 100; line < 150; ++line) {
    CHECK(stream(line).hit == 0);
  }
  for (std::uint64_t line = 4; line <= 8; ++line) {
    CHECK(cache.find(line, line_hash(line), 0xF) == 0xF);
  }
  for (std::uint64_t line = 147; line < 150; ++line) {
    CHECK(cache.find(line, line_hash(line), 0xF) == 0xF);
  }
  CHECK(cache.find(146, line_hash(146), 0xF) == 0);
  read(cache, 9);  // takes the place of one of them
  CHECK(cache.find(147, line_hash(147), 0xF) == 0);
  CHECK(cache.find(4, line_hash(4), 0xF) == 0xF);
}

TEST_CASE("a stream of lines that leave first takes over lines that nobody asks for") {
  L2Partition cache = one_set();
  const auto stream = [&](std::uint64_t line) {
    cache.read(line, line_hash(line), 0xF, LineStay::kLeavesFirst);
  };
  read(cache, 1);
  for (std::uint64_t line = 100; line < 250; ++line) {
    stream(line);
  }
  CHECK(read(cache, 1).hit == 0xF);  // asked for again
  for (std::uint64_t line = 300; line < 450; ++line) {
    stream(line);
  }
  CHECK(cache.find(1, line_hash(1), 0xF) == 0xF);
  for (std::uint64_t line = 450; line < 550; ++line) {
    stream(line);
  }
  CHECK(cache.find(1, line_hash(1), 0xF) == 0);
}

TEST_CASE("lines that leave last are spared while there are others") {
  L2Partition cache = one_set();
  cache.read(1, line_hash(1), 0xF, LineStay::kLeavesLast);
  for (std::uint64_t line = 2; line < 40; ++line) {
    read(cache, line);
  }
  CHECK(cache.find(1, line_hash(1), 0xF) == 0xF);
  CHECK(cache.find(36, line_hash(36), 0xF) == 0);
}
